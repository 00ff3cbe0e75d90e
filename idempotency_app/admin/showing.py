"""What is shown of recorded data: redacted, cut, and never as markup."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlencode

from ..attempts import Attempt
from ..conf import app_settings
from ..exceptions import Unreadable

SHOWN = 10_000  # characters; some screens of JSON
REDACTED = "[redacted]"
GONE = "Encrypted with a key that is gone."


def body(record: Any) -> str:
    """Return the recorded body for a person's eyes; the template escapes it."""
    try:
        recorded = record.body
    except Unreadable:
        return GONE
    if recorded is None:
        return "Not kept."
    try:
        text = recorded.decode()
    except UnicodeDecodeError:
        return f"{len(recorded):,} bytes, not text."
    return cut(_redacted_text(text), len(recorded))


def cut(text: str, size: int) -> str:
    """Return the beginning of the text, with how many bytes there are in all."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…\n[{size:,} bytes in all]"


def headers(record: Any) -> list[tuple[str, str]]:
    """Return the recorded headers, redacted by name."""
    try:
        pairs: list[tuple[str, str]] = record.headers
    except Unreadable:
        return []
    return [(name, REDACTED if _is_secret(name) else value) for name, value in pairs]


def steps(record: Any, with_results: bool) -> list[dict[str, str]]:
    """Return each step's name, what is known of it, its downstream key and its result."""
    try:
        saved = record.get_steps()
    except Unreadable:
        return [{"name": GONE, "state": "", "downstream_key": "", "result": ""}]
    attempt = Attempt(policy=None, record=record)  # type: ignore[arg-type]
    return [
        {
            "name": name,
            "state": "finished" if "result" in step else "begun, its end is not known",
            "downstream_key": attempt.downstream_key(name),
            "result": _result(step) if with_results and "result" in step else "",
        }
        for name, step in saved.items()
    ]


def _result(step: dict[str, Any]) -> str:
    text = json.dumps(redacted(step["result"]), indent=2, ensure_ascii=False)
    return cut(text, len(text.encode(errors="replace")))


def _redacted_text(text: str) -> str:
    """Redact JSON, and forms; anything else has no fields."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        pairs = parse_qsl(text, keep_blank_values=True)
        if any(_is_secret(name) for name, _ in pairs):
            return urlencode([(n, REDACTED if _is_secret(n) else v) for n, v in pairs])
        return text
    if not isinstance(data, (dict, list)):
        return text
    try:
        return json.dumps(redacted(data), indent=2, ensure_ascii=False)
    except RecursionError:
        return f"{len(text):,} characters of JSON, nested too deep to be shown."


def redacted(data: Any) -> Any:
    """Return the data without the values of the fields that `REDACT_FIELDS` names."""
    if isinstance(data, dict):
        return {
            name: REDACTED if _is_secret(name) else redacted(value) for name, value in data.items()
        }
    return [redacted(each) for each in data] if isinstance(data, list) else data


def _is_secret(name: str) -> bool:
    return name.lower() in {each.lower() for each in app_settings.REDACT_FIELDS}
