"""The stored answer comes back unchanged."""

from __future__ import annotations

import pytest
from django.http import FileResponse, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from rest_framework.response import Response

from idempotency_app.policy import Effects, Idempotency

from .support import ViewClient, code, is_replay, make_view, row

pytestmark = pytest.mark.django_db


def see_other(request):
    return HttpResponse(status=303, headers={"Location": "/orders/7/"})


@pytest.mark.parametrize(
    ("work", "status", "body"),
    [
        pytest.param(lambda request: Response({"id": 7}, status=201), 201, b'{"id":7}', id="201"),
        pytest.param(lambda request: Response({}, status=202), 202, b"{}", id="202"),
        pytest.param(lambda request: Response(status=204), 204, b"", id="204"),
        pytest.param(lambda request: HttpResponse(status=204), 204, b"", id="204, of Django"),
        pytest.param(see_other, 303, b"", id="303"),
        pytest.param(lambda request: HttpResponseRedirect("/orders/7/"), 302, b"", id="302"),
        pytest.param(lambda request: Response([], status=402), 402, b"[]", id="402"),
    ],
)
def test_b22_a_replay_has_the_status_and_the_body_of_the_first(work, status, body):
    view = make_view(work)
    client = ViewClient(view)
    first, second = client.send("k22"), client.send("k22")
    assert (first.status_code, first.content, is_replay(first)) == (status, body, False)
    assert (second.status_code, second.content, is_replay(second)) == (status, body, True)
    assert first.headers.get("Location") == second.headers.get("Location")
    assert first.headers.get("Content-Type") == second.headers.get("Content-Type")
    assert len(view.calls) == 1


HEADERS = {
    "Location": "/orders/7/",
    "ETag": '"v1"',
    "X-Total": "1",
    "X-Request-ID": "r1",
    "Date": "Tue, 15 Nov 1994 08:12:31 GMT",
    "X-RateLimit-Remaining": "9",
}


@pytest.fixture
def with_headers(settings):
    settings.IDEMPOTENCY_APP = {"REPLAY_HEADERS": ["X-Total"]}
    content_type = "application/json; charset=utf-8"
    view = make_view(
        lambda request: HttpResponse(b'{"id": 7}', content_type=content_type, headers=HEADERS)
    )
    client = ViewClient(view)
    return client.send("k23"), client.send("k23")


def test_b23_headers_that_describe_the_answer_come_back_as_they_were(with_headers):
    first, second = (dict(response.items()) for response in with_headers)
    kept = ["Location", "ETag", "Content-Type", "X-Total"]
    assert [second[name] for name in kept] == [first[name] for name in kept]
    assert second["Content-Type"] == "application/json; charset=utf-8"


def test_b23_headers_of_the_first_exchange_do_not_come_back(with_headers):
    first, second = with_headers
    once = {"X-Request-ID", "Date", "X-RateLimit-Remaining"}
    assert once <= set(first.headers.keys())
    assert not once & set(second.headers.keys())
    assert not [name for name, value in row().headers if name in once]


def test_b23_the_marker_and_the_length_are_the_second_answers(with_headers):
    first, second = with_headers
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.headers["Content-Length"] == str(len(second.content)) == "9"


PDF = b"\x00\xff\xfe%PDF"


def test_b24_binary_bodies_come_back_byte_for_byte():
    client = ViewClient(make_view(lambda request: HttpResponse(PDF, "application/pdf")))
    first, second = client.send("k24"), client.send("k24")
    assert first.content == second.content == PDF
    assert (is_replay(second), second.headers["Content-Type"]) == (True, "application/pdf")
    assert second.data is None


def test_b24_a_stream_reaches_the_first_client_whole_and_is_told_to_the_second():
    consumed = []

    def chunks():
        for chunk in (b"a", b"b", b"c"):
            consumed.append(chunk)
            yield chunk

    view = make_view(lambda request: StreamingHttpResponse(chunks()))
    client = ViewClient(view)
    assert client.send("k24").getvalue() == b"abc"
    second = client.send("k24")
    assert (second.status_code, code(second)) == (409, "response-not-kept")
    assert (len(view.calls), consumed) == (1, [b"a", b"b", b"c"])


def test_b24_a_file_reaches_the_first_client_whole_and_is_told_to_the_second(tmp_path):
    content = b"x" * (3 * 1024 * 1024)
    (tmp_path / "f.bin").write_bytes(content)
    view = make_view(lambda request: FileResponse((tmp_path / "f.bin").open("rb")))
    client = ViewClient(view)
    assert client.send("k24").getvalue() == content
    assert code(client.send("k24")) == "response-not-kept"
    assert len(view.calls) == 1


@pytest.mark.parametrize(("size", "status"), [(100, 201), (101, 409)])
def test_a_body_above_the_limit_is_whole_for_the_first_client_and_not_kept(size, status):
    policy = Idempotency(effects=Effects.LOCAL, max_response_bytes=100)
    view = make_view(lambda request: HttpResponse(b"x" * size, status=201), policy=policy)
    client = ViewClient(view)
    assert client.send().content == b"x" * size
    assert client.send().status_code == status
    assert len(view.calls) == 1


def test_the_limit_of_the_settings_is_one_mebibyte(settings):
    view = make_view(lambda request: HttpResponse(b"x" * request.data["size"], status=201))
    client = ViewClient(view)
    for size, status in ((1024 * 1024, 201), (1024 * 1024 + 1, 409)):
        client.send(f"k{size}", {"size": size})
        assert client.send(f"k{size}", {"size": size}).status_code == status
