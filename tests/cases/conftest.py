from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from .support import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads(max_workers=24) as pool:
        yield pool


@pytest.fixture
def atomic_requests(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)


class ReadsGoToTheReplica:
    def db_for_read(self, model, **hints):
        return "replica"

    def db_for_write(self, model, **hints):
        return "default"

    def allow_relation(self, first, second, **hints):
        return True


@pytest.fixture
def replica(settings):
    """Send every read to a database that no test here may touch: one that does fails."""
    settings.DATABASE_ROUTERS = [ReadsGoToTheReplica()]
