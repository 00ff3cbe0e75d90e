"""An outcome that nobody knows is held until an operator settles it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Idempotency
from tests.cases.support import Gate, age, code, is_replay, row, values
from tests.factories import STEPS, ahead, make_key
from tests.factories import row as row_of

from .support import (
    IN_STEPS,
    OTHER_BODY,
    REPEATABLE,
    UNREPEATABLE,
    charging,
    die,
    each_outside_effect,
    each_unrepeatable,
    make_client,
    raising,
)

pytestmark = pytest.mark.django_db

DAY = 24 * 3600
RETENTION = timedelta(hours=24)
SETTLED = b'{"settled":  "by support"}'
HEADERS = [("Content-Type", "application/json"), ("Location", "/wires/7/")]


def settle(record, **changes):
    answer = {"status": 201, "headers": HEADERS, "body": SETTLED, "retention": RETENTION}
    return record.settle(**(answer | changes))


@pytest.fixture
def unknown(network):
    """A wire whose worker was killed in its step; its next request is sent by the result."""

    def leave(policy):
        work = charging(network, raising(SystemExit()), "in")
        die(work, policy)
        return make_client(work, policy)

    return leave


def assert_held(response):
    assert (response.status_code, code(response)) == (409, "outcome-unknown")
    assert "Retry-After" not in response.headers


@each_unrepeatable
@pytest.mark.parametrize("later", [0, 30 * 3600, 400 * DAY])
def test_s24_an_unknown_outcome_is_held_at_any_age(network, unknown, policy, later):
    client = unknown(policy)
    age(later)
    before = values()
    assert_held(client.send())
    assert code(client.send(data=OTHER_BODY)) == "key-reused"
    assert (IdempotencyKey.objects.reap(), values()) == (0, before)
    assert IdempotencyKey.objects.unresolved().exists()
    assert len(network.asked) == 1


@each_outside_effect
def test_s24_a_settled_outcome_is_replayed_for_a_full_retention_from_then(network, unknown, policy):
    client = unknown(policy)
    age(3 * DAY)
    assert settle(row()) is True
    age(DAY - 60)
    retry = client.send()
    assert (retry.status_code, retry.content, is_replay(retry)) == (201, SETTLED, True)
    assert retry.headers["Location"] == "/wires/7/"
    assert client.send(data=OTHER_BODY).status_code == 422
    age(61)
    assert IdempotencyKey.objects.reap() == 1
    assert len(network.asked) == 1


def test_an_outcome_that_is_settled_for_ever_never_expires(unknown):
    client = unknown(IN_STEPS)
    assert settle(row(), retention=None)
    age(4000 * DAY)
    assert client.send().content == SETTLED


def test_s26_a_settled_outcome_is_remembered_like_any_other(network, unknown):
    client = unknown(Idempotency(remember=timedelta(days=30)).over(IN_STEPS))
    age(3 * DAY)
    assert settle(row())
    age(2 * DAY)
    assert code(client.send()) == "key-expired"
    assert len(network.asked) == 1


@each_unrepeatable
def test_s12_an_outcome_that_did_not_happen_is_forgotten_and_the_retry_runs(
    network, unknown, policy
):
    client = unknown(policy)
    assert row().settle_as_not_happened() is True
    assert not IdempotencyKey.objects.exists()
    retry = client.send()
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert is_replay(client.send())


@each_outside_effect
def test_what_has_a_finished_step_cannot_be_said_not_to_have_happened(network, policy):
    work = charging(network, raising(SystemExit()))
    die(work, policy)
    before = values()
    assert row().settle_as_not_happened() is False
    assert values() == before


VERBS = {"record": settle, "forget": lambda record: record.settle_as_not_happened()}
each_verb = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
BEGUN = '{"charge": {}}'


@each_verb
@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"in_flight": True, "steps": BEGUN}, id="a live lock"),
        pytest.param({"in_flight": True}, id="a live lock of nothing begun"),
        pytest.param({"stale": True}, id="nothing begun"),
        pytest.param({"complete": True, "steps": BEGUN}, id="recorded"),
        pytest.param({"expired": True, "steps": BEGUN}, id="recorded and expired"),
    ],
)
def test_only_what_is_unresolved_is_settled(verb, state):
    record = make_key(**state)
    before = row_of(record)
    assert verb(record) is False
    assert row_of(record) == before


@each_verb
@pytest.mark.parametrize("state", ["unresolved", "released"])
def test_nothing_but_that_row_is_settled(verb, state):
    record, other = (make_key(**{state: True, "steps": BEGUN}) for _ in range(2))
    before = row_of(other)
    assert verb(record) is True
    assert row_of(other) == before


@each_verb
@pytest.mark.parametrize("faster", VERBS.values(), ids=VERBS)
def test_a_second_operator_changes_nothing(verb, faster):
    first = make_key(unresolved=True, steps=BEGUN)
    second = IdempotencyKey.objects.get(pk=first.pk)
    assert faster(first) is True
    after = row_of(first)
    assert verb(second) is False
    assert row_of(first) == after


@each_verb
def test_an_operator_who_saw_an_earlier_worker_changes_nothing(unknown, network, verb):
    unknown(REPEATABLE)
    seen = row()
    die(charging(network, raising(SystemExit()), "in"), REPEATABLE)
    before = values()
    assert verb(seen) is False
    assert values() == before


def test_the_steps_of_a_settled_outcome_stay_to_be_looked_at():
    record = make_key(unresolved=True, steps=STEPS, remember_until=ahead(days=40))
    assert settle(record)
    after = row_of(record)
    assert (after["steps"], after["locked_until"]) == (STEPS, None)
    assert after["response_body"] == SETTLED


# The old owner wakes up.


def wakes_up(threads, network, act, end=None, moment="in"):
    """Let a worker sleep in its work past its lock, settle it, and let the worker go on."""
    gate, ends = Gate(), [end] if end else []

    def sleep():
        gate.wait()
        if ends:
            raise ends.pop()

    client = make_client(charging(network, sleep, moment), UNREPEATABLE)
    slow = threads.call(client.send)
    gate.await_entry()
    age(61)
    assert act(row()) is True
    before = IdempotencyKey.objects.values().first()
    gate.open()
    response = slow.result(20)
    assert IdempotencyKey.objects.values().first() == before
    return client, response


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("moment", ["in", "after"])
@pytest.mark.parametrize(("end", "status"), [(None, 409), (ValueError("too late"), 500)])
def test_s24_a_worker_that_wakes_up_after_all_changes_nothing_that_was_recorded(
    threads, network, end, status, moment
):
    client, response = wakes_up(threads, network, settle, end, moment)
    assert response.status_code == status
    assert client.send().content == SETTLED
    assert len(network.asked) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("end", "status"), [(None, 409), (ValueError("too late"), 500)])
def test_s24_a_worker_that_wakes_up_after_all_brings_nothing_back_that_was_forgotten(
    threads, network, end, status
):
    client, response = wakes_up(threads, network, VERBS["forget"], end)
    assert response.status_code == status
    assert not IdempotencyKey.objects.exists()
    assert not is_replay(client.send())
