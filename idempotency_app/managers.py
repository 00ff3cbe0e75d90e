"""How rows are found, claimed and reaped."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import connections, models, router
from django.db.models import Q

from . import sending, sql
from .claims import NO_STEPS, Claim, Claimant, State
from .fields import DatabaseNow
from .policy import Effects

if TYPE_CHECKING:
    from .models import IdempotencyKey  # noqa: F401  # named in a string below


class IdempotencyKeyQuerySet(models.QuerySet["IdempotencyKey"]):
    """Rows by what they are now, as the database's clock judges."""

    def in_flight(self) -> IdempotencyKeyQuerySet:
        """Locked, and the lock is live: somebody is probably at work."""
        return self.filter(state=State.IN_PROGRESS, locked_until__gt=DatabaseNow())

    def stale(self) -> IdempotencyKeyQuerySet:
        """Locked, and the lock has passed: the worker probably died."""
        return self.filter(state=State.IN_PROGRESS, locked_until__lte=DatabaseNow())

    def waiting(self) -> IdempotencyKeyQuerySet:
        """Given back after a step had begun; a retry goes on from there."""
        return self.filter(state=State.RELEASED)

    def unresolved(self) -> IdempotencyKeyQuerySet:
        """An outside effect has begun, nobody is at work, and its end is not known."""
        return self.filter(_lapsed(), steps__isnull=False)

    def expired(self) -> IdempotencyKeyQuerySet:
        """Past `expires_at`, with nothing at work or unresolved: the response is forgotten."""
        closed = Q(state=State.COMPLETE) | _lapsed() & Q(steps__isnull=True)
        return self.filter(closed, expires_at__lte=DatabaseNow())

    def claim(
        self,
        *,
        account: str,
        endpoint: str,
        key: str,
        fingerprint: str,
        effects: Effects,
        effects_in_steps: bool = False,
        lock_timeout: timedelta,
        retention: timedelta | None,
        remember: timedelta | None = None,
    ) -> Claim:
        """Make this request the owner of the key, or say what its client is told instead.

        `lock_timeout` is how long the claim holds, `retention` how long a response is kept
        after that (None: for ever), `remember` how long the key outlives its response.
        `effects_in_steps`: UNREPEATABLE work counts as begun from its first step on, not
        from the claim.
        Raises StoreUnavailable where the database cannot be reached.
        """
        rows = self._whole_table("claim")
        begun = effects is Effects.UNREPEATABLE and not effects_in_steps
        values = {
            "account": account,
            "endpoint": endpoint,
            "key": key,
            "fingerprint": fingerprint,
            "effects": str(effects),
            "steps": NO_STEPS if begun else None,
            **sql.durations(connections[rows.db], lock_timeout, retention, remember),
        }
        return Claimant(rows, values).claim()

    def reap(self, *, batch_size: int = 1000) -> int:
        """Delete expired rows, at most `batch_size` a transaction; return how many went.

        Never a live lock, an unresolved key, or one that is still remembered. Raises ValueError
        for a batch of less than one row.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {batch_size}.")
        rows = self._whole_table("reap")
        connection = connections[rows.db]
        text = sql.statements(connection, self.model).reap
        deleted, batch = 0, batch_size
        while batch == batch_size:
            batch = sending.change(connection, text, {"limit": batch_size})
            deleted += batch
        return deleted

    def _whole_table(self, verb: str) -> IdempotencyKeyQuerySet:
        """Return the rows of the writer; a replica may not have seen the claim to meet.

        Raises TypeError on a queryset that was narrowed, which the verb would not heed.
        """
        if self.query.where or self.query.is_sliced or self.query.is_empty():
            raise TypeError(f"{verb}() heeds no filter: call it on `objects` or `using(alias)`.")
        chosen: str | None = self._db  # type: ignore[attr-defined]  # by `using`
        return self.using(chosen or router.db_for_write(self.model))


def _lapsed() -> Q:
    return Q(state=State.RELEASED) | Q(state=State.IN_PROGRESS, locked_until__lte=DatabaseNow())
