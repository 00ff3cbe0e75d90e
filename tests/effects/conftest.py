from __future__ import annotations

import pytest
from django.db import connection


@pytest.fixture
def unreachable(monkeypatch, tmp_path):
    """Let no new connection reach the database until it is back, or the test ends."""

    class Store:
        def cut(self):
            name, away = ("NAME", str(tmp_path / "gone" / "db")), ("PORT", "1")
            changed = name if connection.vendor == "sqlite" else away
            monkeypatch.setitem(connection.settings_dict, *changed)
            connection.close()

        def is_back(self):
            monkeypatch.undo()
            connection.close()

    store = Store()
    yield store
    store.is_back()
