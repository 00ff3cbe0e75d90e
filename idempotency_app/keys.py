"""The Idempotency-Key header: what a client may write there, and which key it means."""

from __future__ import annotations

import re
from typing import Final, cast

import http_sf

from .exceptions import KeyInvalid

HEADER: Final = "Idempotency-Key"

_KEY = re.compile(r"[!-~]{1,255}")
_BARE = re.compile(r'[^",\\]+')


def parse_key(header: str) -> str:
    """Return the key that the header's value names, 1 to 255 visible ASCII characters.

    `header` is the value as WSGI hands it over: bytes, read as Latin-1 (PEP 3333). What begins
    with a quote is a String of RFC 9651 §3.3.3; anything else is a bare key, and both spellings
    are one key. Raises KeyInvalid, which never repeats the value.
    """
    value = header.strip(" \t")
    return check_key(_unquote(value) if value.startswith('"') else _bare(value))


def check_key(key: str) -> str:
    """Return the key; raises KeyInvalid unless it is 1 to 255 visible ASCII characters."""
    if not _KEY.fullmatch(key):
        raise KeyInvalid
    return key


def mask(key: str) -> str:
    """Return what of a key may stand in a log: four characters, none of a key of 8 or fewer."""
    return f"{key[:4]}…" if len(key) > 8 else "…"


def _unquote(value: str) -> str:
    try:
        parsed = http_sf.parse(value.encode("latin-1"), tltype="item")
    except ValueError:  # also of a character that is no Latin-1, and so came from no header
        raise KeyInvalid from None
    item, parameters = cast("tuple[str, dict[str, object]]", parsed)
    if parameters:
        raise KeyInvalid
    return item


def _bare(value: str) -> str:
    # A comma is how servers join two headers of one name (RFC 9110 §5.3).
    if not _BARE.fullmatch(value):
        raise KeyInvalid
    return value
