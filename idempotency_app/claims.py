"""The claim: how one request becomes the owner of a key, and what the others are told."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import InterfaceError, InternalError, OperationalError, connections, models

from . import sending, sql
from .exceptions import StoreUnavailable

if TYPE_CHECKING:
    from .models import IdempotencyKey

logger = logging.getLogger(__name__)

# A round is lost only where another request changed the row in the same instant.
ROUNDS = 5

# InternalError: PostgreSQL after a fail-over, when it has become read-only.
UNREACHABLE = (OperationalError, InterfaceError, InternalError)

# Retry-After, in seconds. It has no fractions (RFC 9110 §10.2.3), and 0 would be no wait; a
# client that is told to wait longer than half a minute has mostly gone away.
SHORTEST_WAIT = 1
LONGEST_WAIT = 30


# What `steps` holds of work whose outside effect has begun before its first step.
NO_STEPS = "{}"


class State(models.TextChoices):
    """What a row says of its work."""

    IN_PROGRESS = "in_progress", "in progress"
    RELEASED = "released", "waiting for a retry"
    COMPLETE = "complete", "complete"


class ClaimOutcome(models.TextChoices):
    """What a claim came to; the work runs after the first two, and only then."""

    CLAIMED = "claimed"
    TAKEN_OVER = "taken_over"
    REPLAY = "replay"
    IN_PROGRESS = "in_progress"
    MISMATCH = "mismatch"
    OUTCOME_UNKNOWN = "outcome_unknown"
    KEY_EXPIRED = "key_expired"


@dataclass(frozen=True)
class Claim:
    """The outcome of a claim, and the record as it was then.

    `retry_after` is in whole seconds, and 0 unless the outcome is IN_PROGRESS.
    """

    outcome: ClaimOutcome
    record: IdempotencyKey
    retry_after: int = 0

    @property
    def won(self) -> bool:
        """Whether this request is now the owner, and has to run the work."""
        return self.outcome in (ClaimOutcome.CLAIMED, ClaimOutcome.TAKEN_OVER)


def new_token() -> int:
    """Return a fencing token: 63 random bits, which fit the column.

    Not a counter: one that began again with a new row would let a late worker save over a
    new owner.
    """
    return secrets.randbits(63)


class Claimant:
    """One request on its way through the protocol: insert, look, compare-and-set."""

    def __init__(self, rows: models.QuerySet[IdempotencyKey], values: Mapping[str, Any]) -> None:
        """Take the rows with their database alias, and the parameters of the statements."""
        self.rows = rows
        self.connection = connections[rows.db]
        self.statements = sql.statements(self.connection, rows.model)
        self.values = {**values, "token": new_token()}
        self.attempted = ClaimOutcome.CLAIMED

    def claim(self) -> Claim:
        """Go round until one statement has decided.

        Raises StoreUnavailable where the database cannot be reached.
        """
        try:
            return self.go_round()
        except UNREACHABLE as error:
            if sending.is_transient(error) and not self.connection.in_atomic_block:
                # The store is there; others are at the same key, again and again.
                return Claim(ClaimOutcome.IN_PROGRESS, self.unseen(), retry_after=SHORTEST_WAIT)
            logger.exception("The keys' database cannot be used (is it migrated?): no work runs")
            raise StoreUnavailable from error

    def go_round(self) -> Claim:
        """Insert, look and compare-and-set, a few times where others are faster."""
        seen = None
        # SQLite has one writer, so a replay there must not ask for the write lock.
        looks_first = self.connection.vendor == "sqlite"
        for _ in range(ROUNDS):
            if not looks_first and (record := self.insert()):
                return Claim(ClaimOutcome.CLAIMED, record)
            looks_first = False
            seen = self.look()
            if seen and (claim := self.decide(seen)):
                return claim
        return Claim(ClaimOutcome.IN_PROGRESS, seen or self.unseen(), retry_after=SHORTEST_WAIT)

    def insert(self) -> IdempotencyKey | None:
        """Insert the row if there is none."""
        row_id = sending.insert(self.connection, self.statements.insert, self.values)
        return None if row_id is None else self.owned(row_id, self.values)

    def unseen(self) -> IdempotencyKey:
        """Return what is known of a row that is there and cannot be read.

        So it is in a caller's transaction under MySQL's REPEATABLE READ that had begun to read
        before the row was committed.
        """
        scope = {name: self.values[name] for name in ("account", "endpoint", "key")}
        return self.rows.model(**scope)

    def look(self) -> Any:
        """Return the row as it is, with what the database's clock says of it, or None."""
        rows = self.rows.raw(self.statements.look, self.values)
        # To its end, so that no cursor is left open; there is one row at most.
        seen = sending.repeated(self.connection, lambda: list(rows.iterator()))
        return seen[0] if seen else None

    def decide(self, seen: Any) -> Claim | None:
        """Read the table of states top to bottom; None where another request was faster."""
        complete = seen.state == State.COMPLETE
        if seen.fencing_token == self.values["token"]:
            # An earlier round had won, and its answer was lost on the way.
            return Claim(self.attempted, seen)
        if seen.is_forgotten:
            return self.win(seen, self.statements.reset, ClaimOutcome.CLAIMED, self.values)
        if seen.fingerprint != self.values["fingerprint"]:
            return Claim(ClaimOutcome.MISMATCH, seen)
        if complete:
            # The reaper drops the response of a key that is remembered.
            is_expired = seen.is_expired or seen.response_status is None
            return Claim(ClaimOutcome.KEY_EXPIRED if is_expired else ClaimOutcome.REPLAY, seen)
        if seen.is_live:
            return Claim(ClaimOutcome.IN_PROGRESS, seen, retry_after=_wait(seen))
        if seen.is_resumable and seen.has_readable_steps:
            released = seen.state == State.RELEASED
            outcome = ClaimOutcome.CLAIMED if released else ClaimOutcome.TAKEN_OVER
            steps = self.values["steps"] if seen.steps is None else seen.steps
            return self.win(seen, self.statements.take_over, outcome, {"steps": steps})
        return Claim(ClaimOutcome.OUTCOME_UNKNOWN, seen)

    def win(
        self, seen: Any, statement: str, outcome: ClaimOutcome, known: Mapping[str, Any]
    ) -> Claim | None:
        """Change the row if it is still as it was seen."""
        self.attempted = outcome
        values = {**self.values, "id": seen.pk, "seen_token": seen.fencing_token}
        if not sending.change(self.connection, statement, values):
            return None
        return Claim(outcome, self.owned(seen.pk, known))

    def owned(self, row_id: int, known: Mapping[str, Any]) -> IdempotencyKey:
        """Return the record that this request now owns.

        The times are the database's, and read from it when somebody asks for them.
        """
        values = {
            "id": row_id,
            **{name: self.values[name] for name in ("account", "endpoint", "key", "fingerprint")},
            "effects": self.values["effects"],
            "state": State.IN_PROGRESS,
            "fencing_token": self.values["token"],
            "steps": known["steps"],
        }
        return self.rows.model.from_db(self.rows.db, list(values), list(values.values()))


def _wait(seen: Any) -> int:
    """Return seconds: as long as the first request has run, at most what is left of its lock."""
    wait: int = math.floor(min(seen.ran_for, seen.lock_left, LONGEST_WAIT))
    return max(SHORTEST_WAIT, wait)
