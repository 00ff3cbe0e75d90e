"""Settling an unknown outcome: by recording it, or by saying that it did not happen."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from idempotency_app import signals
from idempotency_app.models import IdempotencyKey
from tests.cases.support import age, code, is_replay
from tests.effects.support import IN_STEPS, OTHER_BODY, UNREPEATABLE, charging, die, make_client
from tests.effects.support import raising as fails
from tests.factories import ago, claim, make_key, row

from .acting import NOT_HAPPENED, RECORD, SETTLE, ask, confirm, history
from .test_pages import page

pytestmark = pytest.mark.django_db

HOUR = 3600


@pytest.fixture
def wire(network):
    """A client whose first request's worker was killed in the step that must not be repeated."""
    work = charging(network, fails(SystemExit()), "in")
    die(work, IN_STEPS)
    return make_client(work, IN_STEPS)


def test_s12_a_recorded_outcome_is_what_the_next_retry_gets(support, wire, network):
    assert code(wire.send()) == "outcome-unknown"
    record = IdempotencyKey.objects.get()
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    retry = wire.send()
    assert (retry.status_code, retry.content, is_replay(retry)) == (201, b'{"id": 7}', True)
    assert retry.headers["Content-Type"] == "application/json"
    assert code(wire.send(data=OTHER_BODY)) == "key-reused"
    assert len(network.asked) == 1
    named = f"{record.endpoint}, {record.account}, key {record.key}"
    assert history() == [f"Settled: recorded 201: seen at the bank ({named})"]


def test_s12_released_because_it_did_not_happen_the_next_retry_runs(support, wire, network):
    assert code(wire.send()) == "outcome-unknown"
    shown = ask(support, SETTLE, IdempotencyKey.objects.get())
    confirm(support, SETTLE, shown, **NOT_HAPPENED)
    retry = wire.send()
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert is_replay(wire.send())
    assert history()[0].startswith("Settled: it did not happen, released: the bank knows nothing")


def test_s24_an_outcome_recorded_on_day_three_is_replayed_on_day_four(support, wire, network):
    age(30 * HOUR)
    assert code(wire.send()) == "outcome-unknown"
    age(42 * HOUR)
    shown = ask(support, SETTLE, IdempotencyKey.objects.get())
    confirm(support, SETTLE, shown, **RECORD)
    age(24 * HOUR - 60)
    assert is_replay(wire.send())
    assert len(network.asked) == 1
    age(61)
    assert IdempotencyKey.objects.reap() == 1


@pytest.mark.parametrize(
    ("retention", "says", "kept"),
    [
        (timedelta(hours=72), "it is kept for 3 days, counted from now", timedelta(hours=72)),
        (None, "it is kept for ever, counted from now", None),
    ],
)
def test_the_page_says_how_long_the_outcome_is_kept(support, settings, retention, says, kept):
    settings.IDEMPOTENCY_APP = {"RETENTION": retention}
    record = make_key(unresolved=True, expires_at=ago(days=2))
    shown = ask(support, SETTLE, record)
    assert says in shown.replace("\xa0", " ")
    confirm(support, SETTLE, shown, **RECORD)
    settled = IdempotencyKey.objects.get()
    if kept is None:
        assert settled.expires_at is None
    else:
        assert kept < settled.expires_at - settled.created_at < kept + timedelta(minutes=5)


@pytest.mark.parametrize("effects", ["repeatable", "unrepeatable"])
@pytest.mark.parametrize("state", ["stale", "released"])
def test_each_unresolved_row_is_settled(support, state, effects):
    record = make_key(**{state: True, "effects": effects, "steps": "{}"})
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    assert claim(record).outcome == "replay"


@pytest.mark.parametrize("steps", ['{"wire": {"result": 1}}', '{"a": {}, "b": {"result": null}}'])
def test_what_has_a_finished_step_is_not_settled_as_not_happened(support, steps):
    record = make_key(unresolved=True, steps=steps)
    shown = ask(support, SETTLE, record)
    assert "A step has finished, so it did happen." in shown
    assert 'value="release"' not in shown
    assert re.search(r'value="record"[^>]*checked', shown)
    got = confirm(support, SETTLE, shown, **NOT_HAPPENED)
    assert "A step has finished, so it did happen. Record its outcome." in got
    assert row(record)["fencing_token"] == record.fencing_token
    confirm(support, SETTLE, got, **RECORD)
    assert claim(record).outcome == "replay"


def test_a_step_that_finished_after_the_page_was_shown_speaks_too(support):
    record = make_key(unresolved=True, steps='{"wire": {}}')
    shown = ask(support, SETTLE, record)
    IdempotencyKey.objects.update(steps='{"wire": {"result": 1}}')
    got = confirm(support, SETTLE, shown, **NOT_HAPPENED)
    assert "A step has finished, so it did happen. Record its outcome." in got
    assert row(record)


def test_several_did_not_happen_and_one_that_did_is_left_alone(support):
    records = [make_key(unresolved=True, steps="{}") for _ in range(2)]
    happened = make_key(unresolved=True)
    shown = ask(support, SETTLE, *records, happened)
    assert "2 of 3 selected keys qualify." in shown
    assert "a step has finished, so it did happen; select this key alone" in shown
    assert "Done: 2 keys." in confirm(support, SETTLE, shown, **NOT_HAPPENED)
    assert [row(each) is None for each in (*records, happened)] == [True, True, False]


def test_a_crafted_form_does_not_say_of_what_happened_that_it_did_not(support):
    records = [make_key(unresolved=True) for _ in range(2)]
    shown = "".join(f'name="seen" value="{r.pk}:{r.fencing_token}:0"' for r in records)
    got = confirm(support, SETTLE, shown, **NOT_HAPPENED)
    assert got.count("it is outcome unknown now. A step has finished, so it did happen.") == 2
    assert all(row(record) for record in records)
    assert history() == []


@pytest.mark.parametrize(("fields", "status"), [(RECORD, 201), (NOT_HAPPENED, None)])
def test_it_is_told_once_when_it_is_committed(
    support, django_capture_on_commit_callbacks, fields, status
):
    told = []

    def receive(**details):
        told.append((details["status"], details["key"]))

    signals.settled.connect(receive)
    record = make_key(unresolved=True, steps="{}")
    with django_capture_on_commit_callbacks(execute=True):
        confirm(support, SETTLE, ask(support, SETTLE, record), **fields)
    signals.settled.disconnect(receive)
    assert told == [(status, record.key)]


@pytest.mark.parametrize("state", [{}, {"stale": True}, {"complete": True}, {"expired": True}])
@pytest.mark.parametrize("fields", [RECORD, NOT_HAPPENED])
def test_what_is_not_unresolved_is_not_settled_also_by_a_crafted_post(support, state, fields):
    record = make_key(**state)
    before = row(record)
    shown = f'name="seen" value="{record.pk}:{record.fencing_token}:0"'
    assert "Nothing was changed" in confirm(support, SETTLE, shown, **fields)
    assert row(record) == before
    assert history() == []


FAILED = {"complete": True, "effects": "unrepeatable", "steps": "{}", "response_status": 500}


def test_s7_the_true_outcome_is_recorded_over_a_recorded_failure(support, network):
    client = make_client(charging(network, fails(ValueError("broken"))), UNREPEATABLE)
    assert (client.send().status_code, client.send().status_code) == (500, 500)
    record = IdempotencyKey.objects.get()
    assert SETTLE in page(support, record)
    shown = ask(support, SETTLE, record)
    assert "A failure is recorded: what you record replaces it." in shown
    assert 'value="release"' not in shown
    confirm(support, SETTLE, shown, **RECORD)
    retry = client.send()
    assert (retry.status_code, retry.content, is_replay(retry)) == (201, b'{"id": 7}', True)
    assert len(network.asked) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"effects": "repeatable"},
        {"effects": "local"},
        {"steps": None},
        {"response_status": 402},
        {"response_status": 201},
        {"response_status": None},
    ],
)
def test_no_other_recorded_response_is_replaced(support, change):
    record = make_key(**{**FAILED, **change})
    before = row(record)
    shown = f'name="seen" value="{record.pk}:{record.fencing_token}:0"'
    assert "Nothing was changed" in confirm(support, SETTLE, shown, **RECORD)
    assert row(record) == before


def test_a_recorded_failure_is_not_said_not_to_have_happened(support):
    records = [make_key(**FAILED) for _ in range(2)]
    assert "a failure is recorded" in ask(support, SETTLE, *records).lower()
    shown = "".join(f'name="seen" value="{r.pk}:{r.fencing_token}:0"' for r in records)
    assert confirm(support, SETTLE, shown, **NOT_HAPPENED).count("Nothing was changed") == 2
    assert all(row(record) for record in records)
