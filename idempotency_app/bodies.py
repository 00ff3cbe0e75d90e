"""The body of a request, readable twice: once for the fingerprint, once for the view.

Django gives no public way to put a stream back, so this module reads and sets the private
attributes that `HttpRequest` itself works with: `_stream`, `_read_started`, `_body`, `_post`
and `_files` (django/http/request.py; the same in 5.2 to 6.1).
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO, TypeAlias, cast

from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, QueryDict, UnreadablePostError
from django.utils.datastructures import MultiValueDict

from .spools import BodyReader, KeptStream, Spool, temporary_file

ParsedForm: TypeAlias = "tuple[QueryDict, MultiValueDict[str, UploadedFile[Any]]]"


def keep_body(request: HttpRequest) -> None:
    """Put a stream that can be read again in place of the request's own.

    Call it before anything reads the request. Nothing is read yet; a body that a middleware
    has read before is left as it is.
    """
    stream = getattr(request, "_stream", None)
    if stream is None or hasattr(request, "_body") or isinstance(stream, KeptStream):
        return
    if _seekable(stream):  # ASGI has spooled the whole body already: another copy is waste
        position = stream.tell()
        _set_stream(request, KeptStream(Spool(io.BytesIO(), stream), position))
    elif not _read_started(request):
        _set_stream(request, KeptStream(Spool(stream, temporary_file())))


def open_body(request: HttpRequest) -> BinaryIO:
    """Return a reader of the body from its first byte; reading it takes nothing from the view.

    Raises ImproperlyConfigured where a middleware has read the body and kept nothing, and
    UnreadablePostError where the client cannot be read, here or at a later read.
    """
    keep_body(request)
    if hasattr(request, "_body"):
        return io.BytesIO(request._body)
    stream = getattr(request, "_stream", None)
    if isinstance(stream, KeptStream) and not stream.closed:
        return cast(BinaryIO, _open_kept(stream, _content_length(request)))
    if _content_length(request) and stream is not None:
        raise ImproperlyConfigured(
            "A middleware read the request's body before the view and kept nothing of it, so the "
            "request has no fingerprint. Let the middleware read `request.body` in place of "
            "`request.read()`, or run it on requests without an Idempotency-Key only."
        )
    return io.BytesIO()


def parsed_form(request: HttpRequest) -> ParsedForm | None:
    """Return the fields and files of a form, where a middleware has left nothing else of it.

    None where the body can be read, and where nothing came of it: Django also sets an empty
    form when it could not parse one.
    """
    stream = getattr(request, "_stream", None)
    if hasattr(request, "_body") or isinstance(stream, KeptStream) or not _read_started(request):
        return None
    fields, files = getattr(request, "_post", None), getattr(request, "_files", None)
    if not fields and not files:
        return None
    return cast("ParsedForm", (fields, files))


def close_body(request: HttpRequest) -> None:
    """Give back what `keep_body` opened; to be called when the response has been sent.

    A request that is forgotten without it gives its spool back when it is collected.
    """
    stream = getattr(request, "_stream", None)
    if isinstance(stream, KeptStream):
        stream.close()


class BodyCloser:
    """Close a request's body with its response, which Django does not."""

    def __init__(self, request: HttpRequest | None = None) -> None:
        """Take the request; None in a response that comes out of a cache."""
        self._request = request

    def __call__(self) -> None:
        """Close the body."""
        if self._request is not None:
            close_body(self._request)

    def __reduce__(self) -> tuple[type[BodyCloser], tuple[()]]:
        """Forget the request where the response is put into a cache: it cannot be pickled."""
        return BodyCloser, ()


def _open_kept(stream: KeptStream, length: int) -> BodyReader:
    # Not the fingerprint of a part: the retry, which comes whole, would be another request.
    if stream.size() < length:
        raise UnreadablePostError(
            f"The request's Content-Length is {length}, and its body is shorter: the client went "
            "away, or a middleware read `wsgi.input` past the request."
        )
    return stream.open()


def _content_length(request: HttpRequest) -> int:
    try:
        return max(0, int(request.META.get("CONTENT_LENGTH") or 0))
    except ValueError:
        return 0


def _seekable(stream: Any) -> bool:
    # Python 3.10's SpooledTemporaryFile can be moved and does not say so.
    return bool(stream.seekable()) if hasattr(stream, "seekable") else hasattr(stream, "seek")


def _read_started(request: HttpRequest) -> bool:
    return bool(getattr(request, "_read_started", False))


def _set_stream(request: HttpRequest, stream: KeptStream) -> None:
    request._stream = cast(BinaryIO, stream)
