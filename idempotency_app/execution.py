"""The owner's work: its transaction, the save of its response, and the key's release.

Knows transactions and no HTTP. The ends of a block lie in different calls here, because a
view's work begins in its handler and ends after the response has been finalized.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)
from django.db.transaction import TransactionManagementError

from . import events, sending
from .attempts import Attempt
from .claims import UNREACHABLE, State
from .exceptions import IdempotencyError, LockLost, StoreUnavailable
from .keys import mask
from .models import IdempotencyKey
from .policy import Effects, Policy
from .transactions import Transaction

__all__ = ["Attempt", "Execution"]

logger = logging.getLogger(__name__)

BROKEN_TRANSACTION = (
    "The work ended well in a transaction that can only be rolled back, because a database "
    "error was caught or set_rollback(True) was called. Its response was not recorded, and "
    "the key is released. Put what may fail into an atomic() block, and catch around it."
)


class Execution:
    """One claim's work, from the claim to the save or the release."""

    def __init__(self, record: IdempotencyKey, policy: Policy) -> None:
        """Take the record that was claimed, and the policy that it was claimed under."""
        self.record = record
        self.policy = policy
        self.alias = record.alias
        self.transaction = Transaction(self.alias)
        # The response is saved, the key is released, or neither can be done any more.
        self.is_settled = False
        # The work raised, whatever response is made of that.
        self.has_failed = False
        # An exception of `release_on` has proved it.
        self.nothing_happened = False
        # By an error of ours, which says nothing of the work.
        self._is_refused = False
        self._resumes = bool(record.get_steps())
        self._committed = False
        self._started = time.monotonic()

    @property
    def is_unrepeatable(self) -> bool:
        """Whether an effect may have happened that must not happen again."""
        unrepeatable = Effects.UNREPEATABLE in (self.record.effects, self.policy.effects)
        return unrepeatable and self.record.steps is not None and not self.nothing_happened

    def begin(self) -> None:
        """Open the transaction of LOCAL work.

        Raises StoreUnavailable, with the key released, where that cannot be done.
        """
        if self.policy.effects is not Effects.LOCAL:
            return
        connection = connections[self.alias]
        nested = connection.in_atomic_block
        try:
            self.transaction.begin()
        except (DatabaseError, InterfaceError) as error:
            self.give_back()
            raise StoreUnavailable from error
        if not nested:
            vars(connection)["rollback_exc"] = None  # Django keeps an earlier transaction's.
            # The first hook to run: whatever is raised later, the response is committed.
            transaction.on_commit(self._note_commit, using=self.alias)

    def keeps(self, status: int) -> bool:
        """Tell whether a response with this HTTP status is recorded, or releases the key.

        2xx and 3xx are, unless made from an exception, and those 4xx and 5xx that the policy
        names; once an effect has begun that must not be repeated, every response is.
        """
        if self.is_unrepeatable:
            return True
        if status < 400:
            return not self.has_failed
        says_nothing = self.nothing_happened or self._is_refused
        return status in self.policy.record_statuses and not says_nothing

    def complete(
        self, *, status: int, headers: Iterable[tuple[str, str]], body: bytes | None
    ) -> None:
        """Save the response, and for LOCAL work commit it together with the work.

        Raises LockLost where another worker has taken the key over, StoreUnavailable where
        the database is gone, TransactionManagementError where the work had swallowed a
        database error, and whatever the database or an `on_commit` hook raises. Where
        nothing was committed the key has been released, unless another worker owns it, or an
        effect has begun that must not be repeated: that row lapses into unresolved.
        """
        try:
            self._mend_or_refuse_broken_transaction(status)
            self.record.complete(status=status, headers=headers, body=body)
            self.transaction.commit()
        except Exception as error:
            self.transaction.roll_back()
            self.is_settled = True
            if self._committed:
                self._tell("completed", status=status)
                raise
            self._settle_failed_save(error)
        self.is_settled = True
        self._tell("completed", status=status)

    def fail(self, error: BaseException) -> None:
        """Roll back the work that raised `error`, before anybody turns it into a response.

        Raises LockLost where the database chose LOCAL work as the victim of a race, and the
        other side of that race has taken the key over.
        """
        self.has_failed = True
        self._is_refused = isinstance(error, IdempotencyError)
        self.transaction.roll_back()
        self.nothing_happened = isinstance(error, self.policy.release_on) and self._began_once()
        if self._is_refused and self.is_unrepeatable:
            # The store failed, or the lock was lost, after the effect had begun: no answer of
            # ours says how it ended, so none is recorded. The row lapses into unresolved.
            self.is_settled = True
        is_local = self.policy.effects is Effects.LOCAL
        if is_local and isinstance(error, OperationalError) and sending.is_transient(error):
            self.is_settled = True
            if self._release() is False:
                raise self._lock_lost() from error

    def give_back(self) -> None:
        """Roll the work back and release the key; never raises, so as to hide no error."""
        self.transaction.roll_back()
        self._release()
        self.is_settled = True

    def abandon(self, error: BaseException) -> None:
        """End work that let `error` out and has no response; never raises.

        Where the process is told to stop, a begun outside effect stays as it is.
        """
        is_stopping = not isinstance(error, Exception)
        if not self.is_settled and not (is_stopping and self.record.steps is not None):
            self.give_back()
        self.transaction.roll_back()

    def _began_once(self) -> bool:
        """Tell whether no step but the one that raised can have done anything.

        Not after one that ended, or that began in an earlier attempt, or failed and was caught,
        be it the same that was tried again.
        """
        is_first = not self._resumes and self.record.begun_steps <= 1
        return is_first and not self.record.has_finished_step

    def _release(self) -> bool | None:
        """Return whether the key was still ours; None where the store did not answer."""
        try:
            was_ours = self.record.release(forget=self.nothing_happened)
        except Exception:
            logger.exception("Could not release the key; its lock has to lapse: %s", self)
            return None
        if was_ours:
            self._tell("released", by="work")
        return was_ours

    def _note_commit(self) -> None:
        self._committed = True

    def _mend_or_refuse_broken_transaction(self, status: int) -> None:
        connection = connections[self.alias]
        if not self.transaction.is_open:
            return
        if status >= 400 and (
            connection.needs_rollback or sending.in_failed_transaction(connection)
        ):
            # An error that is recorded has its writes rolled back, as DRF does.
            self.transaction.roll_back()
        elif connection.needs_rollback:
            cause = vars(connection)["rollback_exc"]
            raise TransactionManagementError(BROKEN_TRANSACTION) from cause

    def _settle_failed_save(self, error: Exception) -> None:
        """Find out what became of a save that raised, before anybody is answered.

        Returns only where the response is saved; raises otherwise.
        """
        unanswered = isinstance(error, UNREACHABLE)
        if (unanswered or isinstance(error, LockLost)) and self._is_saved(error):
            return
        if isinstance(error, LockLost):
            raise self._lock_lost() from error
        # What was done outside cannot be undone: the row stays, and lapses into unresolved.
        released = None if self.is_unrepeatable else self._release()
        if released is False and sending.is_transient(error):
            raise self._lock_lost() from error
        if sending.is_aborted(error):
            raise TransactionManagementError(BROKEN_TRANSACTION) from error
        if unanswered and not sending.is_transient(error):
            logger.exception("Could not save the response: %s", self)
            raise StoreUnavailable from error
        raise error

    def _is_saved(self, error: Exception) -> bool:
        rows = IdempotencyKey.objects.using(self.alias)
        owned = {"pk": self.record.pk, "fencing_token": self.record.fencing_token}
        try:
            return rows.filter(**owned, state=State.COMPLETE).exists()
        except (DatabaseError, InterfaceError):
            raise StoreUnavailable from error

    def _lock_lost(self) -> LockLost:
        events.tell("lock_lost", self.record)
        return LockLost()

    def _tell(self, event: str, **details: Any) -> None:
        events.tell(event, self.record, **details, seconds=time.monotonic() - self._started)

    def __str__(self) -> str:
        return f"{self.record.endpoint}, key {mask(self.record.key)}"
