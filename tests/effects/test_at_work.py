"""A key whose outside work runs, has lost its lock, or was stopped."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from rest_framework.response import Response

from idempotency_app.execution import Execution
from idempotency_app.models import IdempotencyKey, State
from tests.cases.support import Gate, ViewClient, age, code, is_replay, make_view, row, values
from tests.factories import claim

from .support import (
    CHARGED,
    IN_STEPS,
    OTHER_BODY,
    REPEATABLE,
    UNREPEATABLE,
    charging,
    die,
    each_outside_effect,
    elsewhere,
    left,
    make_client,
    raising,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[False, True], ids=["", "atomic requests"])
def atomic_requests(request, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", request.param)


# When an effect has begun.


@pytest.mark.parametrize(
    ("policy", "before"), [(REPEATABLE, None), (UNREPEATABLE, "{}"), (IN_STEPS, None)]
)
@pytest.mark.usefixtures("atomic_requests")
def test_s12_others_see_that_an_effect_has_begun_before_it_happens(threads, policy, before):
    seen = []

    def look(*_):
        steps = elsewhere(threads, lambda: IdempotencyKey.objects.values_list("steps").get())
        seen.append((*steps, connection.in_atomic_block))

    def work(request):
        look()
        request.idempotency.step("charge", look)
        look()
        return Response(status=201)

    assert make_client(work, policy).send().status_code == 201
    assert seen == [
        (before, False),
        ('{"charge": {}}', False),
        ('{"charge": {"result": null}}', False),
    ]


# While it runs.


@each_outside_effect
def test_s3_a_duplicate_is_told_to_wait_and_another_body_that_the_key_is_taken(
    threads, network, policy
):
    gate = Gate()
    client = make_client(charging(network, gate.wait, "in"), policy)
    first = threads.call(client.send)
    gate.await_entry()
    duplicate, other = client.send(), client.send(data=OTHER_BODY)
    gate.open()
    assert (duplicate.status_code, code(duplicate)) == (409, "in-progress")
    assert duplicate.headers["Retry-After"] == "1"
    assert (other.status_code, code(other)) == (422, "key-reused")
    assert first.result(20).status_code == 201
    assert is_replay(client.send())
    assert len(network.asked) == 1


# Once its worker is dead.

STALE = [
    (REPEATABLE, "before", 201),
    (REPEATABLE, "in", 201),
    (REPEATABLE, "after", 201),
    (UNREPEATABLE, "before", 409),
    (UNREPEATABLE, "in", 409),
    (UNREPEATABLE, "after", 409),
    (IN_STEPS, "before", 201),
    (IN_STEPS, "in", 409),
    (IN_STEPS, "after", 409),
]


@pytest.fixture
def killed(monkeypatch):
    """Let a process that is told to stop leave its row as it is, as one that is killed does."""
    monkeypatch.setattr(Execution, "give_back", lambda self: None)


@pytest.mark.usefixtures("killed")
@pytest.mark.parametrize(("policy", "moment", "status"), STALE)
def test_s12_a_stale_lock_is_taken_over_or_held(network, policy, moment, status):
    work = charging(network, raising(SystemExit()), moment)
    die(work, policy)
    client = make_client(work, policy)
    other, retry = client.send(data=OTHER_BODY), client.send()
    assert (other.status_code, code(other)) == (422, "key-reused")
    assert retry.status_code == status
    if status == 409:
        assert code(retry) == "outcome-unknown"
        assert "Retry-After" not in retry.headers
        assert len(network.asked) == (0 if moment == "before" else 1)
    else:
        assert not is_replay(retry)
        assert is_replay(client.send())
        assert network.charges == 1


# A process that is told to stop.


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize(
    ("policy", "moment", "state", "steps"),
    [
        (REPEATABLE, "before", "deleted", None),
        (REPEATABLE, "in", "in_progress", {"charge": {}}),
        (REPEATABLE, "after", "in_progress", CHARGED),
        (UNREPEATABLE, "before", "in_progress", {}),
        (UNREPEATABLE, "in", "in_progress", {"charge": {}}),
        (UNREPEATABLE, "after", "in_progress", CHARGED),
        (IN_STEPS, "before", "deleted", None),
        (IN_STEPS, "in", "in_progress", {"charge": {}}),
        (IN_STEPS, "after", "in_progress", CHARGED),
    ],
)
def test_work_that_is_stopped_leaves_a_begun_effect_as_it_is(
    network, error, policy, moment, state, steps
):
    with pytest.raises(type(error)):
        make_client(charging(network, raising(error), moment), policy).send()
    assert left() == state
    if steps is not None:
        assert row().get_steps() == steps
        assert IdempotencyKey.objects.in_flight().exists()


# A worker that has lost its lock.


def take_over():
    """Be the next retry: take the only key over once its lock has passed."""
    age(61)
    made = claim(row())
    assert made.won
    return made.record


@pytest.mark.parametrize("policy", [REPEATABLE, IN_STEPS])
@pytest.mark.usefixtures("atomic_requests")
def test_s10_a_worker_that_lost_its_lock_before_its_step_does_nothing_and_gets_409(network, policy):
    owners = []
    client = make_client(charging(network, lambda: owners.append(take_over()), "before"), policy)
    response = client.send()
    assert (response.status_code, code(response)) == (409, "in-progress")
    assert (response.headers["Retry-After"], network.asked) == ("1", [])
    assert (row().fencing_token, row().state) == (owners[0].fencing_token, State.IN_PROGRESS)


@pytest.mark.parametrize("moment", ["in", "after"])
def test_s10_a_worker_that_lost_its_lock_later_saves_nothing_and_gets_409(network, moment):
    owners = []
    client = make_client(charging(network, lambda: owners.append(take_over()), moment), REPEATABLE)
    response = client.send()
    assert (response.status_code, code(response)) == (409, "in-progress")
    after = values()
    assert (after["fencing_token"], after["state"]) == (owners[0].fencing_token, "in_progress")
    assert after["steps"] == owners[0].steps


def test_s10_the_new_owners_answer_is_what_the_slow_workers_retry_gets(threads, network):
    gate = Gate()
    client = make_client(charging(network, gate.wait, "in"), REPEATABLE)
    slow = threads.call(client.send)
    gate.await_entry()
    age(61)
    owner = client.send()
    gate.open()
    assert (owner.status_code, is_replay(owner)) == (201, False)
    assert slow.result(20).status_code == 409
    retry = client.send()
    assert (retry.content, is_replay(retry)) == (owner.content, True)
    assert (len(network.asked), network.charges) == (2, 1)


@pytest.mark.parametrize("fault", [ValueError("too late"), OperationalError(1213, "too late")])
def test_s10_a_worker_that_lost_its_lock_and_fails_answers_with_its_own_error(network, fault):
    owners = []

    def late():
        owners.append(take_over())
        raise fault

    client = make_client(charging(network, late), REPEATABLE, raises=True)
    with pytest.raises(type(fault), match="too late"):
        client.send()
    assert row().fencing_token == owners[0].fencing_token
    assert row().state == State.IN_PROGRESS


def test_renewing_between_two_calls_keeps_the_key(network):
    def slow():
        for _ in range(3):
            age(50)
            view.attempts[-1].renew()

    work = charging(network, slow)

    def noting(request):
        view.attempts.append(request.idempotency)
        return work(request)

    view = make_view(noting, policy=REPEATABLE, attempts=[])
    assert ViewClient(view).send().status_code == 201
    assert row().state == State.COMPLETE
