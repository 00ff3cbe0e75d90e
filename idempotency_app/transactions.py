"""Transactions whose ends lie in different calls, and those of somebody else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.db.transaction import TransactionManagementError


class Transaction:
    """An atomic block that is entered in one call and left in another, or never entered."""

    def __init__(self, alias: str) -> None:
        """Take the database alias; nothing is opened yet."""
        self.alias = alias
        self._block: Any = None

    @property
    def is_open(self) -> bool:
        """Whether the block has been entered and not been left."""
        return self._block is not None

    def begin(self) -> None:
        """Open a transaction, or a savepoint inside somebody else's."""
        block = transaction.atomic(using=self.alias)
        block.__enter__()
        self._block = block

    def commit(self) -> None:
        """Leave the block: commit, or roll back where it is marked for that. No-op if closed."""
        self._leave(None)

    def roll_back(self) -> None:
        """Leave the block and undo what it did. No-op if closed; raises no database error."""
        # Django connects anew when it has lost the connection, which may fail. What the block
        # did went with the old one.
        with suppress(DatabaseError, InterfaceError):
            self._leave(TransactionManagementError)

    def _leave(self, exc_type: type[Exception] | None) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(exc_type, None, None)


def shielded(own: Transaction) -> AbstractContextManager[Any]:
    """Keep DRF's `set_rollback` away from a transaction that the view did not open.

    Inside one (a TestCase's, a caller's), and with no block of our own open, it gets a
    savepoint to mark instead.
    """
    connection = connections[own.alias]
    exposed = connection.in_atomic_block and connection.settings_dict["ATOMIC_REQUESTS"]
    return transaction.atomic(using=own.alias) if exposed and not own.is_open else nullcontext()


def check_autocommit(alias: str) -> None:
    """Refuse a connection on which nobody would commit the claim before the work.

    Raises ImproperlyConfigured where it has no autocommit and no transaction of somebody's.
    """
    connection = connections[alias]
    # `autocommit` says nothing before the first connection, and `get_autocommit()` connects.
    is_on = connection.settings_dict["AUTOCOMMIT"] and (
        connection.connection is None or connection.autocommit
    )
    if not connection.in_atomic_block and not is_on:
        raise ImproperlyConfigured(
            f"The keys' database {alias!r} runs without autocommit, so that no other request "
            "would see the claim. Switch AUTOCOMMIT on, or give the keys an alias of their own."
        )


def in_foreign_block(alias: str) -> bool:
    """Tell whether somebody else's transaction is open, other than a TestCase's."""
    connection = connections[alias]
    # `_from_testcase` is how Django itself lets durable blocks nest in a TestCase.
    return connection.in_atomic_block and not any(
        getattr(block, "_from_testcase", False) for block in connection.atomic_blocks
    )
