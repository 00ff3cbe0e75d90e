"""Winning and losing the INSERT."""

from __future__ import annotations

from datetime import timedelta
from threading import Event

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from idempotency_app.models import ClaimOutcome, IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

from .support import LOCAL, ViewClient, code, create_order, is_replay, make_view, orphan, values

pytestmark = pytest.mark.django_db(transaction=True)


def claim(**changed):
    names = {"account": "auth.user:1", "endpoint": "POST orders/", "key": "k03"}
    times = {"lock_timeout": timedelta(seconds=60), "retention": timedelta(hours=24)}
    others = {"fingerprint": "f" * 64, "effects": Effects.LOCAL}
    return IdempotencyKey.objects.claim(**{**names, **times, **others, **changed})


@pytest.mark.row_locks  # SQLite has one writer, so nobody can lose while the work runs
def test_b01_of_twenty_at_once_one_runs_and_the_others_hear_that_it_does(threads):
    others_answered, losers = Event(), []

    def work(request):
        assert others_answered.wait(10)
        return create_order(request)

    view = make_view(work)

    def send(number):
        response = ViewClient(view).send("k01")
        if response.status_code == 409:
            losers.append(number)
            if len(losers) == 19:
                others_answered.set()
        return response

    responses = threads.all(send, 20)
    assert sorted(response.status_code for response in responses) == [201] + 19 * [409]
    assert {code(response) for response in responses if response.status_code == 409} == {
        "in-progress"
    }
    assert (len(view.calls), Order.objects.count(), IdempotencyKey.objects.count()) == (1, 1, 1)


def test_b01_of_twenty_at_once_all_that_get_an_order_get_the_same_one(threads):
    view = make_view()
    responses = threads.all(lambda number: ViewClient(view).send("k01"), 20)
    fresh = [r for r in responses if r.status_code == 201 and not is_replay(r)]
    assert {response.status_code for response in responses} <= {201, 409}
    assert len(fresh) == len(view.calls) == Order.objects.count() == 1
    assert {r.content for r in responses if r.status_code == 201} == {fresh[0].content}


def test_b03_a_claim_that_lost_owns_nothing_and_changes_nothing():
    view = make_view()
    client = ViewClient(view)
    client.send("k03")
    record = orphan()
    before = values()
    lost = claim(fingerprint=record.fingerprint)
    assert (lost.outcome, lost.won) == (ClaimOutcome.IN_PROGRESS, False)
    assert client.send("k03").status_code == 409
    assert (values(), len(view.calls)) == (before, 1)


def test_b03_an_integrity_error_that_is_no_duplicate_ends_the_claim_at_once():
    with (
        CaptureQueriesContext(connection) as queries,
        pytest.raises(IntegrityError),
    ):
        claim(key="")  # refused by the check constraint
    assert len(queries) <= 2


def test_b04_a_caller_without_an_account_gets_no_key():
    view = make_view()
    client = ViewClient(view, user=None)
    responses = [client.send("k04"), client.send("k04")]
    assert [code(response) for response in responses] == ["account-required"] * 2
    assert (len(view.calls), IdempotencyKey.objects.count()) == (0, 0)


@pytest.fixture
def shared_view():
    return make_view(policy=Idempotency(effects=Effects.LOCAL, anonymous="share"))


def test_b04_callers_who_share_one_account_share_its_keys(shared_view):
    client = ViewClient(shared_view, user=None)
    assert client.send("k04").status_code == 201
    assert is_replay(client.send("k04"))
    assert Order.objects.count() == 1


def test_b04_callers_who_share_one_account_collide_in_parallel(shared_view, threads):
    responses = threads.all(lambda number: ViewClient(shared_view, user=None).send("k04"), 4)
    assert {response.status_code for response in responses} <= {201, 409}
    assert (len(shared_view.calls), Order.objects.count()) == (1, 1)


def test_b04_the_same_row_goes_in_once_by_the_orm():
    claim(account="anonymous:")
    twin = IdempotencyKey.objects.get()
    twin.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        twin.save(force_insert=True)


@pytest.mark.parametrize("column", ["account", "endpoint", "key"])
def test_b04_no_part_of_the_scope_can_be_null(column):
    claim()
    with pytest.raises(IntegrityError), transaction.atomic():
        IdempotencyKey.objects.update(**{column: None})


@pytest.mark.parametrize(
    "other", [{"account": "auth.user:2"}, {"endpoint": "POST refunds/"}, {"key": "K03"}]
)
def test_a_claim_of_another_scope_is_another_claim(other):
    assert (claim().won, claim(**other).won, claim().won) == (True, True, False)


def test_an_unset_policy_is_local():
    view = make_view(policy=Idempotency())
    ViewClient(view).send("k")
    assert IdempotencyKey.objects.get().effects == LOCAL.effects
