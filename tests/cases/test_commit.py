"""Hooks that run on commit, and a COMMIT that fails."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from idempotency_app.models import IdempotencyKey, State
from tests.testapp.models import Order

from .support import (
    PaymentRequired,
    ViewClient,
    code,
    create_order,
    is_replay,
    make_view,
    raising,
    returning,
    row,
)

pytestmark = pytest.mark.django_db(transaction=True)


# Hooks that run on commit.


def test_hooks_run_after_the_response_is_recorded():
    seen = []

    def work(request):
        transaction.on_commit(lambda: seen.append((row().state, connection.in_atomic_block)))
        return create_order(request)

    ViewClient(make_view(work)).send()
    assert seen == [(State.COMPLETE, False)]


@pytest.mark.parametrize(
    "end", [returning(400), returning(500), raising(ValueError()), raising(PaymentRequired())]
)
def test_hooks_of_a_rolled_back_attempt_never_run(end):
    seen = []

    def work(request):
        transaction.on_commit(lambda: seen.append(1))
        return end(request)

    ViewClient(make_view(work), raises=False).send()
    create_order_elsewhere = transaction.atomic()
    with create_order_elsewhere:
        Order.objects.create(sku="s2")
    assert seen == []


@pytest.mark.parametrize("error", [ValueError("broker"), OperationalError("broker")])
def test_a_hook_that_raises_is_a_500_now_and_a_replay_later(error):
    def work(request):
        transaction.on_commit(lambda: raise_(error))
        return create_order(request)

    view = make_view(work)
    with pytest.raises(type(error), match="broker"):
        ViewClient(view).send()
    retry = ViewClient(view).send()
    assert (retry.status_code, is_replay(retry)) == (201, True)
    assert (len(view.calls), Order.objects.count()) == (1, 1)


def raise_(error):
    raise error


# A COMMIT that is refused, and one whose answer is lost.


@pytest.fixture
def deferred_constraint():
    """Let two orders of one sku be refused, and only by the COMMIT."""
    with connection.cursor() as cursor:
        table = Order._meta.db_table
        cursor.execute(
            f"ALTER TABLE {table} ADD CONSTRAINT one_a_sku UNIQUE (sku) "
            "DEFERRABLE INITIALLY DEFERRED"
        )
        yield
        cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT one_a_sku")


@pytest.mark.postgresql_only
@pytest.mark.usefixtures("deferred_constraint")
def test_a_commit_that_is_refused_releases_the_key():
    view = make_view()
    Order.objects.create(sku="s1")
    with pytest.raises(IntegrityError, match="one_a_sku"):
        ViewClient(view).send()
    assert (IdempotencyKey.objects.count(), Order.objects.count()) == (0, 1)
    Order.objects.all().delete()
    assert ViewClient(view).send().status_code == 201


def test_a_commit_whose_answer_was_lost_is_answered_with_the_response(monkeypatch):
    commit = connection._commit  # type: ignore[attr-defined]

    def commit_and_lose():
        commit()
        monkeypatch.undo()
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "_commit", commit_and_lose)
    view = make_view()
    first = ViewClient(view).send()
    assert (first.status_code, is_replay(first)) == (201, False)
    assert is_replay(ViewClient(view).send())
    assert (len(view.calls), Order.objects.count()) == (1, 1)


def test_a_commit_that_never_arrived_is_a_503_and_a_retry_runs(monkeypatch):
    def lose():
        monkeypatch.undo()
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "_commit", lose)
    view = make_view()
    first = ViewClient(view).send()
    assert (first.status_code, code(first)) == (503, "store-unavailable")
    assert IdempotencyKey.objects.count() == Order.objects.count() == 0
    retry = ViewClient(view).send()
    assert (retry.status_code, is_replay(retry), Order.objects.count()) == (201, False, 1)
