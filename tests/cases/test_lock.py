"""Crash, takeover, fencing, clocks."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from rest_framework.exceptions import APIException

from idempotency_app.claims import Claimant
from idempotency_app.fields import DatabaseNow
from idempotency_app.models import IdempotencyKey, State
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

from .support import (
    Gate,
    ViewClient,
    age,
    code,
    create_order,
    is_replay,
    make_view,
    orphan,
    row,
    values,
)

pytestmark = pytest.mark.django_db(transaction=True)


def local(**fields):
    return Idempotency(effects=Effects.LOCAL, **fields)


@pytest.fixture
def client():
    client = ViewClient(make_view())
    client.send("k06")
    return client


def test_b06_a_lock_of_61_seconds_ago_is_taken_over(client):
    dead = orphan(seconds_ago=61)
    response = client.send("k06")
    assert (response.status_code, is_replay(response)) == (201, False)
    assert row().state == State.COMPLETE
    assert row().fencing_token != dead.fencing_token


def test_b06_a_lock_of_57_seconds_ago_holds(client):
    orphan(seconds_ago=57)
    before = values()
    response = client.send("k06")
    assert (response.status_code, code(response)) == (409, "in-progress")
    assert 1 <= int(response.headers["Retry-After"]) <= 4
    assert values() == before


def test_a_wait_is_as_long_as_the_work_has_run(client):
    orphan(seconds_ago=7)
    assert client.send("k06").headers["Retry-After"] in {"7", "8"}


def test_a_wait_is_at_most_half_a_minute(client):
    orphan(seconds_ago=3600, lock=7200)
    assert client.send("k06").headers["Retry-After"] == "30"


def change_after_the_look(monkeypatch, **changed):
    """Let somebody change the row between this request's look and its compare-and-set."""
    look = Claimant.look

    def look_and_be_late(self):
        seen = look(self)
        IdempotencyKey.objects.update(**changed)
        return seen

    monkeypatch.setattr(Claimant, "look", look_and_be_late)


def test_a_lock_that_is_renewed_after_the_look_is_not_taken_over(client, monkeypatch):
    dead = orphan(seconds_ago=61)
    change_after_the_look(monkeypatch, locked_until=DatabaseNow() + timedelta(seconds=60))
    assert client.send("k06").status_code == 409
    assert row().fencing_token == dead.fencing_token


def test_a_response_that_is_kept_longer_after_the_look_is_not_forgotten(client, monkeypatch):
    age(24 * 3600 + 61)
    change_after_the_look(monkeypatch, expires_at=DatabaseNow() + timedelta(hours=1))
    assert is_replay(client.send("k06"))


@pytest.mark.parametrize("source", ["policy", "setting"])
def test_b07_a_lock_of_zero_seconds_is_no_lock_for_ever(source, settings):
    zero = timedelta(0)
    settings.IDEMPOTENCY_APP = {"LOCK_TIMEOUT": zero} if source == "setting" else {}
    client = ViewClient(
        make_view(policy=local(lock_timeout=zero) if source == "policy" else local())
    )
    client.send("k07")
    orphan(seconds_ago=1, lock=0)
    response = client.send("k07")
    assert (response.status_code, is_replay(response)) == (201, False)


def test_b07_a_lock_of_zero_seconds_has_an_end():
    seen = []

    def die(request):
        seen.append(row().locked_until)
        raise SystemExit

    client = ViewClient(make_view(die, policy=local(lock_timeout=timedelta(0))))
    with pytest.raises(SystemExit):
        client.send("k07")
    assert seen[0] is not None


@pytest.fixture
def slow(threads):
    """R1 holds the key in its work, past its lock; R2 has taken it over and completed."""
    gate, ends = Gate(), list[Any]()

    def work(request):
        response = create_order(request)
        if not ends:
            ends.append(None)
            gate.wait()
            if isinstance(ends[-1], Exception):
                raise ends[-1]
        return response

    view = make_view(work)
    first = threads.call(ViewClient(view, raises=False).send, "k08")
    gate.await_entry()
    age(61)
    second = ViewClient(view).send("k08")
    assert (second.status_code, is_replay(second)) == (201, False)

    def let_go(error=None):
        ends.append(error)
        gate.open()
        return first.result(20), second, ViewClient(view).send("k08")

    return let_go


@pytest.mark.row_locks  # SQLite's one writer is R1
def test_b08_a_slow_owner_does_not_save_over_the_new_one(slow, caplog):
    first, second, third = slow()
    assert (first.status_code, code(first)) == (409, "in-progress")
    assert first.headers["Retry-After"] == "1"
    assert is_replay(third)
    assert third.content == second.content
    assert list(Order.objects.values_list("pk", flat=True)) == [second.json()["id"]]
    assert "Lost the lock to another worker" in caplog.text


@pytest.mark.row_locks
@pytest.mark.parametrize(("error", "status"), [(ValueError(), 500), (APIException(), 500)])
def test_b08_a_slow_owner_that_fails_does_not_release_the_new_ones_key(slow, error, status, caplog):
    caplog.set_level(logging.INFO)
    first, second, third = slow(error)
    assert first.status_code == status
    assert (is_replay(third), third.content) == (True, second.content)
    assert Order.objects.count() == 1
    assert "Released the key" not in caplog.text


def test_b11_a_host_whose_clock_is_ahead_does_not_break_a_live_lock(client):
    orphan(seconds_ago=30)
    with time_machine.travel(timezone.now() + timedelta(seconds=300)):
        assert client.send("k06").status_code == 409


def test_b11_a_host_whose_clock_is_behind_takes_over_all_the_same(client):
    orphan(seconds_ago=65)
    with time_machine.travel(timezone.now() - timedelta(seconds=300)):
        response = client.send("k06")
    assert (response.status_code, is_replay(response)) == (201, False)


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Asia/Tokyo", "UTC"])
def test_b11_naive_times_in_another_zone_change_no_outcome(use_tz, zone, settings):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, zone
    client = ViewClient(make_view())
    assert client.send("k11").status_code == 201
    orphan(seconds_ago=30)
    assert client.send("k11").status_code == 409
    age(31)
    assert not is_replay(client.send("k11"))
    assert is_replay(client.send("k11"))
    age(24 * 3600 + 61)
    assert IdempotencyKey.objects.reap() == 1


def test_b13_each_view_has_its_own_lock(settings):
    settings.IDEMPOTENCY_APP = {"LOCK_TIMEOUT": timedelta(seconds=10)}
    client = ViewClient(make_view(policy=local(lock_timeout=timedelta(seconds=120))))
    client.send("k13")
    orphan(seconds_ago=15, lock=120)
    response = client.send("k13")
    assert (response.status_code, response.headers["Retry-After"]) in [(409, "15"), (409, "16")]
    age(106)
    assert not is_replay(client.send("k13"))


@pytest.mark.parametrize(("own", "seconds"), [(120, 120), (None, 10)])
def test_b13_the_claim_writes_the_views_lock_or_the_settings(own, seconds, settings):
    settings.IDEMPOTENCY_APP = {"LOCK_TIMEOUT": timedelta(seconds=10)}
    locks = []

    def work(request):
        locks.append(row().locked_until - row().locked_at)
        return create_order(request)

    override = {} if own is None else {"lock_timeout": timedelta(seconds=own)}
    ViewClient(make_view(work, policy=local(**override))).send("k13")
    assert locks[0].total_seconds() == pytest.approx(seconds, abs=0.01)
