"""The list of keys, and the page of one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.core.exceptions import PermissionDenied
from django.db import router
from django.utils.html import format_html

from ..claims import State
from ..models import IdempotencyKey
from . import search, showing
from .actions import LockActions
from .ages import exact, relative, since, stamped
from .filters import CreatedFilter, StateFilter
from .overview import overview
from .paging import CappedPaginator, KeyList
from .situations import Situation, is_unresolved, judged, sentence

CUT = 40  # characters of a key in the list; a UUID has 36


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(LockActions, admin.ModelAdmin):  # type: ignore[type-arg,misc]
    """Look at keys; release a stale lock, settle an unknown outcome, delete what is closed."""

    list_display = ("short_key", "in_words", "request", "account", "age", "expiry")
    list_filter = (StateFilter, CreatedFilter)
    search_fields = ("key", "account")
    search_help_text = "A whole key, or a whole account."
    sortable_by = ()
    ordering = ()  # The queryset's, which each filter sets to what its index serves.
    list_per_page = 100
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # Each would be a COUNT of the table.
    paginator = CappedPaginator

    class Media:
        css = {"all": ("idempotency_app/admin.css",)}  # noqa: RUF012

    def get_changelist(self, request: Any, **kwargs: Any) -> type[KeyList]:
        """Return the list that keeps to the indexes."""
        return KeyList

    def get_queryset(self, request: Any) -> Any:
        """Return the writer's rows, for a replica may lag."""
        alias = router.db_for_write(self.model)
        return judged(IdempotencyKey.objects.using(alias).order_by("-created_at", "-id"))

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """Find a whole key or a whole account."""
        return search.found(queryset, search_term), False

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        """Allow the filters' own; `?response_body__contains=` would tell what may not be shown."""
        return lookup in {each.parameter_name for each in self.list_filter}

    def has_add_permission(self, request: Any) -> bool:
        """Refuse: a row is a request's."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Refuse: a row is its owner's."""
        return False

    def has_view_response_permission(self, request: Any) -> bool:
        """Whether the user may see recorded responses and results of steps."""
        return bool(request.user.has_perm("idempotency_app.view_response_idempotencykey"))

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Add the line above the list."""
        context = {"overview": overview(router.db_for_write(self.model))}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def change_view(
        self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """Show one key; there is no form, and a POST changes nothing."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        record = self.get_object(request, object_id)
        if record is None:
            return self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
        entries = LogEntry.objects.filter(
            content_type=get_content_type_for_model(record), object_id=str(record.pk)
        )
        may_see = self.has_view_response_permission(request)
        context = {
            "title": "Idempotency key",
            "original": record,
            "state": self.in_words(record),
            "sentence": sentence(record),
            "timeline": self.timeline(record),
            "steps": showing.steps(record, may_see),
            "may_see_response": may_see,
            "is_complete": record.state == State.COMPLETE,
            "headers": showing.headers(record) if may_see else [],
            "body": showing.body(record) if may_see else "",
            "entries": entries.select_related("user").order_by("-action_time"),
            "actions": self.actions_for(request, record),
            "may_delete": self.has_delete_permission(request, record),
        }
        return self._page(request, "page.html", context)

    @admin.display(description="key")
    def short_key(self, record: Any) -> str:
        """Cut the key; the whole one is in the title."""
        text = record.key if len(record.key) <= CUT else f"{record.key[:CUT]}…"
        return format_html('<span title="{}">{}</span>', record.key, text)

    @admin.display(description="state")
    def in_words(self, record: Any) -> str:
        """Say the state in words, and in colour."""
        situation = Situation(record.situation)
        markup = '<span class="idempotency-state idempotency-{}">{}</span>'
        return format_html(markup, situation.value, situation.label)

    @admin.display(description="request")
    def request(self, record: Any) -> str:
        """Say what was asked, and what was answered."""
        answer = f" → {record.response_status}" if record.response_status else ""
        return f"{record.endpoint}{answer}"

    @admin.display(description="age")
    def age(self, record: Any) -> str:
        """Say how long ago the key was claimed."""
        return stamped(record.created_at, since(record.created_at, record.now))

    @admin.display(description="expires")
    def expiry(self, record: Any) -> str:
        """Say when the key expires, or has."""
        if record.expires_at is None:
            return "never"
        if is_unresolved(record):
            return stamped(record.expires_at, "not while unresolved")
        return relative(record.expires_at, record.now)

    def timeline(self, record: Any) -> list[tuple[str, str, str]]:
        """Return what happened to the key and will, each with its time and its exact stamp."""
        moments = [
            ("Created", record.created_at),
            ("Locked", record.locked_at),
            ("Lock ends", record.locked_until),
            ("Remembered until", record.remember_until),
        ]
        told = [(name, relative(at, record.now), exact(at)) for name, at in moments if at]
        if record.expires_at is not None:
            told.append(("Expires", self.expiry(record), exact(record.expires_at)))
        return told
