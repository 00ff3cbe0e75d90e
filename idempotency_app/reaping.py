"""The reaper: it goes along the expiry dates, and deletes in short transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import connections, models

from . import sending, signals, sql

if TYPE_CHECKING:
    from .models import IdempotencyKey


@dataclass(frozen=True)
class Batch:
    """What one transaction did: keys deleted, or responses dropped of keys still remembered."""

    deleted: int = 0
    dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the reaper was told; see `IdempotencyKeyQuerySet.reap_in_batches`."""

    batch_size: int
    sleep: float
    max_rows: int | None
    max_seconds: float | None
    older_than: timedelta
    include_unresolved: bool
    dry_run: bool


class Reaper:
    """One run over what has expired, oldest first."""

    def __init__(self, rows: models.QuerySet[IdempotencyKey], **options: Any) -> None:
        """Take the rows with their database alias, and the fields of Options."""
        self.rows = rows
        self.options = Options(**options)
        self.connection = connections[rows.db]
        self.statements = sql.statements(self.connection, rows.model)
        until = sql.DIALECTS[self.connection.vendor].duration(-self.options.older_than)
        unresolved = self.options.include_unresolved
        self.values = {"until": until, "include_unresolved": unresolved}
        self.deleted = self.dropped = 0

    def batches(self) -> Iterator[Batch]:
        """Yield each batch after its transaction, until nothing is left or a limit is met."""
        started = time.monotonic()
        try:
            for batch in self._all():
                self.deleted += batch.deleted
                self.dropped += batch.dropped
                yield batch
                elapsed = time.monotonic() - started
                if self.options.max_seconds is not None and elapsed >= self.options.max_seconds:
                    return
                if self._room() == 0:
                    return
                if batch != Batch():
                    time.sleep(self.options.sleep)
        finally:
            if not self.options.dry_run:
                details = {"deleted": self.deleted, "dropped": self.dropped}
                signals.reaped.send_robust(
                    sender=self.rows.model, using=self.connection.alias, **details
                )

    def _all(self) -> Iterator[Batch]:
        after: Any = sql.BEGINNING
        while (horizon := self._horizon(after)) is not None:
            window = {**self.values, "after": after, "horizon": horizon}
            if self.options.dry_run:
                yield self._count(window)
            else:
                yield from self._reap(window)
            after = horizon

    def _reap(self, window: dict[str, Any]) -> Iterator[Batch]:
        """Go over the window until it is done: many rows may expire in the same instant."""
        for name, text in (
            ("deleted", self.statements.reap),
            ("dropped", self.statements.drop_response),
        ):
            changed = limit = self._room()
            while limit and changed == limit:
                limit = self._room()
                changed = sending.change(self.connection, text, {**window, "limit": limit})
                yield Batch(**{name: changed})

    def _room(self) -> int:
        """Return how many rows the next batch may have."""
        if self.options.max_rows is None:
            return self.options.batch_size
        left = self.options.max_rows - self.deleted - self.dropped
        return min(self.options.batch_size, max(left, 0))

    def _horizon(self, after: Any) -> Any:
        """Return the expiry date that the next window ends at, None behind the last."""
        values = {**self.values, "after": after, "limit": self.options.batch_size}
        return self._ask(self.statements.horizon, values)

    def _count(self, window: dict[str, Any]) -> Batch:
        texts = (self.statements.count_reapable, self.statements.count_droppable)
        return Batch(*(min(self._ask(text, window), self._room()) for text in texts))

    def _ask(self, text: str, values: dict[str, Any]) -> Any:
        def send() -> Any:
            with self.connection.cursor() as cursor:
                cursor.execute(text, values)
                return cursor.fetchone()[0]

        return sending.repeated(self.connection, send)
