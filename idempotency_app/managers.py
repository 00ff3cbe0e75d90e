"""How rows are found, claimed and reaped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import connections, models, router
from django.db.models import Q

from . import events, sql
from .claims import NO_STEPS, Claim, Claimant, ClaimOutcome, State
from .fields import DatabaseNow
from .policy import Effects
from .reaping import Batch, Reaper

if TYPE_CHECKING:
    from .models import IdempotencyKey  # noqa: F401  # named in a string below

# True of every row that is not complete, and what the index on `locked_until` serves.
OPEN = Q(locked_until__isnull=False)


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
        return self.filter(OPEN, state=State.RELEASED)

    def unresolved(self) -> IdempotencyKeyQuerySet:
        """An outside effect has begun, nobody is at work, and its end is not known."""
        return self.filter(OPEN, _lapsed(), steps__isnull=False)

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
        claim = Claimant(rows, values).claim()
        _tell(claim)
        return claim

    def reap(self, **options: Any) -> int:
        """Delete expired rows, as `reap_in_batches` does; return how many went."""
        return sum(batch.deleted for batch in self.reap_in_batches(**options))

    def reap_in_batches(
        self,
        *,
        batch_size: int = 1000,
        sleep: float = 0,
        max_rows: int | None = None,
        max_seconds: float | None = None,
        older_than: timedelta = timedelta(0),
        include_unresolved: bool = False,
        dry_run: bool = False,
    ) -> Iterator[Batch]:
        """Delete expired rows, at most `batch_size` a transaction, and yield after each.

        Never a live lock; never one that is still remembered, whose response is dropped
        instead; and never an unresolved key unless `include_unresolved`. `older_than`: only
        what has been expired for that long. `sleep` is the pause between batches, in seconds.
        It ends after `max_rows` rows or `max_seconds` seconds, or where the caller stops.
        `dry_run` counts, and changes nothing.
        Raises ValueError for a batch of less than one row.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {batch_size}.")
        return Reaper(
            self._whole_table("reap"),
            batch_size=batch_size,
            sleep=sleep,
            max_rows=max_rows,
            max_seconds=max_seconds,
            older_than=older_than,
            include_unresolved=include_unresolved,
            dry_run=dry_run,
        ).batches()

    def _whole_table(self, verb: str) -> IdempotencyKeyQuerySet:
        """Return the rows of the writer; a replica may not have seen the claim to meet.

        Raises TypeError on a queryset that was narrowed, which the verb would not heed.
        """
        if self.query.where or self.query.is_sliced or self.query.is_empty():
            raise TypeError(f"{verb}() heeds no filter: call it on `objects` or `using(alias)`.")
        chosen: str | None = self._db  # type: ignore[attr-defined]  # by `using`
        return self.using(chosen or router.db_for_write(self.model))


def _tell(claim: Claim) -> None:
    """Tell what became of the claim; a replay is told by whoever sends it."""
    if claim.won:
        events.tell(str(claim.outcome), claim.record)
    elif claim.outcome is ClaimOutcome.MISMATCH:
        events.tell("mismatched", claim.record)
    elif claim.outcome is not ClaimOutcome.REPLAY:
        details = {"outcome": claim.outcome, "retry_after": claim.retry_after}
        events.tell("conflicted", claim.record, **details)


def _lapsed() -> Q:
    return Q(state=State.RELEASED) | Q(state=State.IN_PROGRESS, locked_until__lte=DatabaseNow())
