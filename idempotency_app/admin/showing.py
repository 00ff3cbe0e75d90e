"""What is shown of recorded data: redacted, cut, and never as markup."""

from __future__ import annotations

import json
from typing import Any

from ..attempts import Attempt
from ..exceptions import Unreadable
from .redaction import redacted, redacted_form, redacted_header

SHOWN = 10_000  # characters; some screens of JSON
GONE = "Encrypted with a key that is gone."


def body(record: Any) -> str:
    """Return the recorded body for a person's eyes; the template escapes it."""
    try:
        recorded = record.body
    except Unreadable:
        return GONE
    if recorded is None:
        return "Not kept."
    return _cut(_text(recorded), len(recorded)) if recorded else "Empty."


def headers(record: Any) -> list[tuple[str, str]]:
    """Return the recorded headers, redacted by name."""
    try:
        pairs: list[tuple[str, str]] = record.headers
    except Unreadable:
        return []
    return [(_sound(name), _sound(redacted_header(name, value))) for name, value in pairs]


def steps(record: Any, with_results: bool) -> list[dict[str, str]]:
    """Return each step's name, what is known of it, its downstream key and its result."""
    try:
        saved = record.get_steps()
    except Unreadable:
        return [{"name": GONE, "state": "", "downstream_key": "", "result": ""}]
    attempt = Attempt(policy=None, record=record)  # type: ignore[arg-type]
    return [
        {
            "name": _sound(name),
            "state": "finished" if "result" in step else "begun, its end is not known",
            "downstream_key": attempt.downstream_key(name),
            "result": _result(step) if with_results and "result" in step else "",
        }
        for name, step in saved.items()
    ]


def _result(step: dict[str, Any]) -> str:
    text = _json(step["result"])
    return _cut(text, len(text.encode()))


def _text(recorded: bytes) -> str:
    """Return JSON and forms without their secrets, other text as it is.

    What begins like JSON and cannot be read as such is not shown: no field of it could be
    masked.
    """
    try:
        return _json(json.loads(recorded))  # UTF-8, 16 or 32, as JSON may be in.
    except (ValueError, RecursionError):
        pass
    try:
        text = recorded.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return f"{len(recorded):,} bytes, not text."
    if text.lstrip()[:1] in {"{", "["}:
        return f"{len(recorded):,} bytes that begin like JSON and cannot be read as such."
    return redacted_form(text)


def _json(data: Any) -> str:
    return _sound(json.dumps(redacted(data), indent=2, ensure_ascii=False))


def _sound(text: str) -> str:
    """Return the text with half characters (JSON may escape one alone) as their escapes."""
    return text.encode(errors="backslashreplace").decode()


def _cut(text: str, size: int) -> str:
    """Return the beginning of the text, with how many bytes there are in all."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…\n[{size:,} bytes in all]"
