"""What an operator may do to a record: release a stale lock, and delete what is closed."""

from __future__ import annotations

import pytest

from idempotency_app.models import IdempotencyKey

from .factories import STEPS, claim, make_key, row

pytestmark = pytest.mark.django_db


def test_a_stale_lock_without_a_step_is_released_by_deleting_the_row():
    record = make_key(stale=True)
    assert record.release_stale_lock()
    assert row(record) is None


def test_a_stale_lock_with_a_step_waits_for_a_retry_and_keeps_its_steps():
    record = make_key(stale=True, effects="repeatable", steps=STEPS)
    assert record.release_stale_lock()
    left = row(record)
    assert (left["state"], left["steps"]) == ("released", STEPS)
    assert left["fencing_token"] != record.fencing_token


@pytest.mark.parametrize(
    "state",
    [
        {"in_flight": True},
        {"complete": True},
        {"released": True},
        {"unresolved": True},
    ],
)
def test_nothing_but_a_stale_lock_is_released_and_never_an_open_question(state):
    record = make_key(**state)
    before = row(record)
    assert not record.release_stale_lock()
    assert row(record) == before


def test_a_stale_lock_that_was_taken_over_meanwhile_is_not_released():
    seen = make_key(stale=True)
    owner = claim(seen).record
    IdempotencyKey.objects.filter(pk=owner.pk).update(locked_until=seen.locked_until)
    assert not seen.release_stale_lock()
    assert row(owner)


@pytest.mark.parametrize("state", [{"complete": True}, {"expired": True}, {"stale": True}])
def test_what_is_closed_may_be_deleted(state):
    record = make_key(**state)
    assert record.discard()
    assert row(record) is None


@pytest.mark.parametrize("state", [{"in_flight": True}, {"unresolved": True}, {"released": True}])
def test_a_live_lock_and_an_open_question_may_not_be_deleted(state):
    record = make_key(**state)
    assert not record.discard()
    assert row(record)


def test_a_row_that_has_a_new_owner_is_not_deleted():
    seen = make_key(expired=True)
    assert claim(seen).won
    assert not seen.discard()
    assert row(seen)


def test_a_row_that_a_new_owner_has_completed_is_not_deleted():
    seen = make_key(expired=True)
    claim(seen).record.complete(status=201, headers=[], body=b"{}")
    assert not seen.discard()
    assert row(seen)["state"] == "complete"
