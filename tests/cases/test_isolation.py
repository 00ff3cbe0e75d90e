"""B52: losers that cannot see the winner's row, or that deadlock with each other."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import OperationalError, connection, transaction
from django.db.transaction import TransactionManagementError

from idempotency_app.models import IdempotencyKey
from tests.factories import claim
from tests.testapp.models import Order

from .support import WAIT, ViewClient, code, make_view, orphan, row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.mariadb_only]

LOSERS = 10


@pytest.fixture(params=["read committed", "repeatable read"])
def isolation(request, monkeypatch):
    """Let the threads' connections have this isolation level."""
    options = connection.settings_dict["OPTIONS"] | {"isolation_level": request.param}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    return request.param


@pytest.fixture
def view():
    return make_view()


class Callers:
    """Ten callers whose transactions have read the key table; then they all send `k52`."""

    def __init__(self, threads, view):
        self.view = view
        self.have_read = threading.Barrier(LOSERS + 1)
        self.may_send = threading.Event()
        self.futures = [threads.call(self.run) for _ in range(LOSERS)]
        self.have_read.wait(WAIT)

    def run(self):
        """Return the response, once the caller's own rows are committed too."""
        with transaction.atomic():
            assert not IdempotencyKey.objects.exists()
            self.have_read.wait(WAIT)
            assert self.may_send.wait(WAIT)
            response = ViewClient(self.view).send("k52")
            Order.objects.create(sku="the caller's own")
        return response

    def send_together(self):
        self.may_send.set()
        responses = [future.result(WAIT) for future in self.futures]
        assert Order.objects.filter(sku="the caller's own").count() == LOSERS
        return responses


@pytest.fixture
def callers(threads, isolation, view):
    return Callers(threads, view)


def test_b52_a_completed_winner_whom_the_losers_cannot_see(callers, view, isolation):
    first = ViewClient(view).send("k52")
    responses = callers.send_together()
    if isolation == "read committed":
        assert {response.content for response in responses} == {first.content}
    else:
        assert {code(response) for response in responses} == {"in-progress"}
        assert {response.headers["Retry-After"] for response in responses} == {"1"}
    assert len(view.calls) == 1


def test_b52_a_winner_at_work_whom_the_losers_cannot_see(callers, view):
    ViewClient(view).send("k52")
    before = orphan()
    assert {code(response) for response in callers.send_together()} == {"in-progress"}
    assert (len(view.calls), row().fencing_token) == (1, before.fencing_token)


def test_b52_a_dead_winner_whom_the_losers_cannot_see(callers, view, isolation):
    ViewClient(view).send("k52")
    orphan(seconds_ago=61)
    told = [response.status_code for response in callers.send_together()]
    assert set(told) <= {201, 409}
    # Who cannot see the row cannot take it over; a retry in a new transaction can.
    assert len(view.calls) == (2 if isolation == "read committed" else 1)


def wait_for_losers():
    """Return when all of them wait for the row lock that this connection holds."""
    deadline = time.monotonic() + WAIT
    while status("innodb_row_lock_current_waits") < LOSERS:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def status(name):
    """Return one of the server's counters."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE %s", [name])
        return int(cursor.fetchone()[1])


def undo_a_claim_that_all_wait_for(threads, send):
    """Claim `k52`, and undo it while they all wait for it: then all want its place."""
    with transaction.atomic():
        assert claim(account="auth.user:1", endpoint="POST orders/", key="k52").won
        futures = [threads.call(send) for _ in range(LOSERS)]
        wait_for_losers()
        transaction.set_rollback(True)
    return [future.result(WAIT) for future in futures]


def test_b52_no_deadlock_of_the_losers_reaches_a_client(threads, view, isolation):
    before = status("innodb_deadlocks")
    responses = undo_a_claim_that_all_wait_for(threads, lambda: ViewClient(view).send("k52"))
    assert status("innodb_deadlocks") > before
    assert {response.status_code for response in responses} <= {201, 409}
    assert len(view.calls) == Order.objects.count() == IdempotencyKey.objects.count() == 1


class Deadlocks:
    """Make each statement of a kind the victim of a deadlock, as Django tells it."""

    def __init__(self, verb):
        self.verb, self.seen = verb, 0

    def __call__(self, execute, sql, params, many, context):
        if sql.startswith(self.verb):
            self.seen += 1
            raise OperationalError(1213, "Deadlock found when trying to get lock")
        return execute(sql, params, many, context)


def test_b52_a_claim_that_loses_race_after_race_is_told_to_come_back(view):
    deadlocks = Deadlocks("INSERT")
    with connection.execute_wrapper(deadlocks):
        response = ViewClient(view).send("k52")
    assert (response.status_code, code(response)) == (409, "in-progress")
    assert response.headers["Retry-After"] == "1"
    assert (deadlocks.seen, view.calls) == (4, [])


def test_b52_nothing_is_repeated_once_the_work_has_begun(view):
    deadlocks = Deadlocks("UPDATE")
    with connection.execute_wrapper(deadlocks), pytest.raises(OperationalError, match="Deadlock"):
        ViewClient(view).send("k52")
    assert (deadlocks.seen, len(view.calls)) == (1, 1)
    assert (IdempotencyKey.objects.count(), Order.objects.count()) == (0, 0)


def test_b52_a_deadlock_that_undoes_a_callers_transaction_lets_nothing_of_it_go_on(threads, view):
    def call():
        """Return whether the caller's transaction was committed."""
        with transaction.atomic():
            Order.objects.create(sku="before")
            response = ViewClient(view).send("k52")
            try:
                Order.objects.create(sku="after")
            except TransactionManagementError:
                assert code(response) == "store-unavailable"
                transaction.set_rollback(True)
                return False
        return True

    committed = sum(undo_a_claim_that_all_wait_for(threads, call))
    assert 1 <= committed < LOSERS
    assert Order.objects.filter(sku="before").count() == committed
    assert Order.objects.filter(sku="after").count() == committed
