"""What becomes of a key whose work fails, for each effect and at each moment."""

from __future__ import annotations

import pytest
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey, State
from tests.cases.support import code, is_replay, row

from .support import (
    CHARGED,
    IN_STEPS,
    OTHER_BODY,
    RAISED,
    REPEATABLE,
    RETURNED,
    UNREPEATABLE,
    charging,
    make_client,
)

pytestmark = pytest.mark.django_db

# Effects, the moment of the fault, and the row that remains; a 402 is recorded in any case.
LEFT = [
    (REPEATABLE, "before", "deleted"),
    (REPEATABLE, "in", "released"),
    (REPEATABLE, "after", "released"),
    (UNREPEATABLE, "before", "complete"),
    (UNREPEATABLE, "in", "complete"),
    (UNREPEATABLE, "after", "complete"),
    (IN_STEPS, "before", "deleted"),
    (IN_STEPS, "in", "complete"),
    (IN_STEPS, "after", "complete"),
]
STEPS = {"before": {}, "in": {"charge": {}}, "after": CHARGED}


def cases():
    """Make one of each effect, moment and fault; a step raises, and returns no response."""
    for policy, moment, state in LEFT:
        faults = RAISED if moment == "in" else {**RAISED, **RETURNED}
        for name, (fault, status) in faults.items():
            kept = "complete" if status == 402 else state
            label = f"{policy.effects}{'-in-steps' * (policy is IN_STEPS)}-{moment}-{name}"
            yield pytest.param(policy, moment, fault, status, kept, id=label.replace(" ", "-"))


each_failure = pytest.mark.parametrize(
    ("policy", "moment", "fault", "status", "state"), list(cases())
)


@each_failure
def test_what_remains_of_work_that_fails(network, policy, moment, fault, status, state):
    response = make_client(charging(network, fault, moment), policy).send()
    assert response.status_code == status
    assert not is_replay(response)
    if state == "deleted":
        assert not IdempotencyKey.objects.exists()
        return
    assert (row().state, row().get_steps()) == (state, STEPS[moment])
    assert IdempotencyKey.objects.waiting().exists() == (state == State.RELEASED)
    assert IdempotencyKey.objects.unresolved().exists() == (state == State.RELEASED)


@each_failure
def test_s7_what_a_retry_gets(network, policy, moment, fault, status, state):
    client = make_client(charging(network, fault, moment), policy)
    first, retry = client.send(), client.send()
    assert is_replay(retry) == (state == "complete")
    if state == "complete":
        assert (retry.status_code, retry.content) == (status, first.content)
        assert len(network.asked) == (0 if moment == "before" else 1)
        return
    assert (retry.status_code, retry.json()) == (201, {"charge": "ch_1"})
    assert network.charges == 1
    # Only a step that had not ended is run again.
    assert len(network.asked) == (2 if moment == "in" else 1)
    assert client.send().content == retry.content
    assert row().state == State.COMPLETE


@each_failure
def test_s25_what_another_body_gets(network, policy, moment, fault, status, state):
    client = make_client(charging(network, fault, moment), policy)
    client.send()
    before = IdempotencyKey.objects.values().first()
    asked = len(network.asked)
    response = client.send(data=OTHER_BODY)
    if state == "deleted":
        assert (response.status_code, is_replay(response)) == (201, False)
    else:
        assert (response.status_code, code(response)) == (422, "key-reused")
        assert IdempotencyKey.objects.values().first() == before
        assert len(network.asked) == asked


@pytest.mark.parametrize(("policy", "state"), [(REPEATABLE, "released"), (IN_STEPS, "complete")])
@pytest.mark.parametrize("result", [object(), {"a", "b"}, b"bytes"])
def test_a_result_that_is_no_json_is_a_failure_after_the_effect(network, policy, state, result):
    sent = []

    def charge(key):
        sent.append(key)
        return result

    client = make_client(lambda request: request.idempotency.step("charge", charge), policy)
    first, retry = client.send(), client.send()
    assert (first.status_code, retry.status_code) == (500, 500)
    assert (row().state, row().get_steps()) == (state, {"charge": {}})
    assert len(sent) == (2 if policy is REPEATABLE else 1)
    assert len(set(sent)) == 1


@pytest.mark.parametrize(("policy", "state"), [(REPEATABLE, "released"), (IN_STEPS, "complete")])
def test_a_response_that_cannot_be_rendered_is_a_failure_after_the_effect(network, policy, state):
    client = make_client(charging(network, lambda: Response({"it": object()}, status=201)), policy)
    assert client.send().status_code == 500
    assert (row().state, row().get_steps()) == (state, CHARGED)
    retry = client.send()
    assert (retry.status_code, is_replay(retry)) == (
        (201, False) if policy is REPEATABLE else (500, True)
    )
    assert len(network.asked) == 1


@pytest.mark.parametrize(("policy", "state"), [(REPEATABLE, "released"), (IN_STEPS, "complete")])
def test_a_view_that_cannot_finalize_its_response_is_a_failure_after_the_effect(
    network, policy, state
):
    def finalize_response(self, request, response, *args, **kwargs):
        if faults:
            raise faults.pop()
        return super(type(self), self).finalize_response(request, response, *args, **kwargs)

    faults = [ValueError("broken")]
    client = make_client(charging(network), policy, finalize_response=finalize_response)
    assert client.send().status_code == 500
    assert (row().state, row().get_steps()) == (state, CHARGED)
    assert client.send().status_code == (201 if policy is REPEATABLE else 500)
    assert len(network.asked) == 1
