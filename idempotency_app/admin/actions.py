"""What a person may do to keys: each with a permission, a confirm page and a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.utils import timezone
from django.utils.timesince import timesince

from ..conf import app_settings
from .confirming import seen_in
from .deleting import Deleting
from .forms import ReasonForm, SettleForm
from .qualifying import (
    is_releasable,
    is_settleable,
    sorted_out,
    why_not_released,
    why_not_settled,
    why_not_settled_with_others,
    why_only_recorded,
)

RELEASE = (
    "A key whose work had not begun anything outside is forgotten, and a further request runs "
    "the work. One with a begun step waits for a retry, which goes on after the finished steps. "
    "A worker that is alive after all finds that it has lost the lock."
)
SETTLE = (
    "Find out first how the request ended, on the other side. What you record is what the next "
    "retry gets; it is kept {retention}, counted from now. A key of which you say that it did "
    "not happen is forgotten, and a further request runs the work."
)
SETTLE_SEVERAL = (
    "A response is recorded for one key at a time; of several you can only say that they did not "
    "happen. Find that out first, on the other side. They are forgotten, and a further request "
    "with such a key runs its work."
)


class LockActions(Deleting):
    """The actions, deletion and history; a mixin of ModelAdmin."""

    actions = ("release_stale_lock", "settle_outcome", "delete_selected")

    @admin.action(description="Release a stale lock", permissions=["release"])
    def release_stale_lock(self, request: Any, queryset: Any) -> Any:
        """Give back what a worker holds that has probably died."""
        form = ReasonForm(_posted(request))
        if form.is_valid():
            return self._change_each(request, _release(form.cleaned_data["reason"]))
        rows, is_cut = self._seen_rows(request, queryset)
        words = {"title": "Release a stale lock", "consequence": RELEASE, "form": form}
        action = {"action": "release_stale_lock", "is_cut": is_cut}
        return self._confirm_page(request, rows, why_not_released, **words, **action)

    @admin.action(description="Settle an unknown outcome", permissions=["settle"])
    def settle_outcome(self, request: Any, queryset: Any) -> Any:
        """Record how it ended, or that it did not happen."""
        rows, is_cut = self._seen_rows(request, queryset)
        fits, _ = sorted_out(rows, seen_in(request), why_not_settled)
        is_single = len(seen_in(request) or fits) == 1
        only = next(filter(None, map(why_only_recorded, fits)), "")
        form = SettleForm(_posted(request), is_single=is_single, only_recorded=only)
        if form.is_valid():
            return self._change_each(request, _settle(form.cleaned_data))
        consequence = SETTLE.format(retention=_retention()) if is_single else SETTLE_SEVERAL
        words = {"title": "Settle an outcome", "consequence": consequence, "form": form}
        action = {"action": "settle_outcome", "is_cut": is_cut}
        why_not = why_not_settled if is_single else why_not_settled_with_others
        return self._confirm_page(request, rows, why_not, **words, **action)

    def has_release_permission(self, request: Any) -> bool:
        """Whether the user may release a stale lock."""
        return bool(request.user.has_perm("idempotency_app.release_idempotencykey"))

    def has_settle_permission(self, request: Any) -> bool:
        """Whether the user may settle an unknown outcome."""
        return bool(request.user.has_perm("idempotency_app.settle_idempotencykey"))

    def actions_for(self, request: Any, record: Any) -> list[tuple[str, str]]:
        """Return the name and the words of what the user may do to this row now."""
        may = []
        if self.has_release_permission(request) and is_releasable(record):
            may.append(("release_stale_lock", "Release the stale lock"))
        if self.has_settle_permission(request) and is_settleable(record):
            may.append(("settle_outcome", "Settle the outcome"))
        return may


def _posted(request: Any) -> Any:
    """Return what was posted from the confirm page; None where it is still to be shown."""
    return request.POST if "confirmed" in request.POST else None


def _release(reason: str) -> Callable[[Any], str | None]:
    def release(record: Any) -> str | None:
        return f"Released the stale lock: {reason}" if record.release_stale_lock() else None

    return release


def _settle(data: dict[str, Any]) -> Callable[[Any], str | None]:
    def dismiss(record: Any) -> str | None:
        words = f"Settled: it did not happen, released: {data['reason']}"
        return words if record.settle_as_not_happened() else None

    def settle(record: Any) -> str | None:
        recorded = {
            "status": data["status"],
            "headers": [("Content-Type", data["content_type"])],
            "body": data["body"].encode(),
            "retention": app_settings.RETENTION,
        }
        words = f"Settled: recorded {data['status']}: {data['reason']}"
        return words if record.settle(**recorded) else None

    return settle if data["outcome"] == "record" else dismiss


def _retention() -> str:
    retention = app_settings.RETENTION
    if retention is None:
        return "for ever"
    now = timezone.now()
    return f"for {timesince(now - retention, now)}"
