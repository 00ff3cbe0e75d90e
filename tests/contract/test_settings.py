"""The promises under the settings that change what a time, a read or a connection means."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import pytest
from django.db import connections
from django.test import TransactionTestCase, override_settings

from idempotency_app.models import IdempotencyKey

from .base import Contract, RepeatableContract, UnrepeatableContract
from .harness import Harness


@override_settings(USE_TZ=False, TIME_ZONE="America/Sao_Paulo")
class B11WithoutTimeZones(Contract, TransactionTestCase):
    """Three hours behind UTC, which is more than any lock lasts."""


class ReadsFromReplica:
    """A router to a replica that lags so far behind that it is still empty."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


@override_settings(DATABASE_ROUTERS=[f"{__name__}.ReadsFromReplica"])
class B49BesideReplica(Contract, TransactionTestCase):
    databases = {"default", "replica"}

    def setUp(self) -> None:
        super().setUp()
        self.read: list[str] = []
        self.enterContext(connections["replica"].execute_wrapper(self.note))

    def note(self, execute: Any, text: str, *arguments: Any) -> Any:
        if IdempotencyKey._meta.db_table in text:
            self.read.append(text)
        return execute(text, *arguments)

    def tearDown(self) -> None:
        assert self.read == []
        assert IdempotencyKey.objects.count() == 0  # This is what the router is asked for,
        assert len(self.read) == 1  # and the wrapper would have seen it.
        super().tearDown()


class KeysOnOther:
    """A router of the keys, and of the rows that are committed with them, to one database."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model._meta.app_label in ("idempotency_app", "testapp") else None

    db_for_write = db_for_read


@override_settings(DATABASE_ROUTERS=[f"{__name__}.KeysOnOther"])
class KeysOnAnotherDatabase(Contract, TransactionTestCase):
    databases = {"default", "other"}
    alias = "other"


@override_settings(DATABASE_ROUTERS=[f"{__name__}.KeysOnOther"])
class RepeatableKeysOnAnotherDatabase(RepeatableContract, TransactionTestCase):
    databases = {"default", "other"}
    alias = "other"


class BehindPooler(Harness):
    """Each transaction may get another session, as behind PgBouncer in transaction mode."""

    is_connecting = False

    def setUp(self) -> None:
        super().setUp()
        connection = connections[self.alias]
        for name in ("cursor", "get_autocommit"):  # What a statement, and a block, begins with.
            begin = partial(self.in_new_session, getattr(connection, name))
            self.enterContext(mock.patch.object(connection, name, begin))

    def in_new_session(self, begin: Any) -> Any:
        connection = connections[self.alias]
        if not connection.in_atomic_block and not self.is_connecting:
            self.is_connecting = True
            connection.close()
            connection.connect()
            self.is_connecting = False
        return begin()


@pytest.mark.row_locks
class B54BehindPooler(BehindPooler, Contract, TransactionTestCase):
    pass


@pytest.mark.row_locks
class B54RepeatableBehindPooler(BehindPooler, RepeatableContract, TransactionTestCase):
    pass


class UnderIsolation(Harness):
    """As on a server that defaults to the level, so that the claim's statements have it too."""

    level: str

    def setUp(self) -> None:
        super().setUp()
        connection = connections[self.alias]
        escaped = self.level.replace(" ", r"\ ")
        options = {
            # Django's `isolation_level` would set it for the transactions that psycopg begins.
            "postgresql": {"options": f"-c default_transaction_isolation={escaped}"},
            "mysql": {"isolation_level": self.level},
        }[connection.vendor]
        self.enterContext(mock.patch.dict(connection.settings_dict["OPTIONS"], options))
        connection.close()
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            cursor.execute(LEVEL[connection.vendor])
            *_, level = cursor.fetchone()
        assert level.lower().replace("-", " ") == self.level


LEVEL = {
    "postgresql": "SHOW transaction_isolation",
    "mysql": "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')",
}


@pytest.mark.row_locks
class UnderRepeatableRead(UnderIsolation, Contract, TransactionTestCase):
    level = "repeatable read"


@pytest.mark.row_locks
class UnderSerializable(UnderIsolation, Contract, TransactionTestCase):
    level = "serializable"


@pytest.mark.row_locks
class UnrepeatableUnderSerializable(UnderIsolation, UnrepeatableContract, TransactionTestCase):
    level = "serializable"
