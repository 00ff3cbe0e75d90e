"""What the statements cost, which errors they repeat, and answers that are lost on the way."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection, connections, transaction

from idempotency_app import sql
from idempotency_app.exceptions import StoreUnavailable
from idempotency_app.models import ClaimOutcome, IdempotencyKey, State
from idempotency_app.policy import Effects

from .factories import OTHER_FINGERPRINT, STEPS, claim, make_key, row
from .testapp.models import Order

ANSWERED: dict[str, dict[str, Any]] = {
    "replay": {"complete": True},
    "conflict": {"in_flight": True},
    "unknown": {"unresolved": True},
    "remembered": {"remembered": True},
}


def statements() -> sql.Statements:
    return sql.statements(connections["default"], IdempotencyKey)


@pytest.mark.django_db
def test_a_first_request_costs_one_statement_to_claim_and_one_to_complete(
    django_assert_num_queries,
):
    with django_assert_num_queries(2 if connection.vendor == "sqlite" else 1):
        record = claim().record
    with django_assert_num_queries(1):
        record.complete(status=201, headers=[], body=b"")


@pytest.mark.django_db
@pytest.mark.parametrize("state", ANSWERED)
def test_an_answer_without_work_costs_two_statements_at_most(state, django_assert_num_queries):
    record = make_key(**ANSWERED[state])
    with django_assert_num_queries(1 if connection.vendor == "sqlite" else 2) as captured:
        assert not claim(record).won
    assert not any(query["sql"].startswith("UPDATE") for query in captured)


@pytest.mark.django_db
@pytest.mark.parametrize("state", [{"stale": True}, {"released": True}, {"expired": True}])
def test_going_on_costs_three_statements_at_most(state, django_assert_max_num_queries):
    record = make_key(**state)
    with django_assert_max_num_queries(3):
        assert claim(record).won


REAPER = ("reap", "drop_response")
REQUEST_PATH = [each.name for each in dataclasses.fields(sql.Statements) if each.name not in REAPER]


@pytest.mark.parametrize("verb", REQUEST_PATH)
def test_b54_the_request_path_holds_no_locks_and_no_session_state(verb):
    text = getattr(statements(), verb).upper()
    for word in ("FOR UPDATE", "ADVISORY", "SET SESSION", "LISTEN", "DECLARE", "DO UPDATE"):
        assert word not in text


@pytest.fixture
def second(transactional_db: None) -> Iterator[str]:
    """Name another connection to the same database, as another worker has."""
    connections["second"] = connection.copy("second")
    yield "second"
    connections["second"].close()
    del connections["second"]


@pytest.mark.parametrize("state", ANSWERED)
def test_b51_an_answer_without_work_does_not_wait_for_a_writer(second, state):
    record = make_key(**ANSWERED[state])
    before = row(record)
    with transaction.atomic(using=second):
        Order.objects.using(second).create(sku="slow work")
        assert not claim(record).won
        assert claim(record, fingerprint=OTHER_FINGERPRINT).outcome is ClaimOutcome.MISMATCH
    assert row(record) == before


@pytest.mark.django_db
def test_a_claim_inside_a_callers_transaction_does_not_break_it():
    record = make_key(complete=True)
    with transaction.atomic():
        outcomes = [claim(record).outcome, claim(record, fingerprint=OTHER_FINGERPRINT).outcome]
        assert claim().won
        assert Order.objects.count() == 0
    assert outcomes == [ClaimOutcome.REPLAY, ClaimOutcome.MISMATCH]


def refusal(code: str | int) -> OperationalError:
    """Make what Django makes of an SQLSTATE, which psycopg has, or of a number of MySQL."""
    error = OperationalError(code, "chosen as the victim")
    if isinstance(code, str):
        error = OperationalError("chosen as the victim")
        error.__cause__ = psycopg.errors.lookup(code)("chosen as the victim")
    return error


class Refuses:
    """Refuse a kind of statement the first `times` times, before the database runs it."""

    def __init__(self, verb: str, times: int, code: str | int = "40001") -> None:
        self.verb, self.times, self.code, self.seen = verb, times, code, 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(self.verb):
            self.seen += 1
            if self.seen <= self.times:
                raise refusal(self.code)
        return execute(sql, params, many, context)


# What is done; the statement that it ends with.
ACTS: dict[str, tuple[str, dict[str, Any], Callable[[IdempotencyKey], Any]]] = {
    "first request": ("INSERT", {"complete": True}, lambda record: claim(key="new")),
    "look": ("SELECT", {"complete": True}, claim),
    "takeover": ("UPDATE", {"stale": True}, claim),
    "reset": ("UPDATE", {"expired": True}, claim),
    "complete": ("UPDATE", {}, lambda record: record.complete(status=1, headers=[], body=b"")),
    "release": ("DELETE", {}, lambda record: record.release()),
    "renew": ("UPDATE", {}, lambda record: record.renew(timedelta(seconds=9))),
    "reap": ("DELETE", {"expired": True}, lambda record: IdempotencyKey.objects.reap()),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("code", ["40001", "40P01", 1213, 1205, 1020])
def test_b52_a_statement_that_lost_a_race_is_repeated_by_itself(act, code):
    verb, state, run = ACTS[act]
    record = make_key(**state)
    refuses = Refuses(verb, 1, code)
    with connection.execute_wrapper(refuses):
        run(record)
    assert refuses.seen == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ACTS)
def test_b52_a_statement_is_repeated_three_times_and_then_done(act):
    verb, state, run = ACTS[act]
    refuses = Refuses(verb, 3)
    record = make_key(**state)
    with connection.execute_wrapper(refuses):
        run(record)
    assert refuses.seen == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ACTS)
def test_b52_a_statement_is_never_repeated_more_than_three_times(act):
    verb, state, run = ACTS[act]
    refuses = Refuses(verb, 1000)
    record = make_key(**state)
    before = row(record)
    with connection.execute_wrapper(refuses), suppress(DatabaseError, StoreUnavailable):
        made = run(record)
        assert made.outcome is ClaimOutcome.IN_PROGRESS  # Nobody else may be told to run.
    assert refuses.seen == 4
    assert row(record) == before


@pytest.mark.django_db
@pytest.mark.parametrize("act", ACTS)
def test_b52_nothing_is_repeated_inside_a_transaction(act):
    verb, state, run = ACTS[act]
    refuses = Refuses(verb, 1)
    record = make_key(**state)
    with (
        connection.execute_wrapper(refuses),
        pytest.raises((OperationalError, StoreUnavailable)),
        transaction.atomic(),
    ):
        run(record)
    assert refuses.seen == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ACTS)
def test_an_error_that_no_race_explains_is_not_repeated(act):
    verb, state, run = ACTS[act]
    refuses = Refuses(verb, 1, "53100")  # disk_full
    record = make_key(**state)
    with (
        connection.execute_wrapper(refuses),
        pytest.raises((OperationalError, StoreUnavailable)),
    ):
        run(record)
    assert refuses.seen == 1


class LosesAnswer:
    """Cut the connection after the first statement of a kind is done, or before it is sent."""

    def __init__(self, verb: str, *, done: bool = True) -> None:
        self.verb, self.done, self.cuts = verb, done, 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.cuts or not sql.startswith(self.verb):
            return execute(sql, params, many, context)
        self.cuts += 1
        if self.done:
            execute(sql, params, many, context)
        cut(context["connection"])
        return execute(sql, params, many, context)  # The driver's own error.


def cut(database: Any) -> None:
    """End the connection's socket, as a network that goes away does."""
    with socket.socket(fileno=os.dup(database.connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


LOST: dict[str, tuple[str, dict[str, Any] | None, ClaimOutcome]] = {
    "insert": ("INSERT", None, ClaimOutcome.CLAIMED),
    "reset": ("UPDATE", {"expired": True}, ClaimOutcome.CLAIMED),
    "takeover": ("UPDATE", {"stale": True}, ClaimOutcome.TAKEN_OVER),
    "takeover with steps": (
        "UPDATE",
        {"stale": True, "effects": Effects.REPEATABLE, "steps": STEPS},
        ClaimOutcome.TAKEN_OVER,
    ),
    "released": ("UPDATE", {"released": True}, ClaimOutcome.CLAIMED),
    "look": ("SELECT", {"complete": True}, ClaimOutcome.REPLAY),
    "look at a live lock": ("SELECT", {}, ClaimOutcome.IN_PROGRESS),
}


@pytest.mark.row_locks
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("statement", LOST)
def test_a_claim_whose_answer_was_lost_is_settled_by_its_own_token(statement, done):
    verb, state, outcome = LOST[statement]
    record = None if state is None else make_key(**state)
    loses = LosesAnswer(verb, done=done)
    with connection.execute_wrapper(loses):
        made = claim(record)
    after = row(made.record)
    assert (loses.cuts, made.outcome) == (1, outcome)
    assert after["fencing_token"] == made.record.fencing_token
    assert after["steps"] == made.record.steps == (state or {}).get("steps", after["steps"])
    if made.won:
        made.record.complete(status=201, headers=[], body=b"")
        assert claim(made.record).outcome is ClaimOutcome.REPLAY


@pytest.mark.row_locks
@pytest.mark.django_db(transaction=True)
def test_a_claim_whose_answer_was_lost_is_not_given_to_two(second):
    loses = LosesAnswer("INSERT")
    with connection.execute_wrapper(loses):
        mine = claim()
    assert (mine.won, claim(using=second).outcome) == (True, ClaimOutcome.IN_PROGRESS)


@pytest.mark.row_locks
@pytest.mark.django_db(transaction=True)
def test_a_connection_that_had_died_while_idle_is_replaced():
    connection.ensure_connection()
    cut(connection)
    assert claim().outcome is ClaimOutcome.CLAIMED
    cut(connection)
    assert claim().outcome is ClaimOutcome.IN_PROGRESS


@pytest.mark.row_locks
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("verb", "effects"), [("DELETE", Effects.LOCAL), ("UPDATE", Effects.REPEATABLE)]
)
def test_a_release_goes_through_on_a_new_connection(verb, effects):
    record = make_key(effects=effects, steps=STEPS if effects is Effects.REPEATABLE else None)
    with connection.execute_wrapper(LosesAnswer(verb, done=False)):
        assert record.release() is True
    after = row(record)
    assert after is None or after["state"] == State.RELEASED


@pytest.fixture
def unreachable(transactional_db: None) -> Iterator[str]:
    """Name a database at a port where nobody listens, or in a folder that is not there."""
    gone = connection.copy("gone")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gone.settings_dict = {**gone.settings_dict, "HOST": "127.0.0.1", "PORT": port}
    if connection.vendor == "sqlite":
        gone.settings_dict["NAME"] = "/nowhere/at/all.sqlite3"
    connections["gone"] = gone
    yield "gone"
    del connections["gone"]


def test_a_store_that_cannot_be_reached_is_no_ownership(unreachable):
    with pytest.raises(StoreUnavailable) as caught:
        claim(using=unreachable)
    assert isinstance(caught.value.__cause__, OperationalError)


@pytest.mark.row_locks
def test_a_store_that_goes_away_for_good_is_no_ownership(transactional_db, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    connection.ensure_connection()
    monkeypatch.setitem(connection.settings_dict, "PORT", port)
    cut(connection)
    with pytest.raises(StoreUnavailable):
        claim()
    monkeypatch.undo()
    assert not IdempotencyKey.objects.exists()
