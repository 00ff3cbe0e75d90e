"""`release_on`: exceptions which prove that nothing happened outside."""

from __future__ import annotations

import pytest
from rest_framework.exceptions import APIException

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Idempotency
from tests.cases.support import PaymentRequired, code, is_replay, row

from .support import (
    IN_STEPS,
    OTHER_BODY,
    REPEATABLE,
    UNREPEATABLE,
    Swallowed,
    charging,
    each_outside_effect,
    each_unrepeatable,
    left,
    make_client,
    raising,
)

pytestmark = pytest.mark.django_db


class NotSent(Exception):
    """No connection was made."""


class NotEvenTried(NotSent):
    pass


class Unreachable(APIException):
    status_code = 503


# What DRF does not know, what it answers, what is recorded otherwise, what becomes a success.
PROOFS = {
    "unknown": (NotSent(), 500),
    "subclass": (NotEvenTried(), 500),
    "handled": (Unreachable(), 503),
    "402": (PaymentRequired(), 402),
    "made a 200": (Swallowed(), 200),
}
each_proof = pytest.mark.parametrize(("error", "status"), PROOFS.values(), ids=PROOFS)
RELEASING = Idempotency(release_on=(NotSent, Unreachable, PaymentRequired, Swallowed))


@each_proof
@each_outside_effect
@pytest.mark.parametrize("moment", ["before", "in"])
def test_the_key_is_forgotten_even_if_a_step_had_begun(network, policy, moment, error, status):
    client = make_client(
        charging(network, raising(error), moment), RELEASING.over(policy), raises=False
    )
    assert client.send().status_code == status
    assert not IdempotencyKey.objects.exists()
    corrected = client.send(data=OTHER_BODY)
    assert (corrected.status_code, is_replay(corrected)) == (201, False)


@each_proof
def test_not_after_a_finished_step_of_repeatable_work(network, error, status):
    client = make_client(charging(network, raising(error)), RELEASING.over(REPEATABLE))
    client.send()
    # What would be recorded without it, is.
    assert left() == ("complete" if status == 402 else "released")
    assert code(client.send(data=OTHER_BODY)) == "key-reused"
    assert client.send().status_code == (402 if status == 402 else 201)
    assert len(network.asked) == 1


@each_proof
@each_unrepeatable
def test_not_after_a_finished_step_of_unrepeatable_work(network, policy, error, status):
    client = make_client(charging(network, raising(error)), RELEASING.over(policy))
    client.send()
    assert left() == "complete"
    retry = client.send()
    assert (retry.status_code, is_replay(retry), len(network.asked)) == (status, True, 1)


@pytest.mark.parametrize("policy", [REPEATABLE, UNREPEATABLE, IN_STEPS])
@pytest.mark.parametrize("error", [ValueError(), SystemExit()])
def test_another_exception_proves_nothing(network, policy, error):
    client = make_client(charging(network, raising(error), "in"), RELEASING.over(policy))
    if isinstance(error, Exception):
        client.send()
    else:
        with pytest.raises(SystemExit):
            client.send()
    assert row().get_steps() == {"charge": {}}


def test_an_exception_that_the_work_caught_proves_nothing(network):
    def work(request):
        with pytest.raises(NotSent):
            request.idempotency.step("charge", lambda key: raising(NotSent())())
        raise ValueError

    make_client(work, RELEASING.over(IN_STEPS)).send()
    assert (left(), row().get_steps()) == ("complete", {"charge": {}})


@each_outside_effect
def test_it_proves_nothing_of_the_first_try_of_the_same_step(network, policy):
    """The work tries its step twice: the first got no answer, the second no connection."""
    errors = iter([TimeoutError(), NotSent()])

    def charge(key):
        network.charge(key)
        raise next(errors)

    def work(request):
        with pytest.raises(TimeoutError):
            request.idempotency.step("charge", charge)
        request.idempotency.step("charge", charge)

    make_client(work, RELEASING.over(policy)).send()
    assert row().get_steps() == {"charge": {}}
