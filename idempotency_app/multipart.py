"""A multipart form as its fingerprint sees it: field values, file names and file digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParser, MultiPartParserError

from .bodies import ParsedForm, open_body, parsed_form


def multipart_content(request: HttpRequest) -> list[object] | None:
    """Return the fields and the files' digests, each sorted by name; None if it does not parse."""
    form = parsed_form(request)
    if form is not None:
        return _of_parsed(form, _charset(request))
    # Django's parser takes lower case only, and believes a missing length to mean nothing.
    media_type, _, parameters = request.META.get("CONTENT_TYPE", "").partition(";")
    meta = {"CONTENT_TYPE": f"{media_type.strip().lower()};{parameters}", "CONTENT_LENGTH": "1"}
    files = _FileDigests()
    with open_body(request) as body:
        try:
            fields, _ = _FormParser(meta, body, files, _charset(request)).parse()
        except (MultiPartParserError, SuspiciousOperation, ValueError, LookupError):
            return None
    pairs = [(name, value) for name, values in fields.lists() for value in values]
    return [without_csrf(by_name(pairs)), by_name(files.digests)]


def without_csrf(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out Django's CSRF token, which is masked anew each time that a form is shown."""
    return [pair for pair in pairs if pair[0] != "csrfmiddlewaretoken"]


def by_name(items: Iterable[tuple[str, ...]]) -> list[Any]:
    """Sort by name, and keep the order of the values of one name."""
    return sorted(items, key=itemgetter(0))


def _charset(request: HttpRequest) -> str:
    return request.encoding or settings.DEFAULT_CHARSET


class _FormParser(MultiPartParser):
    """Read names and values as Latin-1, which is to say as bytes; file names as the view will."""

    def __init__(self, meta: Any, body: Any, files: _FileDigests, charset: str) -> None:
        super().__init__(meta, body, [files], "latin-1")
        self._charset = charset

    def sanitize_file_name(self, file_name: str) -> str | None:
        text = file_name.encode("latin-1").decode(self._charset, "replace")
        return super().sanitize_file_name(text)


class _FileDigests(FileUploadHandler):
    """Keep of each file its field's name, its own name and its SHA-256, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.digests: list[tuple[str, str, str]] = []

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._digest = hashlib.sha256()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self._digest.update(raw_data)

    def file_complete(self, file_size: int) -> None:
        # UploadedFile shortens long names; the view sees them so.
        name = UploadedFile(name=self.file_name).name
        self.digests.append((str(self.field_name), str(name), self._digest.hexdigest()))

    def upload_interrupted(self) -> None:
        raise MultiPartParserError("The body ends inside a file.")


def _of_parsed(form: ParsedForm, charset: str) -> list[object]:
    def raw(text: str) -> str:
        return text.encode(charset, "backslashreplace").decode("latin-1")

    fields, files = form
    pairs = [(raw(name), raw(value)) for name, values in fields.lists() for value in values]
    digests = [
        (raw(name), str(file.name), _digest(file)) for name, each in files.lists() for file in each
    ]
    return [without_csrf(by_name(pairs)), by_name(digests)]


def _digest(file: UploadedFile[Any]) -> str:
    position = file.tell()
    digest = hashlib.sha256()
    for chunk in file.chunks():
        digest.update(chunk)
    file.seek(position)
    return digest.hexdigest()
