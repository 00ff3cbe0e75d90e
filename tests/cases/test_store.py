"""A database that goes away, and races that are lost in the work."""

from __future__ import annotations

import threading

import psycopg
import pytest
from django.db import OperationalError, connection
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey
from tests.testapp.models import Order

from .support import (
    ViewClient,
    age,
    code,
    create_order,
    is_replay,
    make_view,
    raising,
    row,
)

pytestmark = pytest.mark.django_db(transaction=True)


# The store that cannot be reached.


@pytest.fixture
def unreachable(monkeypatch, tmp_path):
    """Let no new connection reach the database, until the test ends."""

    def cut():
        name, away = ("NAME", str(tmp_path / "gone" / "db")), ("PORT", "1")
        changed = name if connection.vendor == "sqlite" else away
        monkeypatch.setitem(connection.settings_dict, *changed)
        connection.close()

    yield cut
    monkeypatch.undo()
    connection.close()


def test_a_store_that_cannot_be_reached_is_a_503_and_the_work_does_not_run(unreachable):
    view = make_view()
    unreachable()
    response = ViewClient(view).send()
    assert (response.status_code, code(response)) == (503, "store-unavailable")
    assert response.headers["Retry-After"] == "1"
    assert view.calls == []


def test_a_failing_release_hides_no_error(unreachable, caplog):
    def work(request):
        unreachable()
        raise ValueError("the first error")

    with pytest.raises(ValueError, match="the first error"):
        ViewClient(make_view(work)).send()
    assert "Could not release the key" in caplog.text


def die():
    """End the connection from the server's side, as a fail-over does."""
    own, end = {
        "postgresql": ("pg_backend_pid()", "SELECT pg_terminate_backend(%s)"),
        "mysql": ("CONNECTION_ID()", "KILL %s"),
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {own}")
        (session,) = cursor.fetchone()
        with pytest.raises(OperationalError):
            cursor.execute(end, [session])


@pytest.mark.row_locks  # SQLite has no server that could go away.
def test_a_connection_that_died_between_two_requests_is_made_anew():
    client = ViewClient(make_view())
    client.send()
    die()
    assert is_replay(client.send())


@pytest.mark.row_locks
def test_a_connection_that_died_in_the_work_is_a_503_and_the_retry_runs():
    first = iter([True])

    def work(request):
        response = create_order(request)
        if next(first, False):
            die()
        return response

    client = ViewClient(make_view(work))
    response = client.send()
    assert (response.status_code, code(response)) == (503, "store-unavailable")
    retry = client.send()
    assert (retry.status_code, is_replay(retry), Order.objects.count()) == (201, False, 1)


@pytest.mark.row_locks
def test_a_store_that_went_away_in_the_work_is_a_503_and_the_lock_has_to_lapse(
    monkeypatch, unreachable
):
    def work(request):
        response = create_order(request)
        die()
        monkeypatch.setitem(connection.settings_dict, "PORT", "1")
        return response

    response = ViewClient(make_view(work)).send()
    assert (response.status_code, code(response)) == (503, "store-unavailable")
    monkeypatch.undo()
    assert ViewClient(make_view()).send().status_code == 409
    age(61)
    assert ViewClient(make_view()).send().status_code == 201
    assert Order.objects.count() == 1


# Losing a race inside the work.


class SerializationFailure(OperationalError):
    """As psycopg's error reaches the work through Django."""

    def __init__(self):
        super().__init__("could not serialize access")
        self.__cause__ = psycopg.errors.SerializationFailure()


def test_a_serialization_failure_of_ones_own_is_ones_own_error():
    with pytest.raises(SerializationFailure):
        ViewClient(make_view(raising(SerializationFailure()))).send()
    assert (IdempotencyKey.objects.count(), Order.objects.count()) == (0, 0)


@pytest.mark.row_locks  # Another connection has to write while the work runs.
@pytest.mark.parametrize("error", [SerializationFailure(), ValueError()])
def test_a_serialization_failure_is_a_lost_lock_where_somebody_took_over(error):
    def work(request):
        create_order(request)
        taker = threading.Thread(target=take_over)
        taker.start()
        taker.join()
        raise error

    response = ViewClient(make_view(work), raises=False).send()
    if isinstance(error, SerializationFailure):
        assert (response.status_code, code(response)) == (409, "in-progress")
    else:
        assert response.status_code == 500
    assert (row().fencing_token, Order.objects.count()) == (7, 0)


def take_over():
    try:
        IdempotencyKey.objects.update(fencing_token=7)
    finally:
        connection.close()


@pytest.mark.postgresql_only
def test_two_transactions_that_cannot_be_serialized_are_met_for_real():
    """Under REPEATABLE READ the database itself refuses the save of a lock that was lost."""

    def work(request):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        create_order(request)
        taker = threading.Thread(target=take_over)
        taker.start()
        taker.join()
        return Response(status=201)

    response = ViewClient(make_view(work)).send()
    assert (response.status_code, code(response)) == (409, "in-progress")
    assert (row().fencing_token, Order.objects.count()) == (7, 0)
