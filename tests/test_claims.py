"""The table of the claim, row by row: what each state answers, and what it leaves untouched."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from idempotency_app.models import ClaimOutcome, IdempotencyKey, State
from idempotency_app.policy import Effects

from .factories import (
    FINGERPRINT,
    OTHER_FINGERPRINT,
    STEPS,
    age,
    ago,
    ahead,
    claim,
    make_key,
    row,
)

pytestmark = pytest.mark.django_db

C = ClaimOutcome
LONG_AGO = {"expires_at": ago(days=400)}
REMEMBERED_ONCE = {"expired": True, "remember_until": ago(seconds=1)}

# A row where no outside effect has begun; the same request; another fingerprint.
NOTHING_BEGUN: dict[str, tuple[dict[str, Any], ClaimOutcome, ClaimOutcome]] = {
    "in flight": ({"in_flight": True}, C.IN_PROGRESS, C.MISMATCH),
    "in flight past its expiry": (LONG_AGO, C.IN_PROGRESS, C.MISMATCH),
    "in flight, never expires": ({"expires_at": None}, C.IN_PROGRESS, C.MISMATCH),
    "stale": ({"stale": True}, C.TAKEN_OVER, C.MISMATCH),
    "stale, never expires": ({"stale": True, "expires_at": None}, C.TAKEN_OVER, C.MISMATCH),
    "stale and expired": ({"stale": True, **LONG_AGO}, C.CLAIMED, C.CLAIMED),
    "complete": ({"complete": True}, C.REPLAY, C.MISMATCH),
    "complete, never expires": ({"complete": True, "expires_at": None}, C.REPLAY, C.MISMATCH),
    "complete, will be remembered": (
        {"complete": True, "remember_until": ahead(days=30)},
        C.REPLAY,
        C.MISMATCH,
    ),
    "expired": ({"expired": True}, C.CLAIMED, C.CLAIMED),
    "remembered": ({"remembered": True}, C.KEY_EXPIRED, C.MISMATCH),
    "remembered, response dropped": (
        {"remembered": True, "response_body": None, "response_headers": None},
        C.KEY_EXPIRED,
        C.MISMATCH,
    ),
    "remembered long enough": (REMEMBERED_ONCE, C.CLAIMED, C.CLAIMED),
}

# The same where one had begun: REPEATABLE; UNREPEATABLE; another fingerprint.
BEGUN: dict[str, tuple[dict[str, Any], ClaimOutcome, ClaimOutcome, ClaimOutcome]] = {
    "in flight": ({}, C.IN_PROGRESS, C.IN_PROGRESS, C.MISMATCH),
    "in flight past its expiry": (LONG_AGO, C.IN_PROGRESS, C.IN_PROGRESS, C.MISMATCH),
    "stale": ({"stale": True}, C.TAKEN_OVER, C.OUTCOME_UNKNOWN, C.MISMATCH),
    "stale and expired": (
        {"stale": True, **LONG_AGO},
        C.TAKEN_OVER,
        C.OUTCOME_UNKNOWN,
        C.MISMATCH,
    ),
    "stale, would be remembered": (
        {"stale": True, **LONG_AGO, "remember_until": ahead(days=30)},
        C.TAKEN_OVER,
        C.OUTCOME_UNKNOWN,
        C.MISMATCH,
    ),
    "released": ({"released": True}, C.CLAIMED, C.OUTCOME_UNKNOWN, C.MISMATCH),
    "released and expired": (
        {"released": True, **LONG_AGO},
        C.CLAIMED,
        C.OUTCOME_UNKNOWN,
        C.MISMATCH,
    ),
    "complete": ({"complete": True}, C.REPLAY, C.REPLAY, C.MISMATCH),
    "expired": ({"expired": True}, C.CLAIMED, C.CLAIMED, C.CLAIMED),
    "remembered": ({"remembered": True}, C.KEY_EXPIRED, C.KEY_EXPIRED, C.MISMATCH),
}


def check(state: dict[str, Any], fingerprint: str, outcome: ClaimOutcome) -> None:
    """Claim, and hold the outcome and the row against what they have to be."""
    record = make_key(**state)
    before = row(record)
    made = claim(record, fingerprint=fingerprint)
    after = row(record)
    assert made.outcome is outcome
    assert (made.retry_after > 0) == (outcome is C.IN_PROGRESS)
    if made.won:
        assert after["fencing_token"] == made.record.fencing_token != record.fencing_token
    else:
        assert after == before


@pytest.mark.parametrize("effects", Effects)
@pytest.mark.parametrize("state", NOTHING_BEGUN)
def test_the_same_request_gets_what_the_table_says(state, effects):
    values, outcome, _ = NOTHING_BEGUN[state]
    check({"effects": effects, **values}, FINGERPRINT, outcome)


@pytest.mark.parametrize("effects", Effects)
@pytest.mark.parametrize("state", NOTHING_BEGUN)
def test_s4_another_fingerprint_never_runs_while_the_key_lives(state, effects):
    values, _, outcome = NOTHING_BEGUN[state]
    check({"effects": effects, **values}, OTHER_FINGERPRINT, outcome)


@pytest.mark.parametrize("state", BEGUN)
def test_a_repeatable_effect_that_has_begun_is_gone_on_with(state):
    values, outcome, _, _ = BEGUN[state]
    check({**values, "effects": Effects.REPEATABLE, "steps": STEPS}, FINGERPRINT, outcome)


@pytest.mark.parametrize("state", BEGUN)
def test_s24_an_unrepeatable_effect_that_has_begun_is_held_at_any_age(state):
    values, _, outcome, _ = BEGUN[state]
    check({**values, "effects": Effects.UNREPEATABLE, "steps": STEPS}, FINGERPRINT, outcome)


@pytest.mark.parametrize("effects", [Effects.REPEATABLE, Effects.UNREPEATABLE])
@pytest.mark.parametrize("state", BEGUN)
def test_s25_an_open_question_keeps_its_key_for_its_own_request(state, effects):
    values, _, _, outcome = BEGUN[state]
    check({**values, "effects": effects, "steps": STEPS}, OTHER_FINGERPRINT, outcome)


@pytest.mark.parametrize("effects", Effects)
def test_a_first_request_becomes_the_owner_of_a_new_row(effects):
    made = claim(effects=effects)
    after = row(made.record)
    assert made.outcome is C.CLAIMED
    assert after == {name: getattr(made.record, name) for name in after}
    assert (after["state"], after["effects"]) == (State.IN_PROGRESS, effects)
    assert 0 <= after["fencing_token"] < 2**63


def test_each_claim_has_a_token_of_its_own():
    tokens = {claim(key=f"k{number}").record.fencing_token for number in range(20)}
    assert len(tokens) == 20


@pytest.mark.parametrize("scope", ["account", "endpoint", "key"])
def test_s13_a_key_belongs_to_its_account_and_its_endpoint(scope):
    first = claim()
    changes: dict[str, Any] = {scope: "another"}
    second = claim(**changes)
    assert second.outcome is C.CLAIMED
    assert second.record.pk != first.record.pk


@pytest.mark.parametrize(
    ("effects", "effects_in_steps", "steps"),
    [
        (Effects.LOCAL, False, None),
        (Effects.REPEATABLE, False, None),
        (Effects.UNREPEATABLE, False, "{}"),
        (Effects.UNREPEATABLE, True, None),
    ],
)
@pytest.mark.parametrize("state", [None, {"stale": True}, {"expired": True, "steps": STEPS}])
def test_only_unrepeatable_work_has_begun_with_the_claim(state, effects, effects_in_steps, steps):
    record = make_key(effects=effects, **state) if state else None
    made = claim(record, effects=effects, effects_in_steps=effects_in_steps)
    assert made.won
    assert made.record.steps == row(made.record)["steps"] == steps


def test_the_lock_the_expiry_and_the_memory_follow_each_other():
    times = claim(
        lock_timeout=timedelta(seconds=90), retention=timedelta(hours=2), remember=timedelta(days=3)
    ).record
    assert times.locked_at == times.created_at
    assert times.locked_until - times.locked_at == timedelta(seconds=90)
    assert times.expires_at - times.locked_until == timedelta(hours=2)
    assert times.remember_until - times.expires_at == timedelta(days=3)


@pytest.mark.parametrize("remember", [None, timedelta(days=30)])
def test_a_retention_of_none_never_expires(remember):
    record = claim(retention=None, remember=remember).record
    record.complete(status=201, headers=[], body=b"")
    age(record, days=36500)
    assert (record.expires_at, record.remember_until) == (None, None)
    assert claim(record).outcome is C.REPLAY
    assert not IdempotencyKey.objects.expired().exists()


@pytest.mark.parametrize("state", ["stale", "released"])
@pytest.mark.parametrize("expiry", [{}, LONG_AGO])
def test_s11_going_on_keeps_the_request_and_its_steps_and_renews_the_rest(state, expiry):
    record = make_key(**{state: True}, **expiry, effects=Effects.REPEATABLE, steps=STEPS)
    before = row(record)
    made = claim(record, remember=timedelta(days=30))
    after = row(record)
    kept = ("id", "account", "endpoint", "key", "fingerprint", "effects", "steps", "created_at")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert after == {name: getattr(made.record, name) for name in after}
    assert after["state"] == State.IN_PROGRESS
    assert after["locked_until"] - after["locked_at"] == timedelta(seconds=60)
    assert after["expires_at"] - after["locked_until"] == timedelta(hours=24)
    assert after["remember_until"] - after["expires_at"] == timedelta(days=30)
    assert after["locked_at"] > before["locked_until"]


def test_s22_a_forgotten_key_begins_as_if_it_were_new():
    record = make_key(**REMEMBERED_ONCE, effects=Effects.REPEATABLE, steps=STEPS)
    age(record, days=2)
    before = row(record)
    made = claim(record, fingerprint=OTHER_FINGERPRINT, effects=Effects.LOCAL)
    after = row(record)
    kept = ("id", "account", "endpoint", "key")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert after == {name: getattr(made.record, name) for name in after}
    assert (after["fingerprint"], after["effects"]) == (OTHER_FINGERPRINT, Effects.LOCAL)
    gone = ("response_status", "response_headers", "response_body", "steps", "remember_until")
    assert [after[name] for name in gone] == [None] * 5
    assert after["created_at"] == after["locked_at"] > before["created_at"]
    assert after["expires_at"] - after["locked_at"] == timedelta(hours=24, seconds=60)


@pytest.mark.parametrize("view", Effects)
@pytest.mark.parametrize("stored", Effects)
def test_a_deploy_that_changed_the_effects_takes_the_stricter_side(stored, view):
    record = make_key(stale=True, effects=stored, steps=STEPS)
    before = row(record)
    made = claim(record, effects=view)
    if Effects.UNREPEATABLE in (stored, view):
        assert (made.outcome, row(record)) == (C.OUTCOME_UNKNOWN, before)
    else:
        assert (made.outcome, row(record)["effects"]) == (C.TAKEN_OVER, view)


@pytest.mark.parametrize("view", Effects)
@pytest.mark.parametrize("stored", Effects)
def test_a_deploy_that_changed_the_effects_is_followed_where_nothing_had_begun(stored, view):
    record = make_key(stale=True, effects=stored)
    made = claim(record, effects=view, effects_in_steps=True)
    assert made.outcome is C.TAKEN_OVER
    assert row(record)["effects"] == made.record.effects == view


def test_a_released_key_is_held_once_its_view_has_become_unrepeatable():
    record = make_key(released=True)
    before = row(record)
    assert claim(record, effects=Effects.UNREPEATABLE).outcome is C.OUTCOME_UNKNOWN
    assert row(record) == before


@pytest.mark.parametrize(
    ("ran_for", "lock_left", "wait"),
    [
        pytest.param(0, 60, 1, id="at least a second"),
        pytest.param(10.1, 50, 10, id="as long as it has run"),
        pytest.param(29.1, 31, 29, id="still as long as it has run"),
        pytest.param(100, 100, 30, id="at most half a minute"),
        pytest.param(50, 9.9, 9, id="at most what is left"),
        pytest.param(59, 0.9, 1, id="at least a second, whatever is left"),
    ],
)
def test_the_wait_grows_with_the_first_request(ran_for, lock_left, wait):
    record = make_key(locked_at=ago(seconds=ran_for), locked_until=ahead(seconds=lock_left))
    assert claim(record).retry_after == wait


def test_b06_a_dead_worker_blocks_the_key_for_its_lock_only():
    dead, alive = claim(key="dead").record, claim(key="alive").record
    age(dead, seconds=61)
    age(alive, seconds=57)
    before = row(alive)
    taken, refused = claim(dead), claim(alive)
    assert taken.outcome is C.TAKEN_OVER
    assert taken.record.fencing_token != dead.fencing_token
    assert (refused.outcome, row(alive)) == (C.IN_PROGRESS, before)
    assert 1 <= refused.retry_after <= 4


def test_b13_each_view_has_its_own_lock():
    long = claim(key="long", lock_timeout=timedelta(seconds=120)).record
    short = claim(key="short", lock_timeout=timedelta(seconds=10)).record
    age(long, seconds=15)
    age(short, seconds=15)
    refused = claim(long, lock_timeout=timedelta(seconds=10))
    assert (refused.outcome, claim(short).outcome) == (C.IN_PROGRESS, C.TAKEN_OVER)
    assert 1 <= refused.retry_after <= 105
    age(long, seconds=106)
    assert claim(long).outcome is C.TAKEN_OVER


def test_b03_a_row_that_is_refused_for_another_reason_is_an_error_and_no_duplicate(
    django_assert_max_num_queries,
):
    with django_assert_max_num_queries(10), pytest.raises(DatabaseError):
        claim(key="x" * 256)
