"""The line above the list: what a person should look into, counted no further than needed."""

from __future__ import annotations

from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.timesince import timesince

from ..claims import State
from ..fields import DatabaseNow
from ..models import IdempotencyKey

COUNTED = 1000  # rows; above it the number is only that there are too many


def overview(alias: str) -> list[str]:
    """Return what is in flight, stale and unresolved with its oldest age, and what is unreaped."""
    rows = IdempotencyKey.objects.using(alias)
    has_begun = ExpressionWrapper(Q(steps__isnull=False), output_field=BooleanField())
    open_rows = rows.filter(locked_until__isnull=False).order_by("locked_until")
    locks: Any = open_rows.annotate(now=DatabaseNow(), has_begun=has_begun).values_list(
        "state", "locked_at", "locked_until", "now", "has_begun"
    )
    found: dict[str, list[Any]] = {"in flight": [], "stale": [], "unresolved": []}
    for state, locked_at, until, now, begun in locks[: COUNTED + 1]:
        age = (now - locked_at, timesince(locked_at, now))
        if state == State.IN_PROGRESS:
            found["in flight" if until > now else "stale"].append(age)
        if begun and (state == State.RELEASED or until <= now):
            found["unresolved"].append(age)
    is_cut = sum(map(len, found.values())) > COUNTED
    words = [_counted(name, ages, is_cut) for name, ages in found.items()]
    return [*words, _unreaped(rows)]


def _counted(name: str, ages: list[Any], is_cut: bool) -> str:
    number = f"{len(ages):,}{'+' if is_cut else ''} {name}"
    return f"{number}, the oldest {max(ages)[1]}" if ages else number


def _unreaped(rows: Any) -> str:
    oldest = rows.expired().annotate(now=DatabaseNow()).order_by("expires_at")
    first = oldest.values_list("expires_at", "now").first()
    if first is None:
        return "nothing to reap"
    return f"the oldest key to reap expired {timesince(*first)} ago"
