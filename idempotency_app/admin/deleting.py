"""Deleting: one key at a time, and none that somebody works on or that is an open question."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect

from .confirming import Change, Confirming
from .forms import ReasonForm
from .qualifying import is_closed

CONSEQUENCE = (
    "Without its row the key is as good as new: a further request with it runs the work again, "
    "and an answer that was recorded is lost."
)


class Deleting(Confirming):
    """A mixin of ModelAdmin."""

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

    def delete_view(self, request: Any, object_id: str, extra_context: Any = None) -> Any:
        """Ask why, and delete the row if it is still as it was shown."""
        record = self.get_object(request, unquote(object_id))  # type: ignore[attr-defined]
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if form.is_valid() and self.has_delete_permission(request):
            # Also where the row is gone, or no longer closed: the person is told.
            self._change_each(request, self._delete(request, object_id, form))
            return HttpResponseRedirect(self._address("changelist"))
        if not self.has_delete_permission(request, record):
            raise PermissionDenied
        if record is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined]
        words = {"title": "Delete the key", "consequence": CONSEQUENCE, "form": form}
        return self._confirm_page(request, [record], lambda row: None, **words)

    def _delete(self, request: Any, object_id: str, form: ReasonForm) -> Change:
        def delete(record: Any) -> str | None:
            is_shown = str(record.pk) == unquote(object_id)
            may = is_shown and self.has_delete_permission(request, record)
            return f"Deleted: {form.cleaned_data['reason']}" if may and record.discard() else None

        return delete
