"""Fixed choices, each in the order that an index serves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.admin import SimpleListFilter

from ..claims import State
from ..fields import DatabaseNow
from .paging import LISTED
from .situations import HELD

CREATED = {
    "hour": ("Past hour", timedelta(hours=1)),
    "day": ("Past 24 hours", timedelta(days=1)),
    "week": ("Past 7 days", timedelta(days=7)),
}


class StateFilter(SimpleListFilter):
    """By what the row is now, as the database's clock judges."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [
            ("in_flight", "In flight"),
            ("stale", "Stale lock"),
            ("unknown", "Outcome unknown"),
            ("waiting", "Waiting for a retry"),
            ("complete", "Complete"),
            ("expired", "Expired"),
        ]

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the rows of the choice, the oldest first where somebody should look."""
        choice = self.value()
        if choice == "complete":
            return queryset.filter(state=State.COMPLETE)
        if choice == "expired":
            return _oldest_expired(request, queryset)
        if choice == "unknown":
            return queryset.unresolved().filter(HELD).order_by("locked_until", "id")
        if choice in ("in_flight", "stale", "waiting"):
            return getattr(queryset, choice)().order_by("locked_until", "id")
        return queryset


class CreatedFilter(SimpleListFilter):
    """By when the key was first claimed; not of expired keys, which are all old.

    No index has both times: the database would read every expired row to find that none is new.
    """

    title = "created"
    parameter_name = "created"

    def __init__(self, request: Any, params: Any, model: Any, model_admin: Any) -> None:
        """Note whether the keys are expired ones."""
        self.is_idle = request.GET.get(StateFilter.parameter_name) == "expired"
        super().__init__(request, params, model, model_admin)

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices; none, and the filter is not there."""
        return [] if self.is_idle else [(name, words) for name, (words, _) in CREATED.items()]

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the rows that are not older than the choice."""
        if self.is_idle or self.value() not in CREATED:
            return queryset
        return queryset.filter(created_at__gte=DatabaseNow() - CREATED[str(self.value())][1])


def _oldest_expired(request: Any, queryset: Any) -> Any:
    """Return what has expired, the oldest first.

    Beside a search only among the first LISTED of all: no index has both, and a hundred
    thousand expired rows may hold none of the account.
    """
    expired = queryset.expired().order_by("expires_at", "id")
    if not request.GET.get("q"):
        return expired
    of_all = queryset.model.objects.using(queryset.db).expired().order_by("expires_at")
    last = list(of_all.values_list("expires_at", flat=True)[LISTED - 1 : LISTED])
    return expired.filter(expires_at__lte=last[0]) if last else expired
