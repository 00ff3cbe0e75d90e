"""The list of keys, and the page of one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.core.exceptions import PermissionDenied
from django.db import router
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.timesince import timesince, timeuntil

from ..claims import State
from ..models import IdempotencyKey
from . import showing
from .actions import LockActions
from .filters import CreatedFilter, StateFilter
from .overview import overview
from .paging import CappedPaginator
from .situations import Situation, judged, sentence

PAYLOAD = ("response_body", "response_headers", "steps")
CUT = 40  # characters of a key in the list; a UUID has 36
MATCHES = 100  # of a term that is both a key and an account

# Around what is pasted from a ticket or a log.
PASTED = " \"'`“”‘’«»,;"


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

    def get_queryset(self, request: Any) -> Any:
        """Return the writer's rows, for a replica may lag, without what may be large."""
        alias = router.db_for_write(self.model)
        rows = IdempotencyKey.objects.using(alias).order_by("-id")
        return judged(rows.defer(*PAYLOAD))

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """Find a whole key or a whole account; both are looked up in their index."""
        term = "".join(char for char in search_term if char.isprintable()).strip(PASTED)
        if not term:
            return queryset, False
        if len(term.encode()) > 255:
            return queryset.none(), False
        rows = IdempotencyKey.objects.using(queryset.db)
        keys = list(rows.filter(key=term).values_list("pk", flat=True)[:MATCHES])
        if not keys:
            return queryset.filter(account=term), False
        of_account = rows.filter(account=term).order_by("-id").values_list("pk", flat=True)
        return queryset.filter(pk__in=[*keys, *of_account[:MATCHES]]), False

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
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "title": "Idempotency key",
            "original": record,
            "state": self.in_words(record),
            "sentence": sentence(record),
            "steps": showing.steps(record, may_see),
            "may_see_response": may_see,
            "is_complete": record.state == State.COMPLETE,
            "headers": showing.headers(record) if may_see else [],
            "body": showing.body(record) if may_see else "",
            "entries": entries.select_related("user").order_by("-action_time"),
            "actions": self.actions_for(request, record),
            "may_delete": self.has_delete_permission(request, record),
        }
        template = "admin/idempotency_app/idempotencykey/page.html"
        return TemplateResponse(request, template, context)

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
        return _time(record.created_at, timesince(record.created_at, record.now))

    @admin.display(description="expires")
    def expiry(self, record: Any) -> str:
        """Say when the key expires, or has."""
        if record.expires_at is None:
            return "never"
        if record.expires_at <= record.now:
            return _time(record.expires_at, f"{timesince(record.expires_at, record.now)} ago")
        return _time(record.expires_at, f"in {timeuntil(record.expires_at, record.now)}")


def _time(moment: Any, words: str) -> str:
    stamp = moment.isoformat(sep=" ", timespec="seconds")
    return format_html('<time datetime="{0}" title="{0}">{1}</time>', stamp, words)
