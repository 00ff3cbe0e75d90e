"""What a person may do to keys: each with a permission, a confirm page and a reason.

The confirm page carries the fencing token of each row that it showed, and the change is a
compare-and-set on it: of two people at once one wins, and the other is told what happened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.core.exceptions import PermissionDenied
from django.db import router, transaction
from django.template.response import TemplateResponse
from django.utils.timesince import timesince

from ..conf import app_settings
from ..models import IdempotencyKey
from .forms import ReasonForm, SettleForm
from .situations import Situation, judged

AT_ONCE = 100  # rows, which a person can still read
UNSETTLED = (Situation.UNKNOWN, Situation.WAITING, Situation.STALE)
CLOSED = (Situation.COMPLETE, Situation.REMEMBERED, Situation.EXPIRED)

RELEASE = (
    "A key whose work had not begun anything outside is forgotten, and a further request runs "
    "the work. One with a begun step waits for a retry, which goes on after the finished steps. "
    "A worker that is alive after all finds that it has lost the lock."
)
SETTLE = (
    "Find out first how the request ended, on the other side. What you record is what the next "
    "retry gets, and it is kept for the whole retention from now on. A key that you release "
    "is forgotten, and a further request runs the work."
)


class LockActions:
    """The actions, and how a row may be deleted; a mixin of ModelAdmin."""

    actions = ("release_stale_lock", "settle_outcome", "delete_selected")

    @admin.action(description="Release a stale lock", permissions=["release"])
    def release_stale_lock(self, request: Any, queryset: Any) -> Any:
        """Give back what a worker holds that has probably died."""
        form = ReasonForm(request.POST if "confirmed" in request.POST else None)
        if not form.is_valid():
            fits = [row for row in _rows(queryset) if is_releasable(row)]
            return self._confirm(request, queryset, "release_stale_lock", RELEASE, form, fits)
        reason = form.cleaned_data["reason"]

        def release(record: Any) -> str | None:
            return f"Released the stale lock: {reason}" if record.release_stale_lock() else None

        return self._change_each(request, release)

    @admin.action(description="Settle an unknown outcome", permissions=["settle"])
    def settle_outcome(self, request: Any, queryset: Any) -> Any:
        """Record how it ended, or that it did not happen."""
        posted = request.POST if "confirmed" in request.POST else None
        fits = [row for row in _rows(queryset) if is_settleable(row)]
        is_single = len(_tokens(request) if posted else fits) == 1
        form = SettleForm(posted, is_single=is_single)
        if not form.is_valid():
            return self._confirm(request, queryset, "settle_outcome", SETTLE, form, fits)
        return self._change_each(request, lambda record: settle(record, form.cleaned_data))

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

    # Deleting: one row at a time, and none that somebody works on or that is an open question.

    @admin.action(description="Delete", permissions=["bulk_delete"])
    def delete_selected(self, request: Any, queryset: Any) -> None:
        """Stand in for Django's bulk deletion, which looks at no lock; nobody may use it."""

    def has_bulk_delete_permission(self, request: Any) -> bool:
        """Refuse: keys are deleted one at a time."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Whether the user may delete, and this row is closed."""
        may = bool(super().has_delete_permission(request, obj))  # type: ignore[misc]
        return may and (obj is None or is_closed(obj))

    def delete_model(self, request: Any, obj: Any) -> None:
        """Delete the row if it is still as it was seen."""
        if not obj.discard():
            raise PermissionDenied

    def history_view(self, request: Any, object_id: str, extra_context: Any = None) -> Any:
        """Show what was done to a key, also after its row is gone."""
        entries = _entries(object_id)
        found = self.get_object(request, object_id)  # type: ignore[attr-defined]
        if found is not None or not entries.exists():
            return super().history_view(request, object_id, extra_context)  # type: ignore[misc]
        if not self.has_view_permission(request):  # type: ignore[attr-defined]
            raise PermissionDenied
        context = {"title": "History of a key that is gone", "entries": entries}
        return self._page(request, "gone.html", context)

    def _confirm(
        self, request: Any, queryset: Any, action: str, consequence: str, form: Any, fits: Any
    ) -> TemplateResponse:
        rows = _rows(queryset)
        context = {
            "title": "Release a stale lock" if "release" in action else "Settle an outcome",
            "action": action,
            "consequence": consequence,
            "form": form,
            "fits": fits,
            "others": [row for row in rows if row not in fits],
            "retention": app_settings.RETENTION,
            "selected": len(rows),
        }
        return self._page(request, "confirm.html", context)

    def _page(self, request: Any, name: str, context: dict[str, Any]) -> TemplateResponse:
        site, opts = self.admin_site, self.opts  # type: ignore[attr-defined]
        common = {**site.each_context(request), "opts": opts, "media": self.media}  # type: ignore[attr-defined]
        template = f"admin/idempotency_app/idempotencykey/{name}"
        return TemplateResponse(request, template, {**common, **context})

    def _change_each(self, request: Any, change: Callable[[Any], str | None]) -> None:
        """Change each row that the confirm page showed, if it is still as it was shown."""
        alias = router.db_for_write(IdempotencyKey)
        done = 0
        for pk, token in _tokens(request).items():
            rows = judged(IdempotencyKey.objects.using(alias))
            record = rows.filter(pk=pk).first()
            if record is not None and record.fencing_token == token:
                with transaction.atomic(using=alias):
                    said = change(record)
                    if said is not None:
                        record.pk = pk
                        self.log_change(request, record, f"{said} ({_name(record)})")  # type: ignore[attr-defined]
                        done += 1
                        continue
            text = f"Nothing was changed: {_meanwhile(pk)}"
            self.message_user(request, text, messages.WARNING)  # type: ignore[attr-defined]
        if done:
            text = f"Done: {done} key{'' if done == 1 else 's'}."
            self.message_user(request, text, messages.SUCCESS)  # type: ignore[attr-defined]


def is_releasable(row: Any) -> bool:
    """Whether it is a stale lock, and no effect that must not be repeated."""
    return bool(row.situation == Situation.STALE)


def is_settleable(row: Any) -> bool:
    """Whether an outside effect has begun and nobody is at work."""
    return row.situation in UNSETTLED and row.steps is not None


def is_closed(row: Any) -> bool:
    """Whether nobody is at work and nothing is open."""
    return row.situation in CLOSED or (row.situation == Situation.STALE and row.steps is None)


def settle(record: Any, data: dict[str, Any]) -> str | None:
    """Settle the record; return what was done, None where it was not as it was seen."""
    if data["outcome"] == "release":
        if not record.settle_as_not_happened():
            return None
        return f"Settled: it did not happen, released: {data['reason']}"
    body = data["body"]
    recorded = {
        "status": data["status"],
        "headers": [("Content-Type", _content_type(body))],
        "body": body.encode(),
        "retention": app_settings.RETENTION,
    }
    if not record.settle(**recorded):
        return None
    return f"Settled: recorded {data['status']}: {data['reason']}"


def _content_type(body: str) -> str:
    try:
        json.loads(body)
    except ValueError:
        return "text/plain; charset=utf-8"
    return "application/json"


def _rows(queryset: Any) -> list[Any]:
    return list(queryset.defer(None).defer("response_body", "response_headers")[:AT_ONCE])


def _tokens(request: Any) -> dict[int, int]:
    """Return the fencing token of each row that the confirm page showed, by id."""
    try:
        pairs = (text.split(":", 1) for text in request.POST.getlist("seen")[:AT_ONCE])
        return {int(pk): int(token) for pk, token in pairs}
    except ValueError:
        return {}


def _name(record: Any) -> str:
    return f"{record.endpoint}, {record.account}, key {record.key[:40]}"


def _entries(object_id: Any) -> Any:
    of_model = get_content_type_for_model(IdempotencyKey)
    entries = LogEntry.objects.filter(content_type=of_model, object_id=str(object_id))
    return entries.select_related("user").order_by("-action_time")


def _meanwhile(pk: int) -> str:
    """Say what became of a key since it was shown."""
    entry = _entries(pk).first()
    alias = router.db_for_write(IdempotencyKey)
    row = judged(IdempotencyKey.objects.using(alias)).filter(pk=pk).first()
    state = f"it is {Situation(row.situation).label} now" if row else "the key is gone"
    if entry is None:
        return f"{state}."
    ago = timesince(entry.action_time)
    return f"{state}. {entry.user}, {ago} ago: {entry.get_change_message()}"
