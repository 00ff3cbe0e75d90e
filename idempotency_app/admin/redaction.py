"""Values of the fields that `REDACT_FIELDS` names, masked in what is shown.

A name is compared without regard to case, hyphens and underscores: `client_secret` is also
`clientSecret` and `Client-Secret`. In forms and addresses `card[cvc]` and `card.cvc` are `cvc`.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_plus

from ..conf import app_settings

REDACTED = "[redacted]"


def redacted(data: Any) -> Any:
    """Return decoded JSON with each such field masked, at any depth. Raises RecursionError."""
    if isinstance(data, dict):
        return {
            name: REDACTED if is_secret(name) else redacted(value) for name, value in data.items()
        }
    return [redacted(each) for each in data] if isinstance(data, list) else data


def redacted_form(text: str) -> str:
    """Return a form with its fields masked; text that is none stays as it is."""
    return _redacted_pairs(r"([&\r\n])", text)


def redacted_header(name: str, value: str) -> str:
    """Return the value; masked where the name says so, or in it a field of an address."""
    return REDACTED if is_secret(name) else _redacted_pairs(r"([?&#])", value)


def is_secret(name: str) -> bool:
    """Whether the name, or a part of it in a form's nesting, is one of `REDACT_FIELDS`."""
    names = {name, *re.split(r"[\[\].]+", name)}
    return not {*map(_plain, names)}.isdisjoint(map(_plain, app_settings.REDACT_FIELDS))


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


def _redacted_pairs(separators: str, text: str) -> str:
    return "".join(map(_redacted_pair, re.split(separators, text)))


def _redacted_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={REDACTED}" if equals and is_secret(unquote_plus(name)) else pair
