from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.exceptions import PermissionDenied
from rest_framework.generics import CreateAPIView
from rest_framework.parsers import BaseParser, FileUploadParser
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from idempotency_app.mixins import ClaimMixin, ConflictMixin, IdempotencyMixin, ReplayMixin
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Idempotency
from tests.cases.support import (
    BODY,
    LOCAL,
    ViewClient,
    code,
    create_order,
    is_replay,
    make_view,
    row,
)
from tests.testapp.models import Order
from tests.testapp.views import OrderSerializer, OrderView

pytestmark = pytest.mark.django_db


def test_the_first_request_runs_and_every_retry_gets_its_answer():
    client = ViewClient(OrderView)
    first = client.send()
    order = Order.objects.get()
    assert first.json() == {"id": order.pk, "amount": 100}
    for _ in range(3):
        retry = client.send()
        assert (retry.status_code, retry.content, is_replay(retry)) == (201, first.content, True)
        assert retry.headers["Location"] == first.headers["Location"] == f"/orders/{order.pk}/"
    assert Order.objects.count() == 1


def test_a_request_without_a_key_runs_every_time():
    client = ViewClient(OrderView)
    assert [client.send(None).status_code for _ in range(2)] == [201, 201]
    assert (Order.objects.count(), IdempotencyKey.objects.count()) == (2, 0)


def test_a_generic_view_is_made_safe_to_retry():
    class Orders(IdempotencyMixin, CreateAPIView[Order]):
        idempotency = LOCAL
        queryset = Order.objects.all()
        serializer_class = OrderSerializer

    client = ViewClient(Orders)
    assert [is_replay(client.send()) for _ in range(2)] == [False, True]
    assert client.send("k2", {"amount": "x"}).status_code == 400
    assert IdempotencyKey.objects.count() == 1


@pytest.mark.parametrize(
    "bases", [(IdempotencyMixin, APIView), (ClaimMixin, ReplayMixin, ConflictMixin, APIView)]
)
def test_the_three_mixins_are_the_one(bases):
    client = ViewClient(make_view(bases=bases))
    assert [is_replay(client.send()) for _ in range(2)] == [False, True]
    assert code(client.send(data={})) == "key-reused"


def test_one_view_instance_serves_one_request_and_leaves_its_class_alone():
    view = make_view()
    handler = view.post
    ViewClient(view).send()
    assert view.post is handler


def test_the_handler_gets_the_urls_arguments():
    def work(request, pk, **kwargs):
        return Response({"pk": pk, "more": kwargs})

    client = ViewClient(make_view(work), route="orders/<int:pk>/<slug:name>/")
    assert client.send(to="/orders/7/a/").json() == {"pk": 7, "more": {"name": "a"}}


def test_the_handlers_name_and_description_stay():
    seen = []

    def finalize_response(self, request, response, *args, **kwargs):
        seen.append((self.post.__name__, self.post.__doc__))
        return super(View, self).finalize_response(request, response, *args, **kwargs)

    class View(OrderView):
        pass

    View.finalize_response = finalize_response  # type: ignore[method-assign]
    ViewClient(View).send()
    assert seen == [("post", "Write one order and answer with it.")]


def test_the_work_sees_its_key_and_its_policy():
    def work(request):
        attempt = request.idempotency
        names = [attempt.downstream_key(name) for name in ("a", "b", "a")]
        return Response({"key": attempt.key, "names": names})

    view = make_view(work, policy=LOCAL.over(Idempotency(record_statuses=set())))
    first = ViewClient(view).send('"k-1"').json()
    assert first["key"] == "k-1"
    assert first["names"][0] == first["names"][2] != first["names"][1]


def test_a_refusal_frees_the_downstream_key_for_its_retry_too():
    seen = []

    def work(request):
        seen.append(request.idempotency.downstream_key("charge"))
        return Response(status=400)

    client = ViewClient(make_view(work))
    for key in ("k", "k", "other"):
        client.send(key)
    assert seen[0] == seen[1] != seen[2]


def test_a_check_of_the_projects_own_in_initial_comes_before_the_claim():
    def initial(self, request, *args, **kwargs):
        super(view, self).initial(request, *args, **kwargs)
        raise PermissionDenied

    view = make_view(initial=initial)
    assert ViewClient(view).send().status_code == 403
    assert (view.calls, IdempotencyKey.objects.count()) == ([], 0)


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_a_method_that_the_view_does_not_have_is_405_as_ever(method):
    assert ViewClient(make_view()).send(method=method).status_code == 405
    assert IdempotencyKey.objects.count() == 0


def test_a_first_request_costs_its_work_and_two_statements():
    client = ViewClient(make_view(lambda request: Response(status=201)))
    with CaptureQueriesContext(connection) as queries:
        client.send()
    verbs = [query["sql"].split()[0] for query in queries]
    own = [verb for verb in verbs if verb in ("SELECT", "INSERT", "UPDATE", "DELETE")]
    assert own == (["SELECT"] if connection.vendor == "sqlite" else []) + ["INSERT", "UPDATE"]


def test_a_request_without_a_key_costs_nothing():
    client = ViewClient(make_view(lambda request: Response(status=201)))
    with CaptureQueriesContext(connection) as queries:
        client.send(None)
    assert len(queries) == 0


# Nothing is taken from the view.


class TouchesTheBody(BasePermission):
    def has_permission(self, request, view):
        return request.data is not None


def read_upload(request):
    with request.data["file"] as file:  # REST framework closes the files of forms only
        return file.read()


class Raw(BaseParser):
    media_type = "*/*"

    def parse(self, stream, media_type=None, parser_context=None):
        return stream.read()


@pytest.mark.parametrize(
    ("read", "attributes"),
    [
        pytest.param(lambda request: request.body, {}, id="body"),
        pytest.param(lambda request: request.stream.read(), {}, id="stream"),
        pytest.param(lambda request: request.data, {"parser_classes": [Raw]}, id="parser"),
        pytest.param(
            read_upload,
            {"parser_classes": [FileUploadParser]},
            id="upload",
        ),
        pytest.param(
            lambda request: request.data,
            {"parser_classes": [Raw], "permission_classes": [TouchesTheBody]},
            id="permission that read it",
        ),
    ],
)
@pytest.mark.parametrize("key", [None, "k"])
def test_the_view_reads_the_whole_body(read, attributes, key, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
    body = b"0123456789" * 600_000
    view = make_view(lambda request: Response({"same": read(request) == body}), **attributes)
    headers = {"Content-Disposition": "attachment; filename=f.bin"}
    client = ViewClient(view)
    for _ in range(2):
        response = client.send(key, body, content_type="application/octet-stream", headers=headers)
        assert response.json() == {"same": True}
    assert len(view.calls) == (2 if key is None else 1)


def test_a_middleware_that_read_the_body_is_no_matter(settings):
    settings.MIDDLEWARE = [f"{__name__}.reads_the_body"]
    client = ViewClient(make_view())
    client.send()
    assert is_replay(client.send())
    assert client.send(data={"amount": 7}).status_code == 422


def reads_the_body(get_response):
    def middleware(request):
        assert request.body
        return get_response(request)

    return middleware


def test_a_middleware_that_ate_the_body_is_an_error(settings):
    from django.core.exceptions import ImproperlyConfigured

    settings.MIDDLEWARE = [f"{__name__}.eats_the_body"]
    view = make_view()
    with pytest.raises(ImproperlyConfigured, match="A middleware read the request's body"):
        ViewClient(view).send()
    assert (view.calls, IdempotencyKey.objects.count()) == ([], 0)


def eats_the_body(get_response):
    def middleware(request):
        request.read()
        return get_response(request)

    return middleware


def test_a_form_that_a_middleware_has_parsed_is_told_from_another(settings):
    settings.MIDDLEWARE = [f"{__name__}.parses_the_form"]
    client = ViewClient(make_view(lambda request: Response({"amount": request.data["amount"]})))
    client.send(data=BODY, format="multipart")
    assert is_replay(client.send(data=BODY, format="multipart"))
    assert client.send(data={**BODY, "amount": 7}, format="multipart").status_code == 422


def parses_the_form(get_response):
    def middleware(request):
        assert request.POST
        return get_response(request)

    return middleware


def test_the_rows_of_the_answer_are_what_was_sent():
    client = ViewClient(make_view())
    response = client.send('"k-1"')
    record = row()
    assert (record.key, record.account, record.endpoint) == ("k-1", "auth.user:1", "POST orders/")
    assert bytes(record.response_body or b"") == response.content
    location = ("Location", f"/orders/{response.json()['id']}/")
    assert sorted(record.headers) == [("Content-Type", "application/json"), location]


def test_two_views_of_one_class_do_not_share_a_key():
    from django.urls import path

    view = make_view()
    client = ViewClient([path("a/", view.as_view()), path("b/", view.as_view())])
    assert [is_replay(client.send(to=to)) for to in ("/a/", "/b/", "/a/")] == [False, False, True]


def test_work_may_use_one_key_for_another_view_while_it_runs():
    inner = make_view(lambda request: create_order(request))

    def work(request):
        return Response(ViewClient(inner).send("k").json())

    client = ViewClient(make_view(work), route="outer/")
    assert client.send("k", to="/outer/").status_code == 200
    assert set(IdempotencyKey.objects.values_list("endpoint", flat=True)) == {
        "POST orders/",
        "POST outer/",
    }
