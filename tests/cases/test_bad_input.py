"""What a client gets for a malformed request is what it gets without a key."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import FileUploadParser
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey
from tests.testapp.views import OrderSerializer

from .support import ViewClient, make_bare_view, make_view

pytestmark = pytest.mark.django_db

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PART = b'--AAA\r\nContent-Disposition: form-data; name="sku"%s\r\n\r\n%s\r\n'
UPLOAD = b'; filename="f.bin"\r\nContent-Type: text/plain'
END = b"--AAA--\r\n"
MULTIPART = "multipart/form-data; boundary=AAA"


def refuse(request):
    """Refuse every order, and tell what was read of it."""
    serializer = OrderSerializer(data=request.data)
    serializer.is_valid(raise_exception=True)
    raise ValidationError({"read": serializer.validated_data})


def answer_to(view, content_type, body, **extra):
    """Return status and body, or the name of the exception that would be a 500."""
    client = ViewClient(view, raises=False)
    response: Any = client.generic("POST", "/orders/", body, content_type=content_type, **extra)
    if response.status_code == 500:
        return response.exc_info[0].__name__
    return response.status_code, response.content


BODIES = [
    pytest.param(JSON, b"", id="empty"),
    pytest.param(JSON, b"{", id="truncated"),
    pytest.param(JSON, b'{"sku": "s1"} x', id="more after the end"),
    pytest.param(JSON, b"\xef\xbb\xbf" + b'{"sku": "s1"}', id="BOM"),
    pytest.param(JSON, '{"sku": "s1"}'.encode("utf-16"), id="UTF-16"),
    pytest.param(JSON, b'{"sku": "\xe9"}', id="Latin-1"),
    pytest.param(JSON, b'{"sku": "a\x00b"}', id="raw NUL"),
    pytest.param(JSON, b'{"sku": "a\\u0000b"}', id="NUL"),
    pytest.param(JSON, b'{"sku": "\\ud800"}', id="lone surrogate"),
    pytest.param(JSON, b'{"\\ud800": 1}', id="lone surrogate in a name"),
    pytest.param(JSON, b"[" * 200 + b"]" * 200, id="nested"),
    pytest.param(JSON, b"[" * 100_000 + b"]" * 100_000, id="nested too deep"),
    pytest.param(JSON, b"[" * 100_000, id="nested too deep, truncated"),
    pytest.param(JSON, b"NaN", id="NaN"),
    pytest.param(JSON, b"1" * 5000, id="more digits than Python takes"),
    pytest.param(JSON, b'{"sku": "s1", "amount": 1e999}', id="infinity"),
    pytest.param(JSON, b'{"sku": "s1", "sku": 2, "amount": "x"}', id="the same name twice"),
    pytest.param(JSON, b"null", id="null"),
    pytest.param(JSON, b"[]", id="a list"),
    pytest.param(f"{JSON}; charset=utf-16", b'{"sku": "s"}', id="wrong charset"),
    pytest.param(f"{JSON}; charset=nonsense", b'{"amount": 1}', id="unknown charset"),
    pytest.param(f"{JSON}; charset=hex", b'{"amount": 1}', id="charset that is no text"),
    pytest.param(f"{JSON}; charset=undefined", b'{"amount": 1}', id="charset that only raises"),
    pytest.param(f"{JSON}; charset", b'{"amount": 1}', id="parameter without a value"),
    pytest.param(f"{JSON}; =", b'{"amount": 1}', id="parameter without a name"),
    pytest.param(FORM, b"%", id="bad escape"),
    pytest.param(FORM, b"sku=%00&amount=%ff", id="escaped NUL"),
    pytest.param(FORM, b"&".join([b"a=1"] * 1001), id="too many fields"),
    pytest.param(FORM, b"\xff\xfe=\x00", id="no text"),
    pytest.param(f"{FORM}; charset=hex", b"sku=zz", id="form in a charset that is no text"),
    pytest.param(f"{FORM}; charset=utf-16", b"sku=s", id="form in the wrong charset"),
    pytest.param("multipart/form-data", END, id="no boundary"),
    pytest.param("multipart/form-data; boundary=", END, id="empty boundary"),
    pytest.param("multipart/form-data; boundary=é", END, id="boundary that is no ASCII"),
    pytest.param("multipart/form-data; boundary=" + "a" * 300, END, id="boundary too long"),
    pytest.param("multipart/form-data; boundary=BBB", PART % (b"", b"s") + END, id="another one"),
    pytest.param(MULTIPART, PART % (b"", b"s"), id="no closing boundary"),
    pytest.param(MULTIPART, (PART % (UPLOAD, b"x" * 100))[:-60], id="ends in a file"),
    pytest.param(MULTIPART, b"--AAA\r\n\r\n\r\n" + END, id="part without a name"),
    pytest.param(MULTIPART, b"", id="multipart, empty"),
    pytest.param(MULTIPART, b"no part at all", id="no part at all"),
    pytest.param(MULTIPART, PART % (b"", b"\x00\xff") + END, id="NUL in a part"),
    pytest.param(MULTIPART, (PART % (b"", b"s")) * 1001 + END, id="too many parts"),
    pytest.param(
        MULTIPART,
        PART % (b"\r\nContent-Transfer-Encoding: base64", b"!") + END,
        id="part that is no base64",
    ),
    pytest.param(f"{MULTIPART}; charset=hex", PART % (UPLOAD, b"x") + END, id="file, no text"),
    pytest.param(f"{MULTIPART}; charset=idna", PART % (UPLOAD, b"x") + END, id="file, idna"),
    pytest.param("text/plain", b"hello", id="a type that the view does not take"),
    pytest.param("nonsense", b"hello", id="no type"),
    pytest.param("", b"hello", id="empty type"),
    pytest.param(";;;", b"hello", id="only semicolons"),
    pytest.param("a/b/c; d=e", b"\x00" * 100, id="three parts"),
]


@pytest.mark.parametrize(("content_type", "body"), BODIES)
def test_a_bad_body_is_told_as_without_a_key_and_leaves_the_key_free(content_type, body):
    bare = answer_to(make_bare_view(refuse), content_type, body)
    keyed = answer_to(make_view(refuse), content_type, body, HTTP_IDEMPOTENCY_KEY="k")
    assert keyed == bare
    assert IdempotencyKey.objects.count() == 0
    assert ViewClient(make_view()).send("k").status_code == 201


@pytest.mark.parametrize(("content_type", "body"), BODIES)
def test_a_view_that_does_not_look_at_the_body_takes_any(content_type, body):
    view = make_view(lambda request: Response(status=201))
    first = answer_to(view, content_type, body, HTTP_IDEMPOTENCY_KEY="k")
    again = answer_to(view, content_type, body, HTTP_IDEMPOTENCY_KEY="k")
    assert (first, again, len(view.calls)) == ((201, b""), (201, b""), 1)


HEADERS = [
    pytest.param({"HTTP_ACCEPT": "image/x-unknown"}, id="Accept that nobody renders"),
    pytest.param({"HTTP_ACCEPT": ";;,q=x"}, id="Accept that is no list"),
    pytest.param({"HTTP_CONTENT_ENCODING": "gzip"}, id="Content-Encoding"),
    pytest.param({"CONTENT_LENGTH": "abc"}, id="Content-Length that is no number"),
    pytest.param({"CONTENT_LENGTH": "-1"}, id="Content-Length below zero"),
    pytest.param({"QUERY_STRING": "\xff=%&&=\x00"}, id="query that is no query"),
    pytest.param({"QUERY_STRING": "&".join(["a=1"] * 1001)}, id="query with too many fields"),
    pytest.param({"QUERY_STRING": "format=unknown"}, id="format that nobody renders"),
    pytest.param({"HTTP_AUTHORIZATION": "Basic !"}, id="credentials that are none"),
]


@pytest.mark.parametrize("headers", HEADERS)
def test_a_bad_header_is_told_as_without_a_key(headers):
    body = b'{"sku": "", "amount": 1}'
    bare = answer_to(make_bare_view(refuse), JSON, body, **headers)
    keyed = answer_to(make_view(refuse), JSON, body, HTTP_IDEMPOTENCY_KEY="k", **headers)
    assert keyed == bare
    assert IdempotencyKey.objects.count() == 0


@pytest.mark.parametrize("disposition", ["attachment; filename=a.txt", "attachment", "", "é;;="])
def test_a_file_upload_is_told_as_without_a_key(disposition):
    def work(request):
        return Response({"size": request.data["file"].size}, status=201)

    extra = {"HTTP_CONTENT_DISPOSITION": disposition}
    parsers: dict[str, Any] = {"parser_classes": [FileUploadParser]}
    bare = answer_to(make_bare_view(work, **parsers), "text/plain", b"hello", **extra)
    keyed = answer_to(
        make_view(work, **parsers), "text/plain", b"hello", HTTP_IDEMPOTENCY_KEY="k", **extra
    )
    assert keyed == bare


def test_a_body_above_the_projects_limit_is_told_as_without_a_key(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100

    def work(request):
        return Response({"bytes": len(request.body)}, status=201)

    body = b'"' + b"x" * 1000 + b'"'
    bare = answer_to(make_bare_view(work), JSON, body)
    assert bare[0] in (400, 413)
    assert answer_to(make_view(work), JSON, body, HTTP_IDEMPOTENCY_KEY="k") == bare
    assert IdempotencyKey.objects.count() == 0


@pytest.mark.parametrize("number", range(4))
def test_a_request_that_works_without_a_key_works_with_one(number):
    """The view reads the body in every way that Django and REST framework offer."""

    def work(request):
        reads = (
            lambda: request._request.body,
            lambda: request.stream.read(),
            lambda: request._request.read(),
            lambda: repr(request.data).encode(),
        )
        return Response({"read": reads[number]().decode()}, status=201)

    bare = answer_to(make_bare_view(work), JSON, b'{"sku":"s1"}')
    keyed = answer_to(make_view(work), JSON, b'{"sku":"s1"}', HTTP_IDEMPOTENCY_KEY="k")
    assert (keyed, keyed[0]) == (bare, 201)
