"""Thirty-two requests with one key at the same moment: one of them runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.db.models import UniqueConstraint

from idempotency_app.models import IdempotencyKey

from ..factories import make_key
from ..testapp.models import Order
from .crowd import SIZE

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = [f"key-{number}" for number in range(200)]

# The state that the requests meet; what the one winner is told.
STATES: dict[str, tuple[dict[str, Any], str]] = {
    "absent": ({}, "claimed"),
    "stale": ({"stale": True}, "taken_over"),
    "expired": ({"expired": True}, "claimed"),
}


def outcomes(found):
    """Count what the crowd was told, for each key."""
    by_key: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for key, outcome in found:
        by_key[key][outcome] += 1
    return by_key


@pytest.mark.parametrize("state", STATES)
def test_b01_one_of_many_claims_wins_a_key(crowd, state):
    values, won = STATES[state]
    for key in KEYS if values else []:
        make_key(key=key, **values)
    found = outcomes(crowd.run("race", keys=KEYS))
    expected = {won: 1, "in_progress": SIZE - 1}
    assert {key: dict(told) for key, told in found.items()} == dict.fromkeys(KEYS, expected)
    assert IdempotencyKey.objects.count() == len(KEYS)


def test_b01_nobody_wins_a_key_whose_lock_is_live(crowd):
    for key in KEYS:
        make_key(key=key)
    tokens = set(IdempotencyKey.objects.values_list("key", "fencing_token"))
    found = outcomes(crowd.run("race", keys=KEYS))
    assert all(told == {"in_progress": SIZE} for told in found.values())
    assert set(IdempotencyKey.objects.values_list("key", "fencing_token")) == tokens


@pytest.mark.row_locks
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize("state", ["absent", "stale"])
def test_b52_a_server_that_refuses_racing_statements_gives_no_error(crowd, state, isolation):
    values, won = STATES[state]
    for key in KEYS[:20] if values else []:
        make_key(key=key, **values)
    found = outcomes(crowd.run("race", keys=KEYS[:20], isolation=isolation))
    expected = {won: 1, "in_progress": SIZE - 1}
    assert {key: dict(told) for key, told in found.items()} == dict.fromkeys(KEYS[:20], expected)


@contextmanager
def without_the_constraint(monkeypatch):
    """Drop it from the table, and put it back; SQLite makes the table anew from the model."""
    constraints = IdempotencyKey._meta.constraints
    [unique] = [one for one in constraints if isinstance(one, UniqueConstraint)]
    others = [one for one in constraints if one is not unique]
    with monkeypatch.context() as patch, connection.schema_editor() as editor:
        patch.setattr(IdempotencyKey._meta, "constraints", others)
        editor.remove_constraint(IdempotencyKey, unique)
    try:
        yield
    finally:
        IdempotencyKey.objects.all().delete()
        with connection.schema_editor() as editor:
            editor.add_constraint(IdempotencyKey, unique)


def test_the_race_sees_two_winners_where_the_constraint_is_gone(crowd, monkeypatch):
    with without_the_constraint(monkeypatch):
        found = outcomes(crowd.run("race", keys=KEYS[:40], weakness="no constraint"))
        assert IdempotencyKey.objects.count() == sum(told["claimed"] for told in found.values())
    assert max(told["claimed"] for told in found.values()) > 1
    make_key(key="again")
    with pytest.raises(IntegrityError):
        make_key(key="again")


def test_the_race_sees_two_winners_where_a_takeover_compares_no_token(crowd):
    for key in KEYS[:40]:
        make_key(key=key, stale=True)
    found = outcomes(crowd.run("race", keys=KEYS[:40], weakness="no compare"))
    assert max(told["taken_over"] for told in found.values()) > 1


def test_s10_slow_and_failing_workers_leave_one_business_row_a_key(crowd):
    keys = KEYS[:40]
    happened = crowd.run("work_for_a_while", keys=keys, seed=20261130)
    written = Counter(Order.objects.values_list("sku", flat=True))
    completed = Counter(key for key, what in happened if what == "completed")
    assert written == completed == Counter(keys)
    assert {what for _, what in happened} == {"completed", "released", "lost"}
