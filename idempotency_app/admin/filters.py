"""Fixed choices, each in the order that an index serves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.admin import SimpleListFilter

from ..claims import State
from ..fields import DatabaseNow
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
            return queryset.expired().order_by("expires_at", "id")
        if choice == "unknown":
            return queryset.unresolved().filter(HELD).order_by("locked_until", "id")
        if choice in ("in_flight", "stale", "waiting"):
            return getattr(queryset, choice)().order_by("locked_until", "id")
        return queryset


class CreatedFilter(SimpleListFilter):
    """By when the key was first claimed."""

    title = "created"
    parameter_name = "created"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [(name, words) for name, (words, _) in CREATED.items()]

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the rows that are not older than the choice."""
        if self.value() not in CREATED:
            return queryset
        return queryset.filter(created_at__gte=DatabaseNow() - CREATED[str(self.value())][1])
