"""What happens between a claim's statements: another connection is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections

from idempotency_app.models import ClaimOutcome, IdempotencyKey
from idempotency_app.policy import Effects

from .factories import STEPS, ago, claim, make_key, row


@pytest.fixture
def second(transactional_db: None) -> Iterator[str]:
    """Name another connection to the same database, as another worker has."""
    connections["second"] = connection.copy("second")
    yield "second"
    connections["second"].close()
    del connections["second"]


@contextmanager
def just_before(verb: str, act: Callable[[], object]) -> Iterator[None]:
    """Act once, when the first statement of that kind is about to be sent."""
    acts = [act]

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(verb) and acts:
            acts.pop()()
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(wrapper):
        yield


def test_b58_a_row_that_goes_between_the_conflict_and_the_look_is_claimed(second):
    record = make_key(complete=True)
    rows = IdempotencyKey.objects.using(second)
    with just_before("SELECT", rows.filter(pk=record.pk).delete):
        made = claim(record)
    assert made.outcome is ClaimOutcome.CLAIMED
    assert IdempotencyKey.objects.get().fencing_token == made.record.fencing_token


@pytest.mark.parametrize("state", ["stale", "expired"])
def test_b58_a_row_that_another_request_completes_meanwhile_is_replayed(second, state):
    record = make_key(**{state: True})

    def completes() -> None:
        claim(record, using=second).record.complete(status=201, headers=[], body=b"theirs")

    with just_before("UPDATE", completes):
        made = claim(record)
    assert made.outcome is ClaimOutcome.REPLAY
    assert row(record)["response_body"] == b"theirs"


# What the owner of a stale lock does at the last moment, under the token that was seen.
LAST_MOMENTS: dict[str, tuple[Callable[[IdempotencyKey], Any], ClaimOutcome]] = {
    "complete": (
        lambda owner: owner.complete(status=201, headers=[], body=b""),
        ClaimOutcome.REPLAY,
    ),
    "renew": (lambda owner: owner.renew(timedelta(seconds=60)), ClaimOutcome.IN_PROGRESS),
    "release": (lambda owner: owner.release(), ClaimOutcome.CLAIMED),
}


@pytest.mark.parametrize("moment", LAST_MOMENTS)
@pytest.mark.parametrize("expiry", [{}, {"expires_at": ago(days=2)}])
def test_an_owner_that_wakes_up_at_the_last_moment_is_not_taken_over(second, moment, expiry):
    act, outcome = LAST_MOMENTS[moment]
    pk = make_key(stale=True, key="k", **expiry).pk
    owner = IdempotencyKey.objects.using(second).get(pk=pk)
    with just_before("UPDATE", lambda: act(owner)):
        made = claim()
    # What is complete and long expired begins anew all the same.
    expected = ClaimOutcome.CLAIMED if expiry and moment == "complete" else outcome
    assert made.outcome is expected


@pytest.mark.parametrize("state", ["stale", "released", "expired"])
def test_a_claim_does_not_touch_another_keys_row_under_the_same_id(second, state):
    record = make_key(**{state: True})
    other = make_key(**{state: True})

    def replaces() -> None:
        rows = IdempotencyKey.objects.using(second)
        rows.filter(pk=record.pk).delete()
        rows.filter(pk=other.pk).update(id=record.pk)

    with just_before("UPDATE", replaces):
        made = claim(record)
    assert made.won
    assert made.record.pk != record.pk
    assert IdempotencyKey.objects.get(key=other.key).fencing_token == other.fencing_token


def test_a_step_that_begins_at_the_last_moment_is_not_taken_for_nothing(second):
    pk = make_key(stale=True, key="k", effects=Effects.UNREPEATABLE).pk
    rows = IdempotencyKey.objects.using(second).filter(pk=pk)
    with just_before("UPDATE", lambda: rows.update(steps=STEPS)):
        made = claim(effects=Effects.UNREPEATABLE, effects_in_steps=True)
    assert made.outcome is ClaimOutcome.OUTCOME_UNKNOWN


def test_a_claim_that_is_never_fast_enough_is_told_to_wait(second):
    record = make_key(stale=True)
    rows = IdempotencyKey.objects.using(second).filter(pk=record.pk)

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE"):
            rows.update(fencing_token=len(sql) + int(rows.get().fencing_token) // 2)
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(wrapper):
        made = claim(record)
    assert (made.outcome, made.retry_after) == (ClaimOutcome.IN_PROGRESS, 1)
