"""The line above the list: what a person should look into, counted no further than needed."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, IntegerField, Q, Subquery, When

from ..claims import State
from ..fields import DatabaseNow, UTCDateTimeField
from ..models import IdempotencyKey
from .ages import since

# Rows that are looked at, of the live locks and of the lapsed, the longest lapsed first. Each
# is read up to seven times, which stays below 2,000 pages whatever happens.
LOOKED_AT = 250


class OfFirst(Subquery):
    """An aggregate of a column over the first rows; the database reads no others."""

    template = "(SELECT %(aggregate)s(first_rows.%(column)s) FROM (%(subquery)s) first_rows)"


def overview(alias: str) -> list[str]:
    """Return what is in flight, stale and unresolved with its oldest age, and what is unreaped."""
    rows = IdempotencyKey.objects.using(alias)
    live = rows.in_flight()
    lapsed = rows.filter(locked_until__lte=DatabaseNow())
    stale = lapsed.annotate(since=_since(Q(state=State.IN_PROGRESS)))
    unresolved = lapsed.annotate(since=_since(Q(steps__isnull=False)))
    expired = rows.expired().order_by("expires_at").values("expires_at")[:1]
    asked = {
        "now": DatabaseNow(),
        "unreaped": Subquery(expired),
        "lapsed": _count(lapsed, "locked_at"),
        "live": _count(live, "locked_at"),
        "live_since": _oldest(live, "locked_at"),
        "stale": _count(stale, "since"),
        "stale_since": _oldest(stale, "since"),
        "unresolved": _count(unresolved, "since"),
        "unresolved_since": _oldest(unresolved, "since"),
    }
    # One statement, which needs a row to stand on: any.
    found = rows.order_by("-id").annotate(**asked).values(*asked).first() or {}
    return [
        _counted("in flight", "live", "live", found),
        _counted("stale", "stale", "lapsed", found),
        _counted("unresolved", "unresolved", "lapsed", found),
        _unreaped(found),
    ]


def _since(condition: Q) -> Case:
    return Case(When(condition, then="locked_at"), output_field=UTCDateTimeField())


def _count(rows: Any, column: str) -> OfFirst:
    return OfFirst(_first(rows, column), IntegerField(), aggregate="COUNT", column=column)


def _oldest(rows: Any, column: str) -> OfFirst:
    return OfFirst(_first(rows, column), UTCDateTimeField(), aggregate="MIN", column=column)


def _first(rows: Any, column: str) -> Any:
    return rows.order_by("locked_until").values(column)[: LOOKED_AT + 1]


def _counted(words: str, group: str, of: str, found: dict[str, Any]) -> str:
    """Say how many there are; where not all were looked at, at least how many."""
    number = found.get(group) or 0
    is_cut = (found.get(of) or 0) > LOOKED_AT
    if not number:
        return f"0 {words} of the oldest {LOOKED_AT}" if is_cut else f"0 {words}"
    shown = f"{min(number, LOOKED_AT)}+" if is_cut else str(number)
    return f"{shown} {words}, the oldest {since(found[f'{group}_since'], found['now'])}"


def _unreaped(found: dict[str, Any]) -> str:
    if found.get("unreaped") is None:
        return "nothing to reap"
    return f"the oldest key to reap expired {since(found['unreaped'], found['now'])} ago"
