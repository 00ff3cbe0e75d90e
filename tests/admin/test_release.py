"""Releasing a stale lock: what its worker left behind, and what it finds when it wakes up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from idempotency_app import signals
from idempotency_app.exceptions import LockLost
from idempotency_app.models import IdempotencyKey
from tests.cases.support import ViewClient, is_replay, make_view, orphan
from tests.effects.support import IN_STEPS, REPEATABLE, UNREPEATABLE, charging, die, make_client
from tests.effects.support import raising as fails
from tests.factories import age, claim, make_key, row
from tests.testapp.models import Order

from .acting import RELEASE, ask, confirm, history

pytestmark = pytest.mark.django_db


def test_a_stale_lock_is_released_with_a_reason_that_goes_into_the_history(support):
    record = make_key(stale=True, key="k" * 60)
    shown = ask(support, RELEASE, record, make_key(), make_key(complete=True))
    assert "1 of 3 selected keys qualifies." in shown
    assert "a further request runs the work" in shown
    assert "has lost the lock" in shown
    assert "Done: 1 key." in confirm(support, RELEASE, shown, reason="worker 3 was killed")
    assert row(record) is None
    named = f"POST orders/, auth.user:7, key {'k' * 40}…"
    assert history() == [f"Released the stale lock: worker 3 was killed ({named})"]


def test_s9_after_the_release_the_next_request_runs(support):
    client = ViewClient(make_view())
    client.send()
    record = orphan(seconds_ago=61)
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="dead")
    assert not IdempotencyKey.objects.exists()
    retry = client.send()
    assert (retry.status_code, is_replay(retry), Order.objects.count()) == (201, False, 1)


def test_s11_a_stale_lock_with_a_step_waits_for_a_retry_which_goes_on(support, network):
    work = charging(network, fails(SystemExit()))
    die(work, REPEATABLE)
    record = IdempotencyKey.objects.get()
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="dead")
    assert row(record)["state"] == "released"
    assert make_client(work, REPEATABLE).send().json() == {"charge": "ch_1"}
    assert len(network.asked) == 1


@pytest.mark.parametrize("steps", [None, "{}"])
def test_s10_a_worker_that_is_alive_after_all_has_lost_the_lock(support, steps):
    record = make_key(effects="repeatable", steps=steps)
    age(record, seconds=61)
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="dead")
    with pytest.raises(LockLost):
        record.complete(status=201, headers=[], body=b"late")
    assert record.release() is False
    assert claim(record).won


@pytest.mark.parametrize("policy", [UNREPEATABLE, IN_STEPS])
def test_s12_what_must_not_be_repeated_is_not_released(support, network, policy):
    die(charging(network, fails(SystemExit()), "in"), policy)
    record = IdempotencyKey.objects.get()
    assert "must not be repeated: settle it" in ask(support, RELEASE, record)
    shown = f'name="seen" value="{record.pk}:{record.fencing_token}:0"'
    assert "Nothing was changed" in confirm(support, RELEASE, shown, reason="dead")
    assert row(record)["fencing_token"] == record.fencing_token
    assert history() == []


def test_the_release_is_told_as_an_operators_once(support, django_capture_on_commit_callbacks):
    told = []

    def receive(**details):
        told.append((details["by"], details["key"]))

    signals.released.connect(receive)
    record = make_key(stale=True)
    with django_capture_on_commit_callbacks(execute=True):
        confirm(support, RELEASE, ask(support, RELEASE, record), reason="dead")
    signals.released.disconnect(receive)
    assert told == [("operator", record.key)]


def test_a_retry_that_took_over_after_the_page_was_shown_keeps_its_lock(support):
    record = make_key(stale=True)
    shown = ask(support, RELEASE, record)
    assert claim(record).won
    got = confirm(support, RELEASE, shown, reason="dead")
    says = "Nothing was changed: it is in flight now. A further request has taken it over."
    assert f"{says} (POST orders/, auth.user:7, key {record.key})" in got
    assert row(record)["state"] == "in_progress"
    assert history() == []


def test_also_where_the_retry_has_died_as_well(support):
    record = make_key(stale=True)
    shown = ask(support, RELEASE, record)
    assert claim(record).won
    age(record, seconds=61)
    assert "it is stale lock now." in confirm(support, RELEASE, shown, reason="dead")
    assert row(record)


def test_a_page_that_comes_back_shows_no_row_that_has_changed_since(support):
    record, other = make_key(stale=True), make_key(stale=True)
    shown = ask(support, RELEASE, record, other)
    assert claim(record).won
    age(record, seconds=61)
    again = confirm(support, RELEASE, shown, reason="")
    assert "1 of 2 selected keys qualifies." in again
    assert "stale lock: changed since it was shown" in again
    confirm(support, RELEASE, again, reason="dead")
    assert (row(record) is not None, row(other)) == (True, None)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("complete", "it is complete now. Its work has ended, with 201."),
        ("release", "the key is gone. Its work has ended without a response to keep"),
        ("renew", "it is in flight now. Its worker is alive."),
    ],
)
def test_a_worker_that_woke_up_meanwhile_keeps_what_it_did(support, end, says):
    record = make_key(stale=True)
    shown = ask(support, RELEASE, record)
    if end == "complete":
        record.complete(status=201, headers=[], body=b"{}")
    else:
        record.renew(timedelta(seconds=60)) if end == "renew" else record.release()
    before = row(record)
    assert says in confirm(support, RELEASE, shown, reason="dead")
    assert row(record) == before
    assert history() == []


def test_of_several_each_is_judged_by_itself(support):
    records = [make_key(stale=True) for _ in range(3)]
    shown = ask(support, RELEASE, *records)
    assert claim(records[1]).won
    got = confirm(support, RELEASE, shown, reason="dead")
    assert "Done: 2 keys." in got
    assert got.count("Nothing was changed") == 1
    assert [row(each) is None for each in records] == [True, False, True]
    assert len(history()) == 2
