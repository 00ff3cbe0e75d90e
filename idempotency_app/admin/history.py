"""What people did to keys: Django's log of changes, also of keys that are gone."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import router
from django.template.response import TemplateResponse
from django.utils.timesince import timesince

from ..claims import State
from ..models import IdempotencyKey
from .situations import Situation

CUT = 40  # characters of a key
SHOWN = 100  # entries; a key has a few


class KeptHistory:
    """The history of a key, also after its row is gone; a mixin of ModelAdmin."""

    def history_view(self, request: Any, object_id: str, extra_context: Any = None) -> Any:
        """Show what was done to a key; Django leads away from one whose row is gone."""
        pk = unquote(object_id)
        entries = entries_of([pk]) if is_id(pk) and not _exists(pk) else LogEntry.objects.none()
        if not entries.exists():
            return super().history_view(request, object_id, extra_context)  # type: ignore[misc]
        if not self.has_view_permission(request):  # type: ignore[attr-defined]
            raise PermissionDenied
        context = {
            "title": "History of a key that is gone",
            "entries": entries.select_related("user")[:SHOWN],
        }
        return self._page(request, "gone.html", {**context, **(extra_context or {})})

    def _page(self, request: Any, name: str, context: dict[str, Any]) -> TemplateResponse:
        site = self.admin_site  # type: ignore[attr-defined]
        request.current_app = site.name
        common = {
            **site.each_context(request),
            "opts": self.opts,  # type: ignore[attr-defined]
            "media": self.media,  # type: ignore[attr-defined]
        }
        template = f"admin/idempotency_app/idempotencykey/{name}"
        return TemplateResponse(request, template, {**common, **context})


def log(user: Any, record: Any, what: str) -> None:
    """Write down what a user did to the record, as the deletion that it may have been."""
    flag = CHANGE if _exists(record.pk) else DELETION
    message = f"{what} ({name(record)})"
    LogEntry.objects.log_actions(user.pk, [record], flag, message, single_object=True)


def name(record: Any) -> str:
    """Name the key for a person."""
    cut = record.key if len(record.key) <= CUT else f"{record.key[:CUT]}…"
    return f"{record.endpoint}, {record.account}, key {cut}"


def entries_of(pks: Any) -> Any:
    """Return what was done to these keys, the newest first."""
    of_model = get_content_type_for_model(IdempotencyKey)
    # A replica may not have what another person has just done.
    entries = LogEntry.objects.using(router.db_for_write(LogEntry))
    found = entries.filter(content_type=of_model, object_id__in=[str(pk) for pk in pks])
    return found.order_by("-action_time", "-pk")


def last_entries(pks: list[int]) -> dict[int, int]:
    """Return the id of each key's newest entry."""
    found = entries_of(pks).values_list("object_id", "pk")
    return {int(object_id): entry for object_id, entry in reversed(found)}


def meanwhile(pk: int, seen: tuple[int, int], row: Any) -> str:
    """Say what became of a key since a page showed it; `row` is None where it is gone.

    `seen`: the fencing token and the newest entry of then.
    """
    token, seen_entry = seen
    state = f"it is {Situation(row.situation).label} now" if row else "the key is gone"
    entry = entries_of([pk]).select_related("user").first()
    if entry is not None and entry.pk != seen_entry:
        ago = timesince(entry.action_time)
        return f"{state}. {entry.user}, {ago} ago: {entry.get_change_message()}"
    about = f"({name(row)})" if row else ""
    return " ".join(filter(None, (f"{state}.", _by_a_request(row, token), about)))


def _by_a_request(row: Any, token: int) -> str:
    if row is None:
        return "Its work has ended without a response to keep, or it was reaped."
    if row.state == State.COMPLETE:
        return f"Its work has ended, with {row.response_status}."
    if row.fencing_token != token:
        return "A further request has taken it over."
    if row.situation == Situation.IN_FLIGHT:
        return "Its worker is alive."
    return "A step has finished, so it did happen." if row.has_finished_step else ""


def is_id(text: str) -> bool:
    """Whether it can be a key's id; a NUL, say, is refused by a database."""
    return text.isascii() and text.isdecimal()


def _exists(pk: Any) -> bool:
    rows = IdempotencyKey.objects.using(router.db_for_write(IdempotencyKey))
    return bool(rows.filter(pk=pk).exists())
