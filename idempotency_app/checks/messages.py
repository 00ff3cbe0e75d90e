"""The form of a check's message: what is wrong, and where to read what to do."""

from __future__ import annotations

from typing import Any

from django.core import checks


def error(number: int, text: str, hint: str, obj: Any = None) -> checks.Error:
    """Return an error with the id `idempotency_app.E…`."""
    return checks.Error(text, _hint(hint), obj, f"idempotency_app.E{number:03}")


def warning(number: int, text: str, hint: str, obj: Any = None) -> checks.Warning:
    """Return a warning with the id `idempotency_app.W…`."""
    return checks.Warning(text, _hint(hint), obj, f"idempotency_app.W{number:03}")


def _hint(hint: str) -> str:
    return f"{hint} See README.md#system-checks."
