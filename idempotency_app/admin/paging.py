"""Pages without a COUNT, which would read the whole table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator

if TYPE_CHECKING:
    Base = Paginator[Any]
else:
    Base = Paginator

LISTED = 1000  # rows; ten pages are more than a person reads, and a filter finds the rest


class CappedPaginator(Base):
    """Pages over the first rows; `count` is at most LISTED."""

    @cached_property
    def count(self) -> int:
        """Return how many rows there are, LISTED where there are more."""
        return min(self._found, LISTED)

    @property
    def has_more(self) -> bool:
        """Whether there are more rows than are listed."""
        return self._found > LISTED

    @cached_property
    def _found(self) -> int:
        rows: Any = self.object_list
        return len(rows.values_list("pk")[: LISTED + 1])
