"""Steps and `renew` hold the lock, and stop a worker that has lost it or may not act."""

from __future__ import annotations

import datetime

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from idempotency_app.exceptions import LockLost
from idempotency_app.models import ClaimOutcome
from idempotency_app.policy import Effects, Idempotency
from tests.factories import age, claim, row

from .attempts import begin, never, owned, steps, take_over, with_and_without_a_key
from .support import each_outside_effect

pytestmark = pytest.mark.django_db

local = pytest.mark.parametrize(
    "policy", [Idempotency(effects=Effects.LOCAL), Idempotency()], ids=["declared", "by silence"]
)


# A worker that lost its lock.


def test_s10_a_worker_that_lost_its_lock_stops_before_the_effect():
    slow = begin()
    owner = take_over(slow)
    before = row(owned(owner))
    with pytest.raises(LockLost):
        slow.step("charge", never)
    assert row(owned(owner)) == before


def test_s10_a_worker_that_loses_its_lock_between_two_steps_stops_before_the_second():
    slow = begin()
    slow.step("charge", lambda key: "ch_1")
    owner = take_over(slow)
    with pytest.raises(LockLost):
        slow.step("receipt", never)
    assert steps(owner) == {"charge": {"result": "ch_1"}}


def test_s10_a_worker_that_loses_its_lock_in_the_effect_saves_nothing_over_the_new_owner():
    slow = begin()
    owners = []
    with pytest.raises(LockLost):
        slow.step("charge", lambda key: owners.append(take_over(slow)))
    assert steps(owners[0]) == {"charge": {}}
    assert owners[0].step("charge", lambda key: key) == slow.downstream_key("charge")


@each_outside_effect
def test_s10_a_worker_whose_key_was_recorded_or_given_back_stops_too(policy):
    slow = begin(policy)
    owned(slow).complete(status=201, headers=[], body=b"")
    for verb in (lambda: slow.step("charge", never), slow.renew):
        with pytest.raises(LockLost):
            verb()


# The lock that a step and `renew` move.


@each_outside_effect
def test_renew_holds_the_lock_for_another_timeout_from_now(policy):
    attempt = begin(policy)
    age(owned(attempt), seconds=50)
    attempt.renew()
    age(owned(attempt), seconds=50)
    assert claim(owned(attempt)).outcome is ClaimOutcome.IN_PROGRESS


def test_renew_takes_the_views_own_timeout():
    attempt = begin(Idempotency(effects=Effects.REPEATABLE, lock_timeout=datetime.timedelta(3)))
    attempt.renew()
    age(owned(attempt), days=2)
    assert claim(owned(attempt)).outcome is ClaimOutcome.IN_PROGRESS


def test_s10_renew_tells_a_worker_that_it_has_lost_its_lock():
    slow = begin()
    owner = take_over(slow)
    before = row(owned(owner))
    with pytest.raises(LockLost):
        slow.renew()
    assert row(owned(owner)) == before


def test_a_step_renews_the_lock_when_it_begins_and_when_it_ends():
    attempt = begin()
    age(owned(attempt), seconds=50)

    def work(key):
        age(owned(attempt), seconds=50)
        assert claim(owned(attempt)).outcome is ClaimOutcome.IN_PROGRESS

    attempt.step("charge", work)
    age(owned(attempt), seconds=50)
    assert claim(owned(attempt)).outcome is ClaimOutcome.IN_PROGRESS


# Where there are no steps.


@local
@with_and_without_a_key
def test_under_local_a_step_is_an_error_that_says_to_declare_the_effects(policy, keyed):
    attempt = begin(policy, keyed)
    with pytest.raises(ImproperlyConfigured, match=r"^step\(\).*LOCAL.*Declare.*REPEATABLE"):
        attempt.step("charge", never)


@local
@with_and_without_a_key
def test_under_local_renew_is_an_error_that_says_to_declare_the_effects(policy, keyed):
    attempt = begin(policy, keyed)
    with pytest.raises(ImproperlyConfigured, match=r"^renew\(\).*LOCAL.*Declare.*REPEATABLE"):
        attempt.renew()


@each_outside_effect
def test_a_step_inside_the_works_own_transaction_is_refused_before_the_effect(policy):
    attempt = begin(policy)
    before = row(owned(attempt))
    with (
        pytest.raises(TransactionManagementError, match="outside of the block"),
        transaction.atomic(),
    ):
        attempt.step("charge", never)
    assert row(owned(attempt)) == before


def test_renew_inside_the_works_own_transaction_is_refused():
    attempt = begin()
    with (
        pytest.raises(TransactionManagementError, match="outside of the block"),
        transaction.atomic(),
    ):
        attempt.renew()


def test_a_step_after_the_works_own_transaction_runs():
    attempt = begin()
    with transaction.atomic():
        pass
    assert attempt.step("charge", lambda key: 1) == 1


def test_a_step_inside_a_transaction_that_was_there_before_the_claim_runs():
    with transaction.atomic():
        assert begin().step("charge", lambda key: 1) == 1


@each_outside_effect
def test_without_a_key_steps_simply_run_and_there_is_no_lock_to_renew(policy):
    attempt = begin(policy, keyed=False)
    with CaptureQueriesContext(connection) as queries:
        runs = [attempt.step("charge", lambda key: {"id": 7}) for _ in range(2)]
        attempt.renew()
    assert (runs, len(queries)) == ([{"id": 7}] * 2, 0)
