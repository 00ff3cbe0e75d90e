"""The fingerprint: one hash that says whether two requests ask for the same thing.

The hash is taken over one line of JSON, the head, and the content in its canonical form.
Stored fingerprints outlive a deploy: a change of form is a new `FORM`, and the old one has to
be accepted for one retention.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final
from urllib.parse import parse_qsl

from django.conf import settings
from django.http import HttpRequest

from .bodies import open_body
from .multipart import by_name, multipart_content, without_csrf
from .spools import CHUNK_SIZE

FORM: Final = "v1"

# Parser and encoder recurse, and how deep they get depends on Python and on the stack below
# them. A document nested deeper than this goes by its bytes, everywhere alike.
MAX_DEPTH: Final = 100

# A document of more values than this goes by its bytes too: to sort millions of them costs
# seconds, before anything says whether the request is worth it.
MAX_VALUES: Final = 100_000

Pairs = list[tuple[str, str]]


def fingerprint(request: HttpRequest, *, target: str) -> str:
    """Return 64 hex digits (SHA-256) of method, target, query, media type and content.

    `target` is the path, or `named_target()` for an endpoint with a stable name. JSON and forms
    count by content, everything else, and what does not parse, by its bytes. The view still
    finds the whole body. Raises what `open_body` raises.
    """
    kind, canonical = _canonical(request)
    digest = hashlib.sha256(_dump(_head(request, target, kind)) + b"\n")
    if canonical is not None:
        digest.update(canonical)
        return digest.hexdigest()
    with open_body(request) as body:
        while chunk := body.read(CHUNK_SIZE):
            digest.update(chunk)
    return digest.hexdigest()


def named_target(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """Return the URL's arguments as JSON, in place of the path of an endpoint with a name.

    Values count by their `str()`. It is never equal to a path, which begins with a slash.
    """
    named = sorted((name, str(value)) for name, value in kwargs.items())
    return _dump([[str(value) for value in args], named]).decode()


def _head(request: HttpRequest, target: str, kind: str) -> list[object]:
    query = request.META.get("QUERY_STRING", "")
    pairs = _pairs(query)
    return [
        FORM,
        request.method,
        target,
        query if pairs is None else pairs,
        (request.content_type or "").lower(),
        _parameters(request),
        _content_encoding(request),
        kind,
    ]


def _parameters(request: HttpRequest) -> Pairs:
    # The boundary says nothing; the charset's name ignores case (RFC 9110 §8.3.2).
    parameters = {name.lower(): value for name, value in (request.content_params or {}).items()}
    parameters.pop("boundary", None)
    if "charset" in parameters:
        parameters["charset"] = parameters["charset"].lower()
    return sorted(parameters.items())


def _content_encoding(request: HttpRequest) -> str:
    coding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    return "" if coding == "identity" else coding


def _canonical(request: HttpRequest) -> tuple[str, bytes | None]:
    kind, reader = _reader(request.content_type or "")
    canonical = reader(request) if reader and not _content_encoding(request) else None
    return ("bytes" if canonical is None else kind), canonical


def _reader(media_type: str) -> tuple[str, Callable[[HttpRequest], bytes | None] | None]:
    if media_type == "application/json" or media_type.endswith("+json"):  # RFC 6839 §3.1
        return "json", _json
    if media_type == "application/x-www-form-urlencoded":
        return "form", _form
    if media_type == "multipart/form-data":
        return "multipart", _multipart
    return "bytes", None


def _small_text(request: HttpRequest) -> str | None:
    """Return the body, or None if it is no UTF-8 or too large for Django to read whole."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    with open_body(request) as body:
        data = body.read() if limit is None else body.read(limit + 1)
    try:
        return None if limit is not None and len(data) > limit else data.decode()
    except UnicodeDecodeError:
        return None


def _json(request: HttpRequest) -> bytes | None:
    text = _small_text(request)
    # JSON is UTF-8 (RFC 8259 §8.1); what says that it is something else goes by its bytes.
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if text is None or charset not in {"utf-8", "utf8"} or text.count(",") > MAX_VALUES:
        return None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_Members,
            parse_int=str.encode,
            parse_float=str.encode,
            parse_constant=str.encode,
        )
        return None if _too_deep(text) else _dump(value)
    except (ValueError, RecursionError):
        return None


class _Members:
    """The members of a JSON object, sorted by name; duplicates stay, in their order."""

    __slots__ = ("flat",)

    def __init__(self, pairs: Pairs) -> None:
        self.flat = tuple(x for pair in sorted(pairs, key=itemgetter(0)) for x in pair)


def _tag(value: _Members | bytes) -> dict[str, object]:
    # No dict comes from the parser itself, so a dict is always a tag.
    return {"n": value.decode()} if isinstance(value, bytes) else {"o": value.flat}


def _dump(value: object) -> bytes:
    return json.dumps(value, default=_tag, separators=(",", ":")).encode("ascii")


def _too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for mark in re.sub(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^][{}"]+', "", text):
        depth += 1 if mark in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _form(request: HttpRequest) -> bytes | None:
    text = _small_text(request)
    pairs = None if text is None else _pairs(text.encode().decode("latin-1"))
    return None if pairs is None else _dump(without_csrf(pairs))


def _pairs(text: str) -> Pairs | None:
    """Return the fields sorted by name, or None if they are more than Django would take."""
    try:
        # Latin-1 gives each byte a character of its own, so no two values become one.
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            encoding="latin-1",
            max_num_fields=settings.DATA_UPLOAD_MAX_NUMBER_FIELDS,
        )
    except ValueError:
        return None
    return by_name(pairs)


def _multipart(request: HttpRequest) -> bytes | None:
    content = multipart_content(request)
    return None if content is None else _dump(content)
