"""Make other data out of some data, by the smallest change that shows."""

from __future__ import annotations

import json
from typing import Any

NO_OBJECT = "The data is no JSON object with fields: give the other body by --changed-data."
NO_FIELD = "There is no field with a number or a text at the top: name one by --field."


def changed_body(body: bytes, path: str | None) -> bytes:
    """Return the JSON object with one field changed: a number one larger, a text one longer.

    The path names it, dotted where it is nested (`payment.amount`, `items.0.price`). Without one
    it is the first number at the top, else the first text, as a changed text is more often
    refused for what it says. Raises ValueError, which says what to do.
    """
    data = _parsed(body)
    if not isinstance(data, dict) or not data:
        raise ValueError(NO_OBJECT)
    *parents, name = path.split(".") if path else [_first_plain(data)]
    try:
        holder: Any = data
        for parent in parents:
            holder = holder[_position(holder, parent)]
        place = _position(holder, name)
        holder[place] = _other(holder[place])
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"There is no field {path!r} with a number or a text.") from error
    return json.dumps(data).encode()


def is_same(one: bytes, other: bytes) -> bool:
    """Whether both say the same, as JSON or byte for byte."""
    return one == other or (_canonical(one) is not None and _canonical(one) == _canonical(other))


def _first_plain(data: dict[str, Any]) -> str:
    for kinds in ((int, float), (str,)):
        for name, value in data.items():
            if type(value) in kinds:  # A bool is an int to isinstance().
                return name
    raise ValueError(NO_FIELD)


def _position(holder: Any, name: str) -> Any:
    return int(name) if isinstance(holder, list) else name


def _other(value: Any) -> Any:
    if type(value) is str:
        return value + "x"
    if type(value) not in (int, float):
        raise TypeError
    # A float so large that one more does not show is halved.
    return value + 1 if value + 1 != value else value / 2


def _canonical(body: bytes) -> str | None:
    data = _parsed(body)
    return None if data is None else json.dumps(data, sort_keys=True)


def _parsed(body: bytes) -> Any:
    """Return the data, or None where it is no JSON, or null."""
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> None:
    """NaN and Infinity are Python's, not JSON's."""
    raise ValueError(name)
