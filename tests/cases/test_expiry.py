"""How long a response is kept, and its key."""

from __future__ import annotations

from datetime import timedelta

import pytest

from idempotency_app.policy import Idempotency

from .support import (
    LOCAL,
    ViewClient,
    age,
    code,
    is_replay,
    make_view,
    row,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_retention_counts_from_the_lock_and_the_save_leaves_it_alone():
    policy = LOCAL.over(Idempotency(retention=timedelta(hours=1), remember=timedelta(days=30)))
    ViewClient(make_view(policy=policy)).send()
    record = row()
    kept = record.expires_at - record.locked_at
    assert kept.total_seconds() == pytest.approx(3660, abs=0.01)
    assert (record.remember_until - record.expires_at).total_seconds() == pytest.approx(
        timedelta(days=30).total_seconds(), abs=0.01
    )
    assert record.locked_until is None


def test_retention_none_keeps_a_response_for_ever():
    client = ViewClient(make_view(policy=LOCAL.over(Idempotency(retention=None))))
    client.send()
    age(10 * 365 * 24 * 3600)
    assert row().expires_at is None
    assert is_replay(client.send())


def test_a_response_past_its_retention_is_forgotten_for_any_request():
    client = ViewClient(make_view())
    client.send()
    age(24 * 3600 + 61)
    response = client.send(data={"amount": 7})
    assert (response.status_code, is_replay(response)) == (201, False)


def test_s26_a_key_that_outlives_its_response_refuses_a_late_retry():
    policy = LOCAL.over(Idempotency(remember=timedelta(days=30)))
    view = make_view(policy=policy)
    ViewClient(view).send()
    age(3 * 24 * 3600)
    response = ViewClient(view).send()
    assert (response.status_code, code(response), len(view.calls)) == (409, "key-expired", 1)
