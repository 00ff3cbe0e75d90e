"""Times as a person reads them: relative, with the exact stamp in the title."""

from __future__ import annotations

from datetime import datetime

from django.utils.html import format_html
from django.utils.timesince import timesince


def since(then: datetime, now: datetime) -> str:
    """Return how long ago `then` was; in seconds below a minute, which is a usual lock's time."""
    seconds = int((now - then).total_seconds())
    if 0 <= seconds < 60:
        return f"{seconds}\xa0second{'' if seconds == 1 else 's'}"
    return timesince(then, now)


def relative(moment: datetime, now: datetime) -> str:
    """Return "3 hours ago" or "in 3 hours", as markup with the stamp."""
    if moment <= now:
        return stamped(moment, f"{since(moment, now)} ago")
    return stamped(moment, f"in {since(now, moment)}")


def stamped(moment: datetime, words: str) -> str:
    """Return the words as markup, with the moment in the title."""
    return format_html('<time datetime="{0}" title="{0}">{1}</time>', exact(moment), words)


def exact(moment: datetime) -> str:
    """Return the moment to the second, with its offset from UTC where it has one."""
    return moment.isoformat(sep=" ", timespec="seconds")
