"""`remember`: a key that outlives its response refuses a late retry."""

from __future__ import annotations

from datetime import timedelta

import pytest

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Idempotency
from tests.cases.support import age, code, is_replay, row, values

from .support import (
    OTHER_BODY,
    REPEATABLE,
    charging,
    each_outside_effect,
    make_client,
    raising,
)

pytestmark = pytest.mark.django_db

DAY = 24 * 3600
REMEMBERING = Idempotency(remember=timedelta(days=30))


@each_outside_effect
@pytest.mark.parametrize("reaped", [False, True])
def test_s26_a_late_retry_is_refused_and_nothing_runs(network, policy, reaped):
    client = make_client(charging(network), REMEMBERING.over(policy))
    client.send()
    age(2 * DAY)
    if reaped:
        assert IdempotencyKey.objects.reap() == 0
    before = values()
    late, other = client.send(), client.send(data=OTHER_BODY)
    assert (late.status_code, code(late)) == (409, "key-expired")
    assert "Retry-After" not in late.headers
    assert (other.status_code, code(other)) == (422, "key-reused")
    assert (len(network.asked), values()) == (1, before)


@each_outside_effect
def test_s26_within_the_retention_it_is_a_replay_as_ever(network, policy):
    client = make_client(charging(network), REMEMBERING.over(policy))
    client.send()
    age(DAY - 60)
    assert is_replay(client.send())


@each_outside_effect
@pytest.mark.parametrize("reaped", [False, True])
def test_s26_a_key_is_forgotten_in_the_end(network, policy, reaped):
    client = make_client(charging(network), REMEMBERING.over(policy))
    client.send()
    age(31 * DAY - 60)
    assert code(client.send()) == "key-expired"
    age(121)
    if reaped:
        assert IdempotencyKey.objects.reap() == 1
    anew = client.send(data=OTHER_BODY)
    assert (anew.status_code, is_replay(anew)) == (201, False)


def test_s26_the_setting_is_for_every_view(network, settings):
    settings.IDEMPOTENCY_APP = {"REMEMBER": timedelta(days=30)}
    client = make_client(charging(network), REPEATABLE)
    client.send()
    age(2 * DAY)
    assert code(client.send()) == "key-expired"


def test_a_key_that_is_not_remembered_runs_anew(network):
    client = make_client(charging(network), REPEATABLE)
    client.send()
    age(2 * DAY)
    assert not is_replay(client.send())


@pytest.mark.parametrize("days", [2, 40, 4000])
def test_s25_work_that_waits_for_a_retry_goes_on_after_its_finished_step_at_any_age(network, days):
    """An open question does not expire, whether its key would be remembered or not."""
    client = make_client(charging(network, raising(ValueError())), REMEMBERING.over(REPEATABLE))
    client.send()
    age(days * DAY)
    assert IdempotencyKey.objects.reap() == 0
    assert code(client.send(data=OTHER_BODY)) == "key-reused"
    retry = client.send()
    assert (retry.status_code, is_replay(retry), len(network.asked)) == (201, False, 1)
    age(2 * DAY)
    assert code(client.send()) == "key-expired"


def test_s26_a_released_key_that_goes_on_is_remembered_from_then(network):
    client = make_client(charging(network, raising(ValueError())), REMEMBERING.over(REPEATABLE))
    client.send()
    age(100 * DAY)
    client.send()
    record = row()
    assert record.remember_until is not None
    assert record.expires_at is not None
    assert record.remember_until - record.expires_at == timedelta(days=30)
    assert record.expires_at - record.locked_at > timedelta(hours=24)
