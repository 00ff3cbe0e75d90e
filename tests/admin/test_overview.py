"""The line above the list: what a person should look into."""

from __future__ import annotations

import re
from typing import Any

import pytest

from idempotency_app.admin import overview
from tests.factories import ago, ahead, make_key

from .test_pages import text

pytestmark = pytest.mark.django_db


def line(client: Any) -> list[str]:
    got = text(client).replace("\xa0", " ")
    return re.findall(r"<li>([^<]*)</li>", got.split("idempotency-overview")[1].split("</ul>")[0])


def test_it_counts_and_says_the_oldest_of_each(admin_client):
    make_key(locked_at=ago(minutes=5))
    make_key(locked_at=ago(minutes=9), locked_until=ahead(minutes=9))
    make_key(stale=True, locked_at=ago(hours=2))
    make_key(unresolved=True)
    make_key(released=True, locked_at=ago(hours=7))
    make_key(expired=True, expires_at=ago(hours=3))
    make_key(expired=True)
    assert line(admin_client) == [
        "2 in flight, the oldest 9 minutes",
        "2 stale, the oldest 2 hours",
        "2 unresolved, the oldest 7 hours",
        "the oldest key to reap expired 3 hours ago",
    ]


def test_where_there_is_nothing_it_says_so(admin_client):
    quiet = ["0 in flight", "0 stale", "0 unresolved", "nothing to reap"]
    assert line(admin_client) == quiet
    make_key(complete=True)
    assert line(admin_client) == quiet


def test_seconds_are_told_of_a_young_lock(admin_client):
    make_key()
    assert re.fullmatch(r"1 in flight, the oldest 1\d seconds", line(admin_client)[0])


def test_it_looks_at_so_many_rows_and_says_that_there_are_more(admin_client, monkeypatch):
    monkeypatch.setattr(overview, "LOOKED_AT", 3)
    for hours in (4, 3):
        make_key(unresolved=True, locked_at=ago(hours=hours), locked_until=ago(hours=hours))
    make_key(stale=True, locked_at=ago(hours=1))
    make_key()
    exact = line(admin_client)
    assert exact[0].startswith("1 in flight,")
    assert exact[1:3] == ["3 stale, the oldest 4 hours", "2 unresolved, the oldest 4 hours"]
    make_key(stale=True)
    cut = line(admin_client)
    assert cut[0].startswith("1 in flight,")
    assert cut[1:3] == ["3+ stale, the oldest 4 hours", "2+ unresolved, the oldest 4 hours"]


def test_where_the_oldest_are_all_of_another_kind_it_says_so(admin_client, monkeypatch):
    monkeypatch.setattr(overview, "LOOKED_AT", 3)
    for _ in range(4):
        make_key(released=True, locked_until=ago(hours=1))
    make_key(stale=True)
    assert line(admin_client)[1] == "0 stale of the oldest 3"
    assert line(admin_client)[2].startswith("3+ unresolved,")
