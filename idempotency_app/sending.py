"""How a statement is sent: repeated by itself where that is safe, its errors told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.db import IntegrityError, InterfaceError, OperationalError

T = TypeVar("T")

# PostgreSQL: serialization_failure, deadlock_detected. MySQL and MariaDB: ER_LOCK_DEADLOCK,
# ER_LOCK_WAIT_TIMEOUT. MariaDB from 11.6 on, under REPEATABLE READ: ER_CHECKREAD.
TRANSIENT = frozenset({"40001", "40P01", 1213, 1205, 1020})
DUPLICATE_ENTRY = 1062  # ER_DUP_ENTRY of MySQL and MariaDB


def insert(connection: Any, text: str, values: Mapping[str, Any]) -> int | None:
    """Insert the row if there is none; return its id, or None where somebody was first.

    It is repeated like `change`, so None may also mean that it was done, and its answer lost.
    """

    def send() -> int | None:
        with connection.cursor() as cursor:
            try:
                cursor.execute(text, values)
            except IntegrityError as error:
                if connection.vendor == "mysql" and error.args[0] == DUPLICATE_ENTRY:
                    return None
                raise
            if connection.vendor == "mysql":
                return int(cursor.lastrowid)
            row = cursor.fetchone()
            return int(row[0]) if row else None

    return repeated(connection, send)


def change(connection: Any, text: str, values: Mapping[str, Any]) -> int:
    """Run a statement that changes rows; return how many it changed.

    Where it was repeated after a lost connection, it may have been done the first time, and
    the number is that of the repetition.
    """

    def send() -> int:
        with connection.cursor() as cursor:
            cursor.execute(text, values)
            return int(cursor.rowcount)

    return repeated(connection, send)


def repeated(connection: Any, send: Callable[[], T]) -> T:
    """Send a statement, and return what `send` returns.

    Outside a transaction it is repeated by itself, at most three times, where it meets a
    serialization error or a deadlock, or loses its connection. Inside one, MySQL and MariaDB
    undo a deadlock's victim whole, and would commit what follows, so nothing may follow.
    """
    repeats_left = 3
    while True:
        try:
            return send()
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block and is_transient(error):
                connection.set_rollback(True)
            if not repeats_left or not may_repeat(connection, error):
                raise
            repeats_left -= 1


def may_repeat(connection: Any, error: BaseException) -> bool:
    """Tell whether a statement that failed like this may be sent again by itself.

    A lost connection is dropped, so that the next statement opens a new one.
    """
    if connection.in_atomic_block:
        return False
    if is_transient(error):
        return True
    if connection.connection is None or connection.is_usable():
        return False
    connection.close()
    return True


def is_transient(error: BaseException) -> bool:
    """Tell whether the database chose this statement as the victim of a race."""
    return _code(error) in TRANSIENT


def is_aborted(error: BaseException) -> bool:
    """Tell whether PostgreSQL refused a statement because an earlier one had failed."""
    return _code(error) == "25P02"  # in_failed_sql_transaction


def in_failed_transaction(connection: Any) -> bool:
    """Tell whether PostgreSQL refuses all until a rollback; asks only the driver."""
    status = getattr(getattr(connection.connection, "info", None), "transaction_status", None)
    return bool(status == 3)  # PQTRANS_INERROR


def _code(error: BaseException) -> object:
    return getattr(error.__cause__, "sqlstate", None) or (error.args or (None,))[0]
