"""The owner's verbs and their fence, the adjectives, the reaper, and the table's own rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from idempotency_app.exceptions import LockLost
from idempotency_app.models import ClaimOutcome, IdempotencyKey, State
from idempotency_app.policy import Effects

from .factories import STEPS, age, ahead, claim, make_key, row

pytestmark = pytest.mark.django_db

VERBS: dict[str, Callable[[IdempotencyKey], object]] = {
    "complete": lambda record: record.complete(status=500, headers=[("A", "late")], body=b"late"),
    "release": lambda record: record.release(),
    "renew": lambda record: record.renew(timedelta(hours=1)),
    "save a step": lambda record: record.save_steps({"late": {}}, timedelta(hours=1)),
}
each_verb = pytest.mark.parametrize("verb", VERBS)
with_and_without_steps = pytest.mark.parametrize("steps", [None, STEPS])


def is_refused(verb: str, record: IdempotencyKey) -> bool:
    """Run the verb; tell whether it says that the record is no longer the caller's."""
    try:
        return VERBS[verb](record) is False
    except LockLost:
        return True


def test_complete_saves_the_response_and_ends_the_lock():
    record = claim(remember=timedelta(days=3)).record
    before = row(record)
    record.complete(status=201, headers=[("Location", "/7/"), ("Link", "a")], body=b"\x00\xff")
    after = row(record)
    assert (record.state, record.locked_until, row(record)["response_body"]) == (
        State.COMPLETE,
        None,
        b"\x00\xff",
    )
    assert after == before | {
        "state": State.COMPLETE,
        "locked_until": None,
        "response_status": 201,
        "response_headers": '[["Location", "/7/"], ["Link", "a"]]',
        "response_body": b"\x00\xff",
    }


def test_a_replay_has_the_recorded_response():
    claim().record.complete(status=303, headers=[("Location", "/7/")], body=b"{}")
    replay = claim()
    assert replay.outcome is ClaimOutcome.REPLAY
    assert (replay.record.response_status, replay.record.headers) == (303, [("Location", "/7/")])
    assert row(replay.record)["response_body"] == b"{}"


def test_a_body_that_is_not_kept_is_no_empty_body():
    for key, body in (("empty", b""), ("not kept", None)):
        claim(key=key).record.complete(status=200, headers=[], body=body)
    empty, not_kept = (row(claim(key=key).record) for key in ("empty", "not kept"))
    assert (empty["response_body"], not_kept["response_body"]) == (b"", None)


@pytest.mark.parametrize("value", ["a\u0000b", "\ud800", "é", "\U0001f600", 'a"b\\'])
def test_b55_no_byte_or_character_of_a_response_breaks_the_save(value):
    body = b'{"note":"a\x00b"}\xff\xfe' + value.encode("utf-8", "surrogatepass")
    claim().record.complete(status=201, headers=[("X-Note", value)], body=body)
    replay = claim().record
    after = row(replay)
    assert (replay.headers, after["response_body"]) == ([("X-Note", value)], body)
    assert after["response_headers"].isascii()


def test_release_deletes_the_row_of_work_that_has_not_begun():
    record = claim().record
    assert record.release() is True
    assert row(record) is None
    assert record.release() is False


def test_s25_release_leaves_a_row_whose_effect_has_begun():
    record = make_key(effects=Effects.REPEATABLE, steps=STEPS)
    before = row(record)
    assert record.release() is True
    after = row(record)
    # The token too: who has seen the row before its last steps were saved must look again.
    changed = {name: after[name] for name in ("state", "locked_until", "fencing_token")}
    assert after == before | changed
    assert after["state"] == State.RELEASED
    assert after["fencing_token"] != before["fencing_token"]
    assert before["locked_at"] < after["locked_until"] < before["locked_until"]
    assert claim(record).record.steps == STEPS


def test_renew_moves_the_lock_the_expiry_and_the_memory_together():
    record = make_key(remember_until=ahead(days=9))
    before = row(record)
    record.renew(timedelta(hours=2))
    after = row(record)
    moved = {name: after[name] for name in ("locked_until", "expires_at", "remember_until")}
    assert after == before | moved
    by = after["locked_until"] - before["locked_until"]
    assert timedelta(minutes=118) < by < timedelta(minutes=120)
    for name in ("expires_at", "remember_until"):
        # SQLite's clock is in milliseconds, and its durations are in fractions of days.
        assert abs(after[name] - before[name] - by) <= timedelta(milliseconds=1)


def test_saving_steps_renews_the_lock_and_the_expiry_with_it():
    record = make_key(remember_until=ahead(days=9))
    before = row(record)
    record.save_steps({"charge": {}}, timedelta(hours=2))
    after = row(record)
    by = after["locked_until"] - before["locked_until"]
    assert timedelta(minutes=118) < by < timedelta(minutes=120)
    for name in ("expires_at", "remember_until"):
        assert abs(after[name] - before[name] - by) <= timedelta(milliseconds=1)


def test_renew_leaves_a_row_that_never_expires_so():
    record = claim(retention=None).record
    record.renew(timedelta(hours=2))
    after = row(record)
    assert (after["expires_at"], after["remember_until"]) == (None, None)


def test_a_slow_owner_that_nobody_has_taken_over_may_still_save():
    record = claim().record
    age(record, days=2)
    record.renew(timedelta(seconds=60))
    age(record, days=2)
    record.complete(status=201, headers=[], body=b"")
    assert row(record)["state"] == State.COMPLETE


@each_verb
@with_and_without_steps
def test_the_fence_needs_the_id(verb, steps):
    record = make_key(steps=steps)
    other = make_key(steps=steps, fencing_token=record.fencing_token)
    before = row(other)
    assert not is_refused(verb, record)
    assert row(other) == before


@each_verb
@with_and_without_steps
def test_s10_the_fence_needs_the_token(verb, steps):
    slow = make_key(stale=True, steps=steps)
    assert claim(slow).outcome is ClaimOutcome.TAKEN_OVER
    before = row(slow)
    assert is_refused(verb, slow)
    assert row(slow) == before


@each_verb
@with_and_without_steps
@pytest.mark.parametrize("state", ["complete", "released"])
def test_the_fence_needs_the_state(verb, steps, state):
    record = make_key(**{state: True, "steps": steps})
    before = row(record)
    assert is_refused(verb, record)
    assert row(record) == before


@each_verb
def test_b08_a_late_owner_changes_nothing_that_the_new_owner_recorded(verb):
    slow = make_key(stale=True)
    claim(slow).record.complete(status=201, headers=[], body=b'{"id": 2}')
    before = row(slow)
    assert is_refused(verb, slow)
    assert row(slow) == before
    assert row(claim(slow).record)["response_body"] == b'{"id": 2}'


@each_verb
@pytest.mark.parametrize("keeps_id", [False, True])
def test_an_owner_of_long_ago_does_not_own_the_key_that_was_claimed_again(verb, keeps_id):
    first = claim().record
    age(first, seconds=61)
    second = claim().record
    second.release()
    third = claim().record
    if keeps_id:  # SQLite may give an id out twice.
        IdempotencyKey.objects.filter(pk=third.pk).update(id=first.pk)
        third.pk = first.pk
    before = row(third)
    assert is_refused(verb, first)
    assert is_refused(verb, second)
    assert row(third) == before
    assert not is_refused(verb, third)


@each_verb
def test_an_owner_of_long_ago_does_not_own_the_key_that_was_reset(verb):
    first = claim().record
    age(first, days=2)
    third = claim().record
    before = row(third)
    assert is_refused(verb, first)
    assert row(third) == before


def test_locked_until_is_null_exactly_when_the_row_is_complete():
    record = claim(effects=Effects.REPEATABLE).record

    def agrees() -> bool:
        after = row(record)
        return bool((after["locked_until"] is None) == (after["state"] == State.COMPLETE))

    assert agrees()
    IdempotencyKey.objects.filter(pk=record.pk).update(steps=STEPS)
    record.refresh_from_db()
    for act in (
        lambda: record.renew(timedelta(0)),
        lambda: claim(record).record.release(),
        lambda: claim(record).record.complete(status=200, headers=[], body=b""),
        lambda: age(record, days=2),
        lambda: claim(record),
    ):
        act()
        assert agrees()


@pytest.mark.parametrize("scope", ["account", "endpoint", "key"])
def test_b04_no_part_of_a_keys_name_can_be_null(scope):
    with pytest.raises(IntegrityError), transaction.atomic():
        make_key(**{scope: None})


@pytest.mark.parametrize("account", ["", "anonymous:"])
def test_b04_rows_without_an_account_collide_like_all_others(account):
    make_key(account=account, key="k04")
    with pytest.raises(IntegrityError), transaction.atomic():
        make_key(account=account, key="k04")
    assert claim(account=account, key="k04").outcome is ClaimOutcome.IN_PROGRESS


def test_b03_the_loser_of_an_insert_gets_no_ownership():
    first = claim(key="k03").record
    before = row(first)
    second = claim(key="k03")
    assert (second.outcome, second.won) == (ClaimOutcome.IN_PROGRESS, False)
    assert row(first) == before


@pytest.mark.parametrize("length", [0, 256, 8192])
def test_b39_the_database_itself_refuses_a_key_that_is_empty_or_too_long(length):
    with pytest.raises(DatabaseError), transaction.atomic():
        make_key(key="k" * length)
    assert not IdempotencyKey.objects.exists()


def test_b39_the_longest_key_under_the_longest_endpoint_and_account():
    longest: dict[str, Any] = {"account": "ä" * 127 + "a", "endpoint": "e" * 255, "key": "k" * 255}
    claim(**longest).record.complete(status=201, headers=[], body=b"")
    replay = claim(**longest)
    assert replay.outcome is ClaimOutcome.REPLAY
    assert {name: getattr(replay.record, name) for name in longest} == longest


def test_b39_two_longest_keys_that_differ_in_the_last_character_are_two():
    keys = ["0123456789abcdef" * 15 + "0123456789abcd" + last for last in "ef"]
    assert [len(key) for key in keys] == [255, 255]
    assert [claim(key=key).outcome for key in keys] == [ClaimOutcome.CLAIMED] * 2


def test_headers_are_pairs_in_their_first_order_and_spelling():
    record = IdempotencyKey(response_headers=json.dumps([["Link", "a"], ["etag", "b"]]))
    assert record.headers == [("Link", "a"), ("etag", "b")]
    assert IdempotencyKey().headers == []


def test_a_record_names_its_endpoint_and_state_and_not_the_clients_key():
    record = IdempotencyKey(endpoint="POST orders/", key="secret", state=State.RELEASED)
    assert str(record) == "POST orders/, waiting for a retry"
