"""What PostgreSQL itself says of a request that does not run: no dead row, and no error."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test import TransactionTestCase

from idempotency_app.models import IdempotencyKey
from tests.contract.harness import OTHER_BODY, PAST_THE_LOCK, PAST_THE_RETENTION, Harness

pytestmark = pytest.mark.postgresql_only

TABLE = IdempotencyKey._meta.db_table
# The levels of what a server logs when something is wrong.
COMPLAINTS = ("WARNING", "ERROR", "FATAL", "PANIC")
LOG = os.environ.get("IDEMPOTENCY_TEST_POSTGRES_LOG")


def ask(question: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(question, values)
        return cursor.fetchall()


def errors() -> list[str] | int:
    """Return what the server has complained of so far: its lines, or, of a server whose log we
    cannot read, how many transactions it has ended in a rollback."""
    if LOG:
        said = Path(LOG).read_text(errors="replace").splitlines()
        return [line for line in said if any(f"{level}: " in line for level in COMPLAINTS)]
    ask("SELECT pg_stat_force_next_flush()")
    ((rollbacks,),) = ask(
        "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    )
    return int(rollbacks)


class Evidence(Harness):
    def insert_a_duplicate(self) -> None:
        """What the server would see of a claim by `.create()`."""
        row = self.keys.get(key="k")
        row.pk = None
        with pytest.raises(IntegrityError):
            row.save(force_insert=True)


class ServerLog(Evidence, TransactionTestCase):
    def complaints_of(self, act: Callable[[], Any]) -> bool:
        before = errors()
        act()
        return errors() != before

    def test_a_row_that_is_refused_is_seen_here(self):
        self.send()
        assert self.complaints_of(self.insert_a_duplicate)

    def test_a_replay_is_no_error(self):
        self.send()
        assert not self.complaints_of(self.send)

    def test_a_mismatch_is_no_error(self):
        self.send()
        assert not self.complaints_of(lambda: self.send(OTHER_BODY))

    def test_a_conflict_is_no_error(self):
        self.leave_a_dead_worker()
        assert not self.complaints_of(self.send)


class DeadRows(Evidence, TransactionTestCase):
    """A table that was emptied is filled from its first place on, and each version of a row
    takes the next one, dead or alive: a gap between two rows is a version between them."""

    def versions_left_by(self, act: Callable[[], Any]) -> int:
        before = self.place_of_one_more_row()
        act()
        return self.place_of_one_more_row() - before - 1

    def place_of_one_more_row(self) -> int:
        row = self.keys.earliest("pk")
        row.pk, row.key = None, str(uuid.uuid4())
        row.save(force_insert=True)
        ((place,),) = ask(f"SELECT (ctid::text::point)[1]::int FROM {TABLE} WHERE id = %s", row.pk)  # noqa: S608
        return int(place)

    def assert_leaves_nothing(self, act: Callable[[], Any]) -> None:
        # xmin and xmax name the transactions that wrote the version, and that locked it since.
        versions = f"SELECT ctid, xmin, xmax FROM {TABLE} WHERE key = 'k'"  # noqa: S608
        before = ask(versions)
        assert self.versions_left_by(act) == 0
        assert ask(versions) == before

    def test_a_row_that_is_refused_is_seen_here(self):
        self.send()
        assert self.versions_left_by(self.insert_a_duplicate) == 1

    def test_a_replay_leaves_no_dead_row(self):
        self.send()
        self.assert_leaves_nothing(self.send)

    def test_a_mismatch_leaves_no_dead_row(self):
        self.send()
        self.assert_leaves_nothing(lambda: self.send(OTHER_BODY))

    def test_a_conflict_leaves_no_dead_row(self):
        self.leave_a_dead_worker()
        self.assert_leaves_nothing(self.send)


class B54Session(Harness, TransactionTestCase):
    def test_b54_a_session_is_afterwards_as_it_was_before(self):
        before = ask(SESSION)
        for _ in range(10):  # By itself psycopg prepares a statement at its sixth use.
            self.send()
        self.send(OTHER_BODY)
        self.age(PAST_THE_RETENTION)
        IdempotencyKey.objects.reap()
        self.leave_a_dead_worker()
        self.age(PAST_THE_LOCK)
        self.send()
        assert ask(SESSION) == before


SESSION = """
    SELECT 'prepared', name FROM pg_prepared_statements
    UNION ALL SELECT 'cursor', name FROM pg_cursors WHERE is_holdable
    UNION ALL SELECT 'listens', * FROM pg_listening_channels()
    UNION ALL SELECT 'locks', mode FROM pg_locks
        WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    UNION ALL SELECT 'has set', name || ' = ' || setting FROM pg_settings WHERE source = 'session'
    ORDER BY 1, 2
"""
