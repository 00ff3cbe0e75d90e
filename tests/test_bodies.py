from __future__ import annotations

import gc
import io
import tempfile
import tracemalloc
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadhandler import MemoryFileUploadHandler, TemporaryFileUploadHandler
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, UnreadablePostError
from django.http.request import RawPostDataException
from django.test import override_settings
from rest_framework.parsers import FileUploadParser, FormParser, JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from idempotency_app.bodies import close_body, keep_body, open_body
from idempotency_app.fingerprints import fingerprint
from idempotency_app.spools import KeptStream

MIB = 1024 * 1024
JSON = b'{"a": [1, 2],\n "b": "two"}\n'
FORM = b"a=1&b=2&a=3"
FILE = b"line one\nline two\r\n" * 20
MULTIPART = (
    b'--XX\r\nContent-Disposition: form-data; name="sku"\r\n\r\ns1\r\n'
    b'--XX\r\nContent-Disposition: form-data; name="f"; filename="f.bin"\r\n\r\n' + FILE + b"\r\n"
    b"--XX--\r\n"
)
CONTENT = {
    "json": (JSON, "application/json"),
    "form": (FORM, "application/x-www-form-urlencoded"),
    "multipart": (MULTIPART, "multipart/form-data; boundary=XX"),
    "octets": (FILE, "application/octet-stream"),
}


OPEN: list[Any] = []


@pytest.fixture(autouse=True)
def _close_requests():
    """Do what the server does when the response has been sent."""
    yield
    while OPEN:
        OPEN.pop().close()


def wsgi(name: str = "json") -> Any:
    body, content_type = CONTENT[name]
    factory: Any = APIRequestFactory()
    request = factory.generic("POST", "/uploads/", body, content_type=content_type)
    OPEN.append(request)
    return request


def asgi(name: str = "json", *, content_length: bool = True) -> Any:
    body, content_type = CONTENT[name]
    headers = [(b"content-type", content_type.encode())]
    if content_length:
        headers.append((b"content-length", str(len(body)).encode()))
    spooled = tempfile.SpooledTemporaryFile()  # noqa: SIM115  # the request closes it
    spooled.write(body)
    spooled.seek(0)
    scope = {"type": "http", "method": "POST", "path": "/uploads/", "headers": headers}
    OPEN.append(ASGIRequest(scope | {"query_string": b""}, spooled))
    return OPEN[-1]


def lazy(source: object, length: int, content_type: str = "text/plain") -> Any:
    return WSGIRequest(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/uploads/",
            "CONTENT_TYPE": content_type,
            "CONTENT_LENGTH": str(length),
            "wsgi.input": source,
        }
    )


def drf(request: HttpRequest, *parsers: type) -> Request:
    classes = parsers or (JSONParser, FormParser, MultiPartParser)
    context = {"kwargs": {"filename": "up.bin"}}
    return Request(request, parsers=[parser() for parser in classes], parser_context=context)


def read_whole(request: Any) -> Any:
    with open_body(request) as body:
        return body.read()


def files_of(files: Any) -> Any:
    return [(name, f.name, f.read(), type(f).__name__) for name, f in files.items()]


class Hangup(io.RawIOBase):
    """A client that sends 4 bytes and goes away."""

    sent = False

    def read(self, size: int = -1, /) -> bytes:
        if self.sent:
            raise OSError("connection reset by peer")
        self.sent = True
        return b"abcd"


class Zeros(io.RawIOBase):
    """A large body that never exists as a whole."""

    def read(self, size: int = -1, /) -> bytes:
        return bytes(size)


# What a view, or what runs before it, can do with a body; each returns what it saw.


def request_body(request: Any) -> Any:
    return request.body


def request_read(request: Any) -> Any:
    return request.read()


def read_in_pieces(request: Any) -> Any:
    return [request.read(3), request.readline(), request.read(7), request.read()]


def lines(request: Any) -> Any:
    return list(request), request.read()


def readlines(request: Any) -> Any:
    return request.readlines()


def short_lines(request: Any) -> Any:
    return [request.readline(4), request.readline(0), request.readline()]


def body_after_reading(request: Any) -> Any:
    request.read(2)
    with pytest.raises(RawPostDataException):
        _ = request.body
    return request.read()


def body_twice(request: Any) -> Any:
    return request.body, request.body, request.read()


def django_form(request: Any) -> Any:
    return request.POST, files_of(request.FILES)


def drf_data(request: Any) -> Any:
    data: Any = drf(request).data
    return {name: value for name, value in data.items() if name != "f"}


def drf_files(request: Any) -> Any:
    return files_of(drf(request).FILES)


def drf_stream(request: Any) -> Any:
    stream = drf(request).stream
    return stream.read(5), stream.readline(), stream.read()


def drf_body_then_data(request: Any) -> Any:
    wrapped = drf(request)
    return wrapped.body, drf_data(request)


def file_upload_parser(request: Any) -> Any:
    return files_of(drf(request, FileUploadParser).FILES)


def own_upload_handlers(request: Any) -> Any:
    request.upload_handlers = [TemporaryFileUploadHandler(request)]
    return request.POST, files_of(request.FILES)


def inserted_upload_handler(request: Any) -> Any:
    request.upload_handlers.insert(0, MemoryFileUploadHandler(request))
    return request.POST, files_of(request.FILES)


def nothing(request: Any) -> Any:
    return None


ANY = [
    request_body,
    request_read,
    read_in_pieces,
    lines,
    readlines,
    short_lines,
    body_after_reading,
    body_twice,
    drf_stream,
    nothing,
]
WAYS = [(name, way) for name in CONTENT for way in ANY]
# DRF leaves a request that cannot be closed where FileUploadParser meets a form's media type.
WAYS += [(name, file_upload_parser) for name in ("json", "octets")]
WAYS += [(name, drf_data) for name in ("json", "form", "multipart")]
WAYS += [(name, drf_body_then_data) for name in ("json", "form", "multipart")]
WAYS += [(name, django_form) for name in ("form", "multipart")]
WAYS += [("multipart", way) for way in (drf_files, own_upload_handlers, inserted_upload_handler)]
over_ways = pytest.mark.parametrize(
    ("name", "way"), WAYS, ids=[f"{name}-{way.__name__}" for name, way in WAYS]
)
over_servers = pytest.mark.parametrize("make", [wsgi, asgi])


@over_servers
@over_ways
def test_the_view_finds_the_body_as_if_no_fingerprint_were_taken(make, name, way):
    plain, keyed = make(name), make(name)
    keep_body(keyed)
    fingerprint(keyed, target="/uploads/")
    assert way(keyed) == way(plain)


@over_servers
@over_ways
def test_the_view_finds_the_body_where_it_is_kept_and_never_fingerprinted(make, name, way):
    plain, keyed = make(name), make(name)
    keep_body(keyed)
    assert way(keyed) == way(plain)


@over_servers
@over_ways
def test_a_permission_may_use_the_body_before_the_fingerprint_is_taken(make, name, way):
    untouched, keyed = make(name), make(name)
    keep_body(keyed)
    way(keyed)
    assert fingerprint(keyed, target="/") == fingerprint(untouched, target="/")


@over_servers
@pytest.mark.parametrize("name", CONTENT)
def test_what_a_permission_left_of_the_stream_is_what_the_view_gets(make, name):
    request = make(name)
    keep_body(request)
    request.read(5)
    fingerprint(request, target="/")
    assert request.read() == CONTENT[name][0][5:]


def test_data_which_a_permission_parsed_is_still_there_after_the_fingerprint():
    request = wsgi("multipart")
    keep_body(request)
    wrapped: Any = drf(request)
    first = wrapped.data
    fingerprint(request, target="/")
    assert wrapped.data is first
    assert wrapped.data["f"].read() == FILE


@pytest.mark.parametrize("name", CONTENT)
def test_a_body_that_a_middleware_kept_is_the_body(name):
    request = wsgi(name)
    body = request.body
    keep_body(request)
    assert read_whole(request) == body == request.read()


@pytest.mark.parametrize("name", ["json", "octets", "form"])
def test_a_middleware_that_looked_at_post_of_another_type_takes_nothing(name):
    request = wsgi(name)
    _ = request.POST
    keep_body(request)
    assert read_whole(request) == CONTENT[name][0]


@pytest.mark.parametrize("size", [1, -1], ids=["a byte", "all"])
@pytest.mark.parametrize("name", CONTENT)
def test_a_body_that_a_middleware_ate_is_an_error_and_never_nothing(name, size):
    request = wsgi(name)
    request.read(size)
    keep_body(request)
    with pytest.raises(ImproperlyConfigured, match="middleware read the request's body before"):
        fingerprint(request, target="/")


def test_the_empty_form_that_django_sets_for_an_eaten_body_is_an_error_too():
    request = wsgi("multipart")
    request.read()
    assert not request.POST
    keep_body(request)
    with pytest.raises(ImproperlyConfigured):
        fingerprint(request, target="/")


@pytest.mark.parametrize("content_length", [True, False], ids=["with length", "chunked"])
def test_what_a_middleware_read_under_asgi_is_found_again(content_length):
    request = asgi("json", content_length=content_length)
    request.read(5)
    keep_body(request)
    assert read_whole(request) == JSON
    assert request.read() == JSON[5:]


@pytest.mark.parametrize("length", ["", "0", None])
def test_a_request_without_a_body_that_was_read_is_no_error(length):
    request = lazy(io.BytesIO(), 0)
    request.META["CONTENT_LENGTH"] = length
    request.read()
    keep_body(request)
    assert read_whole(request) == b""


def test_a_bare_request_has_an_empty_body():
    request = HttpRequest()
    keep_body(request)
    assert read_whole(request) == b""


def test_a_body_that_was_not_kept_yet_is_kept_when_it_is_opened():
    request = wsgi()
    assert read_whole(request) == JSON
    assert request.read() == JSON


def test_readers_are_independent_of_each_other():
    request = wsgi()
    keep_body(request)
    one, two = open_body(request), open_body(request)
    assert (one.read(4), two.read(2), request.read(6), one.read(2)) == (
        JSON[:4],
        JSON[:2],
        JSON[:6],
        JSON[4:6],
    )


def test_a_closed_reader_leaves_the_body_open_for_the_view():
    request = wsgi()
    keep_body(request)
    open_body(request).close()
    assert request.body == JSON


def test_no_more_is_read_of_the_client_than_is_asked_for():
    source = io.BytesIO(b"x" * MIB)
    request = lazy(source, MIB)
    keep_body(request)
    request.read(10)
    assert source.tell() == 10


def test_the_stream_moves_as_a_file_does():
    request = wsgi()
    keep_body(request)
    stream = request._stream
    assert (stream.seekable(), stream.readable(), stream.writable()) == (True, True, False)
    assert stream.seek(-3, io.SEEK_END) == len(JSON) - 3
    assert stream.read() == JSON[-3:]
    assert stream.seek(-5, io.SEEK_CUR) == stream.tell() == len(JSON) - 5
    assert stream.seek(2) == 2
    assert stream.read(None) == JSON[2:]


@pytest.mark.parametrize("act", [lambda r: r.read(), lambda r: r.body, read_whole, drf_stream])
def test_a_client_that_goes_away_is_an_unreadable_post(act):
    request = lazy(Hangup(), 100)
    keep_body(request)
    with pytest.raises(UnreadablePostError, match="connection reset"):
        act(request)


@pytest.mark.parametrize("name", CONTENT)
def test_a_client_that_goes_away_gets_no_fingerprint(name):
    request = lazy(Hangup(), 100, CONTENT[name][1])
    keep_body(request)
    with pytest.raises(UnreadablePostError):
        fingerprint(request, target="/")


def test_a_body_of_which_nothing_comes_has_no_fingerprint():
    request = lazy(io.BytesIO(), 100)
    keep_body(request)
    with pytest.raises(UnreadablePostError, match="Content-Length is 100"):
        fingerprint(request, target="/")


@override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10)
def test_a_body_too_large_for_memory_is_refused_as_without_a_key():
    request = lazy(io.BytesIO(b"x" * 11), 11)
    keep_body(request)
    fingerprint(request, target="/")
    with pytest.raises(Exception, match="exceeded settings.DATA_UPLOAD_MAX_MEMORY_SIZE"):
        _ = request.body
    assert request.read() == b"x" * 11


@override_settings(FILE_UPLOAD_MAX_MEMORY_SIZE=0)
def test_a_memory_limit_of_zero_spools_to_disk():
    request = wsgi()
    keep_body(request)
    read_whole(request)
    assert request._stream._spool._file._rolled


@override_settings(FILE_UPLOAD_MAX_MEMORY_SIZE=10)
def test_a_spool_on_disk_is_closed_when_its_request_is_collected_even_from_a_cycle():
    request = wsgi()
    request.itself = request
    keep_body(request)
    read_whole(request)
    file = request._stream._spool._file
    OPEN.clear()
    del request
    gc.collect()
    assert file.closed


@over_servers
def test_close_body_gives_the_spool_back(make):
    request = make()
    keep_body(request)
    file = request._stream._spool._file
    close_body(request)
    assert file.closed


def test_close_body_leaves_a_request_alone_that_was_never_kept():
    request = wsgi()
    close_body(request)
    assert request.read() == JSON


def test_asgi_closes_the_spool_at_the_end_of_the_request():
    request = asgi()
    file = request._stream
    keep_body(request)
    request.close()
    assert file.closed


def test_asgi_has_spooled_the_body_and_it_is_not_copied():
    request = asgi()
    file = request._stream
    keep_body(request)
    assert isinstance(request._stream, KeptStream)
    assert request._stream._spool._file is file


def test_a_large_body_is_kept_in_constant_memory():
    request = lazy(Zeros(), 32 * MIB)
    keep_body(request)
    tracemalloc.start()
    with open_body(request) as body:
        size = sum(len(chunk) for chunk in iter(lambda: body.read(64 * 1024), b""))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 32 * MIB
    # Twice Django's 2.5 MiB in memory, for the moment when the spool moves to disk.
    assert peak < 8 * MIB
