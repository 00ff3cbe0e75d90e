from __future__ import annotations

import pytest
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.template import engines
from django.template.response import TemplateResponse
from rest_framework.exceptions import PermissionDenied
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import (
    AdminRenderer,
    BrowsableAPIRenderer,
    JSONRenderer,
    StaticHTMLRenderer,
    TemplateHTMLRenderer,
)
from rest_framework.response import Response
from rest_framework.settings import api_settings

from idempotency_app.models import IdempotencyKey
from tests.cases.support import BODY, ViewClient, code, create_order, is_replay, make_view, row
from tests.testapp.models import Order

pytestmark = pytest.mark.django_db

HTML = {"Accept": "text/html"}
JSON = {"Accept": "application/json"}


def stored():
    return bytes(row().response_body or b"")


@pytest.mark.parametrize("renderer", [BrowsableAPIRenderer, AdminRenderer])
def test_a_browser_gets_the_page_and_the_apis_bytes_are_recorded(renderer):
    client = ViewClient(make_view(renderer_classes=[JSONRenderer, renderer]))
    accept = {"Accept": renderer.media_type} if renderer is BrowsableAPIRenderer else {}
    to = "/orders/" if accept else "/orders/?format=admin"
    first = client.send(headers=accept, to=to)
    assert first.headers["Content-Type"].startswith("text/html")
    assert stored() == b'{"id":%d,"amount":100}' % Order.objects.get().pk
    assert row().response_status == 201


def test_a_replay_to_a_browser_is_the_apis_answer():
    client = ViewClient(make_view())
    first = client.send(headers=HTML)
    assert b"<html" in first.content
    assert (first.status_code, first.headers["Content-Type"]) == (201, "text/html; charset=utf-8")
    second = client.send(headers=HTML)
    assert (second.content, is_replay(second)) == (stored(), True)
    assert second.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("accept", [HTML, JSON])
def test_a_204_stays_a_204_also_where_a_browser_made_it(accept):
    client = ViewClient(make_view(lambda request: Response(status=204)))
    client.send(headers=accept)
    second = client.send(headers=accept)
    assert (second.status_code, second.content, is_replay(second)) == (204, b"", True)
    assert "Content-Type" not in second.headers


@pytest.mark.django_db(transaction=True)
def test_the_page_is_rendered_outside_of_the_works_transaction(monkeypatch):
    from django.db import connection

    seen = []

    class Page(BrowsableAPIRenderer):
        def render(self, *args, **kwargs):
            seen.append((connection.in_atomic_block, row().state))
            return super().render(*args, **kwargs)

    ViewClient(make_view(renderer_classes=[JSONRenderer, Page])).send(headers=HTML)
    assert seen == [(False, "complete")]


@pytest.mark.django_db(transaction=True)
def test_the_api_answer_is_rendered_inside_of_the_works_transaction():
    from django.db import connection

    seen = []

    class InTransaction(JSONRenderer):
        def render(self, *args, **kwargs):
            seen.append(connection.in_atomic_block)
            return super().render(*args, **kwargs)

    ViewClient(make_view(renderer_classes=[InTransaction])).send()
    assert seen == [True]


def test_another_accept_changes_nothing():
    client = ViewClient(make_view())
    first = client.send(headers=JSON)
    for accept in ("text/html", "application/json; indent=4", "*/*"):
        second = client.send(headers={"Accept": accept})
        assert (second.content, second.headers["Content-Type"]) == (
            first.content,
            first.headers["Content-Type"],
        )


def test_a_replay_has_the_data_that_the_bytes_say():
    client = ViewClient(make_view())
    first, second = client.send(), client.send()
    assert second.data == first.data == second.json()
    assert second.is_rendered


def test_the_data_of_a_replay_is_no_second_way_to_its_bytes():
    def finalize_response(self, request, response, *args, **kwargs):
        response = super(view, self).finalize_response(request, response, *args, **kwargs)
        response.data["seen"] = True
        return response

    view = make_view(finalize_response=finalize_response)
    client = ViewClient(view)
    first, second = client.send(), client.send()
    assert first.content == second.content == stored()


class AlwaysJSON(BaseContentNegotiation):
    def select_parser(self, request, parsers):
        return parsers[0]

    def select_renderer(self, request, renderers, format_suffix=None):
        return renderers[0], "application/json; version=2"


@pytest.mark.parametrize(
    "negotiation", [api_settings.DEFAULT_CONTENT_NEGOTIATION_CLASS, AlwaysJSON]
)
def test_the_content_type_is_replayed_as_it_was_negotiated(negotiation):
    client = ViewClient(make_view(content_negotiation_class=negotiation))
    first, second = client.send(), client.send()
    assert second.headers["Content-Type"] == first.headers["Content-Type"]


TEMPLATE = engines["django"].from_string("<b>{{ name }}</b>")


@pytest.mark.parametrize(
    ("work", "renderers"),
    [
        pytest.param(
            lambda request: TemplateResponse(request._request, TEMPLATE, {"name": "&"}),
            [JSONRenderer],
            id="TemplateResponse",
        ),
        pytest.param(
            lambda request: HttpResponse("<b>&amp;</b>"), [JSONRenderer], id="HttpResponse"
        ),
        pytest.param(
            lambda request: Response("<b>&amp;</b>"), [StaticHTMLRenderer], id="static HTML"
        ),
    ],
)
def test_a_view_may_answer_with_html(work, renderers):
    client = ViewClient(make_view(work, renderer_classes=renderers))
    first, second = client.send(), client.send()
    assert first.content == second.content == stored() == b"<b>&amp;</b>"
    assert first.headers["Content-Type"] == second.headers["Content-Type"]
    assert (is_replay(first), is_replay(second)) == (False, True)


def test_a_template_view_of_rest_framework_is_replayed():
    client = ViewClient(
        make_view(
            lambda request: Response(
                {"title": "t"}, template_name="rest_framework/raw_data_form.html"
            ),
            renderer_classes=[TemplateHTMLRenderer],
        )
    )
    first, second = client.send(), client.send()
    assert first.content == second.content
    assert first.headers["Content-Type"] == second.headers["Content-Type"]


@pytest.mark.parametrize(
    "work",
    [
        lambda request: JsonResponse({"id": 7}),
        lambda request: render(request._request, "rest_framework/raw_data_form.html"),
    ],
)
def test_a_plain_response_of_django_is_replayed(work):
    client = ViewClient(make_view(work))
    first, second = client.send(), client.send()
    assert (second.content, is_replay(second)) == (first.content, True)


KEPT = {
    "Content-Encoding": "identity",
    "Content-Disposition": 'attachment; filename="a.txt"',
    "Content-Language": "de",
    "Content-Location": "/orders/7/",
    "Location": "/orders/7/",
    "ETag": '"v1"',
    "Last-Modified": "Tue, 15 Nov 1994 08:12:31 GMT",
    "Link": "</orders/>; rel=up",
}
DROPPED = {
    "Vary": "Cookie",
    "Cache-Control": "no-store",
    "X-Request-ID": "r1",
    "Traceparent": "00-1-2-01",
    "Server-Timing": "db;dur=1",
    "WWW-Authenticate": "Bearer",
    "Retry-After": "3",
}


def test_the_headers_that_are_kept_are_those_of_the_list():
    client = ViewClient(make_view(lambda request: Response({}, headers={**KEPT, **DROPPED})))
    client.send()
    assert dict(row().headers) == {"Content-Type": "application/json", **KEPT}


@pytest.mark.parametrize("spelling", ["X-Request-ID", "x-request-id", "X-REQUEST-ID"])
def test_the_projects_own_headers_are_kept_in_their_first_spelling(spelling, settings):
    settings.IDEMPOTENCY_APP = {"REPLAY_HEADERS": [spelling]}
    client = ViewClient(make_view(lambda request: Response({}, headers=DROPPED)))
    client.send()
    second = client.send()
    assert ("X-Request-ID", "r1") in list(second.items())
    assert "Traceparent" not in second.headers


def test_a_header_of_a_middleware_is_neither_recorded_nor_missing(settings):
    settings.MIDDLEWARE = ["tests.test_responses.stamping"]
    client = ViewClient(make_view())
    stamps = [client.send().headers["ETag"] for _ in range(2)]
    assert stamps == ['"stamped"', '"stamped"']
    assert "ETag" not in dict(row().headers)


def stamping(get_response):
    def middleware(request):
        response = get_response(request)
        response["ETag"] = '"stamped"'
        return response

    return middleware


def test_cookies_of_middleware_are_set_for_a_replay_too(settings):
    settings.MIDDLEWARE = ["tests.test_responses.baking"]
    client = ViewClient(make_view())
    assert [client.send().cookies["seen"].value for _ in range(2)] == ["1", "1"]


def baking(get_response):
    def middleware(request):
        response = get_response(request)
        response.set_cookie("seen", "1")
        return response

    return middleware


# The hooks.


def test_a_view_may_refuse_a_replay():
    def check_replay(self, request, record):
        if record.response_status == 201 and request.query_params.get("revoked") is None:
            raise PermissionDenied("not yours any more")

    view = make_view(check_replay=check_replay)
    client = ViewClient(view)
    client.send()
    response = client.send()
    assert (response.status_code, is_replay(response)) == (403, False)
    assert b"amount" not in response.content
    assert (len(view.calls), row().response_status) == (1, 201)


def test_a_replay_is_checked_with_the_request_and_its_record():
    seen = []

    def check_replay(self, request, record):
        seen.append((request.data, record.key, bytes(record.response_body), type(record)))

    client = ViewClient(make_view(check_replay=check_replay))
    first = client.send()
    assert seen == []
    client.send()
    assert seen == [(BODY, "k", first.content, IdempotencyKey)]


def test_a_view_may_change_how_a_response_is_replayed():
    def get_replay_response(self, record):
        response = super(view, self).get_replay_response(record)
        response["X-First-Sent"] = record.created_at.isoformat()
        return response

    view = make_view(get_replay_response=get_replay_response)
    client = ViewClient(view)
    client.send()
    second = client.send()
    assert is_replay(second)
    assert second.headers["X-First-Sent"] == row().created_at.isoformat()


@pytest.mark.parametrize("end", ["success", "exception", "refusal", "replay", "problem"])
def test_finalize_response_runs_once(end):
    seen = []

    def finalize_response(self, request, response, *args, **kwargs):
        seen.append(response.status_code)
        return super(view, self).finalize_response(request, response, *args, **kwargs)

    def work(request):
        if end == "exception":
            raise PermissionDenied
        return Response(status=409) if end == "refusal" else create_order(request)

    view = make_view(work, finalize_response=finalize_response)
    client = ViewClient(view)
    if end in ("replay", "problem"):
        client.send()
        seen.clear()
    response = client.send(data={} if end == "problem" else BODY)
    assert seen == [response.status_code]


def test_what_finalize_response_adds_is_recorded_with_the_rows_that_it_writes():
    def finalize_response(self, request, response, *args, **kwargs):
        Order.objects.create(sku="audit")
        response = super(view, self).finalize_response(request, response, *args, **kwargs)
        response.data = {**response.data, "stamp": "s"}
        return response

    view = make_view(finalize_response=finalize_response)
    ViewClient(view).send()
    assert b'"stamp":"s"' in stored()
    assert Order.objects.filter(sku="audit").count() == 1


def test_the_exception_handler_runs_once_and_on_a_sound_connection(monkeypatch):
    seen = []

    def handler(exc, context):
        seen.append(Order.objects.count())
        return Response({"refused": True}, status=400)

    def work(request):
        create_order(request)
        Order.objects.create(pk=Order.objects.get().pk)

    monkeypatch.setattr(api_settings, "EXCEPTION_HANDLER", handler)
    response = ViewClient(make_view(work)).send()
    assert (response.status_code, seen) == (400, [0])


def test_a_problem_is_no_replay_and_a_replay_is_no_problem():
    client = ViewClient(make_view())
    client.send()
    assert not is_replay(client.send(data={}))
    assert code(client.send(data={})) == "key-reused"
    assert client.send().headers["Content-Type"] == "application/json"
