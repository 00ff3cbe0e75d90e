"""Pages without a COUNT, which would read the whole table, in an order that an index serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator

if TYPE_CHECKING:
    Base = Paginator[Any]
else:
    Base = Paginator

LISTED = 1000  # rows; ten pages are more than a person reads, and a filter finds the rest
PAYLOAD = ("response_body", "response_headers", "steps")


class CappedPaginator(Base):
    """Pages over the first rows, which are read once, in one query."""

    def __init__(self, object_list: Any, *args: Any, **kwargs: Any) -> None:
        """Read the rows, and one more: whether there are others."""
        super().__init__(list(object_list[: LISTED + 1]), *args, **kwargs)

    @property
    def count(self) -> int:
        """How many rows there are, LISTED where there are more."""
        return min(len(self.object_list), LISTED)

    @property
    def has_more(self) -> bool:
        """Whether there are more rows than are listed."""
        return len(self.object_list) > LISTED


class KeyList(ChangeList):
    """The list, without what may be large."""

    def get_queryset(self, request: Any, exclude_parameters: Any = None) -> Any:
        """Leave out what only the page of a key shows."""
        return super().get_queryset(request, exclude_parameters).defer(*PAYLOAD)

    def get_ordering(self, request: Any, queryset: Any) -> list[Any]:
        """Keep the filter's order; Django sorts by `?o=` whatever `sortable_by` says."""
        return list(queryset.query.order_by)

    def get_results(self, request: Any) -> None:
        """Show what the paginator has read, also where all fits on one page."""
        super().get_results(request)
        if self.paginator.has_more:
            # The search form shows a count that is not that of all; this one is no count.
            self.full_result_count = self.result_count
        if not self.multi_page:
            self.result_list = self.paginator.object_list
