"""The page that says what follows and asks why, and the change of what it has shown.

It carries the fencing token of each row, and the change is a compare-and-set on it: of two
people at once one wins, and the other is told what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db import router, transaction
from django.http import HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from ..models import IdempotencyKey
from . import history
from .qualifying import sorted_out

AT_ONCE = 100  # rows, which a person can still read

Change = Callable[[Any], "str | None"]
"""Changes a record, and says what was done; None where it was not as it was seen."""


class Confirming(history.KeptHistory):
    """A mixin of ModelAdmin."""

    def _seen_rows(self, request: Any, queryset: Any) -> tuple[list[Any], bool]:
        """Return the rows to show, those of the page where there was one, and if it is not all."""
        if seen := seen_in(request):
            queryset = self.get_queryset(request).filter(pk__in=seen)  # type: ignore[attr-defined]
        light = queryset.defer(None).defer("response_body", "response_headers")
        rows = list(light[: AT_ONCE + 1])
        return rows[:AT_ONCE], len(rows) > AT_ONCE

    def _confirm_page(
        self, request: Any, rows: list[Any], why_not: Callable[[Any], str | None], **words: Any
    ) -> HttpResponse:
        """Show which rows qualify, which do not and why, the consequence, and the form.

        `words`: `title`, `consequence`, `form`, and more for the template.
        """
        fits, others = sorted_out(rows, seen_in(request), why_not)
        entries = history.last_entries([row.pk for row in fits])
        shown = [(row, entries.get(row.pk, 0)) for row in fits]
        context = {"fits": shown, "others": others, "selected": len(rows), "at_once": AT_ONCE}
        context["address"] = request.get_full_path()
        return self._page(request, "confirm.html", {**context, **words})

    def _change_each(self, request: Any, change: Change) -> None:
        """Change each row that the page showed, if it is still as it was shown; say what came."""
        done, tell = [], self.message_user  # type: ignore[attr-defined]
        shown = seen_in(request)
        if not shown:
            tell(request, "Nothing was changed: no key was named.", messages.WARNING)
        for pk, seen in shown.items():
            if record := self._changed(request, pk, seen[0], change):
                done.append(record)
                continue
            came = history.meanwhile(pk, seen, self._row(request, pk))
            tell(request, f"Nothing was changed: {came}", messages.WARNING)
        if done:
            tell(request, self._done(done), messages.SUCCESS)

    def _changed(self, request: Any, pk: int, token: int, change: Change) -> Any:
        """Change the row, and return what it was; None where it is not as it was shown."""
        record = self._row(request, pk)
        if record is None or record.fencing_token != token:
            return None
        with transaction.atomic(using=router.db_for_write(IdempotencyKey)):
            what = change(record)
            if what is None:
                return None
            history.log(request.user, record, what)
        return record

    def _row(self, request: Any, pk: int) -> Any:
        return self.get_queryset(request).filter(pk=pk).first()  # type: ignore[attr-defined]

    def _done(self, records: list[Any]) -> str:
        links = [(self._address("history", each.pk), history.name(each)) for each in records]
        count = f"Done: {len(links)} key{'' if len(links) == 1 else 's'}."
        listed = format_html_join(" · ", '<a href="{}">{}</a>', links[:10])
        return format_html("{} History: {}", count, listed)

    def _address(self, view: str, *args: Any) -> str:
        site, meta = self.admin_site, self.opts  # type: ignore[attr-defined]
        name = f"admin:{meta.app_label}_{meta.model_name}_{view}"
        return reverse(name, args=args, current_app=site.name)


def seen_in(request: Any) -> dict[int, tuple[int, int]]:
    """Return what the posted page has shown, by the row's id: token, and newest entry or 0."""
    try:
        parts = [text.split(":") for text in request.POST.getlist("seen")[:AT_ONCE]]
        seen = {int(pk): (int(token), int(entry)) for pk, token, entry in parts}
    except ValueError:
        return {}
    # What no database takes as an id, nobody was shown.
    return {pk: shown for pk, shown in seen.items() if 0 < pk < 2**63}
