"""What is told of a key: a signal after the commit, and a line in the log with the key masked."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.dispatch import Signal

from idempotency_app import signals
from idempotency_app.models import IdempotencyKey
from tests.cases.support import ViewClient, make_view

from .factories import claim, make_key

SIGNALS = {name: value for name, value in vars(signals).items() if isinstance(value, Signal)}
SECRET = "a-long-secret-key"


@pytest.fixture
def told():
    """Return the list of (signal, arguments) that every signal adds to."""
    got: list[tuple[str, dict[str, Any]]] = []
    receivers = {
        name: lambda name=name, signal=None, **kwargs: got.append((name, kwargs))
        for name in SIGNALS
    }
    for name, receiver in receivers.items():
        SIGNALS[name].connect(receiver)
    yield got
    for name, receiver in receivers.items():
        SIGNALS[name].disconnect(receiver)


def names(told):
    return [name for name, _ in told]


@pytest.mark.django_db(transaction=True)
class TestSignals:
    def test_a_request_claims_and_completes_and_a_retry_is_replayed(self, told, client_of):
        client_of().send(SECRET)
        client_of().send(SECRET)
        assert names(told) == ["claimed", "completed", "replayed"]
        completed = told[1][1]
        assert completed["status"] == 201
        assert completed["seconds"] >= 0
        assert (completed["key"], completed["using"]) == (SECRET, "default")
        assert completed["sender"] is IdempotencyKey

    def test_no_signal_carries_a_body(self, told, client_of):
        client_of().send(SECRET)
        client_of().send(SECRET)
        plain = (str, int, float, type(None), type)
        values = [each for _, kwargs in told for each in kwargs.values()]
        assert values
        assert all(isinstance(each, plain) for each in values)

    def test_other_data_is_mismatched_and_a_live_lock_conflicts(self, told):
        record = make_key()
        claim(record)
        claim(record, fingerprint="f" * 64)
        assert names(told) == ["conflicted", "mismatched"]
        assert told[0][1]["outcome"] == "in_progress"
        assert told[0][1]["retry_after"] >= 1

    def test_a_stale_lock_is_taken_over_and_the_slow_worker_has_lost_it(self, told):
        assert claim(make_key(stale=True)).won
        assert names(told) == ["taken_over"]

    def test_a_failed_request_releases(self, told, client_of):
        with pytest.raises(RuntimeError):
            client_of(fails=True).send(SECRET)
        assert names(told) == ["claimed", "released"]
        assert told[1][1]["by"] == "work"

    def test_an_operator_releases_and_settles(self, told):
        assert make_key(stale=True).release_stale_lock()
        settled: dict[str, Any] = {
            "status": 200,
            "headers": [],
            "body": b"",
            "retention": timedelta(hours=1),
        }
        assert make_key(unresolved=True).settle(**settled)
        assert [(name, kwargs.get("by"), kwargs.get("status")) for name, kwargs in told] == [
            ("released", "operator", None),
            ("settled", None, 200),
        ]

    def test_the_reaper_tells_how_many_once(self, told):
        make_key(expired=True)
        make_key(remembered=True)
        IdempotencyKey.objects.reap(batch_size=1)
        assert names(told) == ["reaped"]
        assert (told[0][1]["deleted"], told[0][1]["dropped"]) == (1, 1)

    def test_a_dry_run_of_the_reaper_tells_nothing(self, told):
        make_key(expired=True)
        assert IdempotencyKey.objects.reap(dry_run=True) == 1
        assert told == []

    def test_inside_a_transaction_it_waits_for_the_commit(self, told):
        with transaction.atomic():
            claim()
            assert told == []
        assert names(told) == ["claimed"]

    def test_what_is_rolled_back_is_not_told(self, told):
        with transaction.atomic():
            claim()
            transaction.set_rollback(True)
        assert told == []

    def test_a_receiver_that_raises_harms_nobody(self, client_of, caplog):
        def raises(**kwargs: Any) -> None:
            raise RuntimeError("a receiver")

        signals.completed.connect(raises)
        try:
            assert client_of().send(SECRET).status_code == 201
        finally:
            signals.completed.disconnect(raises)
        assert "a receiver" in caplog.text


@pytest.mark.django_db
def test_the_log_masks_the_key_and_carries_the_rest_as_attributes(client_of, caplog):
    with caplog.at_level(logging.DEBUG, logger="idempotency_app"):
        client_of().send(SECRET)
        client_of().send(SECRET)
    assert SECRET not in caplog.text
    lines = [each for each in caplog.records if each.name == "idempotency_app.events"]
    assert [vars(each)["event"] for each in lines] == ["claimed", "completed", "replayed"]
    assert not any(SECRET in str(vars(each)) for each in lines)
    assert vars(lines[1])["status"] == 201
    assert vars(lines[1])["key"] == "a-lo…"


@pytest.fixture
def client_of():
    def make(fails: bool = False) -> ViewClient:
        def work(request: Any) -> Any:
            raise RuntimeError("no")

        return ViewClient(make_view(work)) if fails else ViewClient(make_view())

    return make
