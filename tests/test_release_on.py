"""An exception that proves that nothing happened outside proves it for its own step only."""

from __future__ import annotations

import pytest

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import ViewClient, make_view, row

pytestmark = pytest.mark.django_db(transaction=True)

POLICY = Idempotency(effects=Effects.REPEATABLE, release_on=(ConnectionRefusedError,))


def send(*works, **fields):
    """Send one request for each work, under one key; exceptions become a 500."""
    view = make_view(lambda request: next(queue)(request), policy=POLICY, **fields)
    queue = iter(works)
    client = ViewClient(view, raises=False)
    return [client.send().status_code for _ in works]


def refused(request):
    return request.idempotency.step("charge", fail(ConnectionRefusedError))


def timed_out(request):
    return request.idempotency.step("charge", fail(TimeoutError))


def fail(error):
    def work(key):
        raise error

    return work


def test_the_key_is_forgotten_where_only_that_step_had_begun():
    assert send(refused) == [500]
    assert not IdempotencyKey.objects.exists()


def test_an_open_question_of_an_earlier_attempt_stays_open():
    assert send(timed_out, refused) == [500, 500]
    assert row().get_steps() == {"charge": {}}


def test_an_open_question_of_an_earlier_step_stays_open():
    def caught(request):
        with pytest.raises(TimeoutError):
            timed_out(request)
        request.idempotency.step("receipt", fail(ConnectionRefusedError))

    assert send(caught) == [500]
    assert list(row().get_steps()) == ["charge", "receipt"]


def test_a_finished_step_is_not_forgotten():
    def charged(request):
        request.idempotency.step("charge", lambda key: {"id": "ch_1"})
        raise ConnectionRefusedError

    assert send(charged) == [500]
    assert row().has_finished_step
