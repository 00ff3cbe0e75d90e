"""The save that fails when the effect has happened, and a store that has gone."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, OperationalError, connection
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey, State
from tests.cases.support import age, code, is_replay, row

from .support import (
    CHARGED,
    REPEATABLE,
    UNREPEATABLE,
    charging,
    each_outside_effect,
    each_unrepeatable,
    make_client,
)

pytestmark = pytest.mark.django_db(transaction=True)


def assert_unavailable(response):
    assert (response.status_code, code(response)) == (503, "store-unavailable")
    assert response.headers["Retry-After"] == "1"


def kill_session():
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
@pytest.mark.parametrize("moment", ["before", "in", "after"])
@each_outside_effect
def test_a_connection_that_was_lost_in_the_work_is_made_anew_for_the_save(network, policy, moment):
    client = make_client(charging(network, kill_session, moment), policy)
    first, retry = client.send(), client.send()
    assert (first.status_code, is_replay(first)) == (201, False)
    assert (retry.content, is_replay(retry)) == (first.content, True)
    assert len(network.asked) == 1


@pytest.mark.row_locks
@pytest.mark.parametrize("which", range(3))  # The step's beginning, its end, the response.
@each_outside_effect
def test_a_save_that_was_done_and_whose_answer_was_lost_is_no_failure(network, policy, which):
    seen = []

    def lose_the_answer(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if sql.startswith("UPDATE"):
            seen.append(sql)
            if len(seen) == which + 1:
                kill_session()
                raise OperationalError("server closed the connection unexpectedly")
        return result

    client = make_client(charging(network), policy)
    with connection.execute_wrapper(lose_the_answer):
        first = client.send()
    assert (first.status_code, is_replay(first), len(seen)) == (201, False, 4)
    assert is_replay(client.send())
    assert len(network.asked) == 1


def refusing_to_complete(execute, sql, params, many, context):
    """Refuse the response as a database does that cannot hold it, or has too little room."""
    if sql.startswith("UPDATE") and "response_body" in sql:
        raise DatabaseError("the response is refused")
    return execute(sql, params, many, context)


@each_outside_effect
def test_a_response_that_the_database_refuses_is_its_error_and_no_second_effect(network, policy):
    client = make_client(charging(network), policy, raises=True)
    with (
        connection.execute_wrapper(refusing_to_complete),
        pytest.raises(DatabaseError, match="refused"),
    ):
        client.send()
    # What may be repeated is given back; what may not stays as it is.
    expected = State.RELEASED if policy is REPEATABLE else State.IN_PROGRESS
    assert (row().state, row().get_steps()) == (expected, CHARGED)
    age(61)
    retry = client.send()
    assert retry.status_code == (201 if policy is REPEATABLE else 409)
    assert len(network.asked) == 1


@each_unrepeatable
def test_a_response_that_could_not_be_saved_is_a_503_and_never_a_second_effect(
    network, unreachable, policy
):
    client = make_client(charging(network, unreachable.cut), policy)
    assert_unavailable(client.send())
    unreachable.is_back()
    assert code(client.send()) == "in-progress"
    assert (row().state, row().get_steps()) == (State.IN_PROGRESS, CHARGED)
    age(61)
    assert code(client.send()) == "outcome-unknown"
    assert IdempotencyKey.objects.unresolved().exists()
    assert len(network.asked) == 1


def test_a_response_that_could_not_be_saved_is_a_503_and_the_work_goes_on_later(
    network, unreachable
):
    client = make_client(charging(network, unreachable.cut), REPEATABLE)
    assert_unavailable(client.send())
    unreachable.is_back()
    assert code(client.send()) == "in-progress"
    age(61)
    retry = client.send()
    assert (retry.status_code, is_replay(retry), len(network.asked)) == (201, False, 1)


@each_outside_effect
def test_a_step_that_cannot_be_marked_is_a_503_and_does_not_run(network, unreachable, policy):
    client = make_client(charging(network, unreachable.cut, "before"), policy)
    assert_unavailable(client.send())
    assert network.asked == []
    unreachable.is_back()
    age(61)
    retry = client.send()
    if policy is UNREPEATABLE:
        assert code(retry) == "outcome-unknown"
    else:
        assert (retry.status_code, len(network.asked)) == (201, 1)


@each_outside_effect
def test_a_result_that_could_not_be_saved_is_a_503_and_no_second_charge(
    network, unreachable, policy
):
    client = make_client(charging(network, unreachable.cut, "in"), policy)
    assert_unavailable(client.send())
    unreachable.is_back()
    assert (row().state, row().get_steps()) == (State.IN_PROGRESS, {"charge": {}})
    age(61)
    retry = client.send()
    assert network.charges == 1
    if policy is REPEATABLE:
        assert (retry.status_code, is_replay(retry)) == (201, False)
    else:
        assert code(retry) == "outcome-unknown"


@each_outside_effect
def test_a_lock_that_cannot_be_renewed_is_a_503(unreachable, policy):
    def work(request):
        unreachable.cut()
        request.idempotency.renew()
        return Response(status=201)

    assert_unavailable(make_client(work, policy).send())


@each_unrepeatable
def test_work_that_fails_while_the_store_is_gone_answers_with_its_own_error(
    network, unreachable, policy, caplog
):
    def fail():
        unreachable.cut()
        raise ValueError("the first error")

    client = make_client(charging(network, fail), policy, raises=True)
    with pytest.raises(ValueError, match="the first error"):
        client.send()
    assert "an operator has to settle it" in caplog.text
    unreachable.is_back()
    age(61)
    assert code(client.send()) == "outcome-unknown"
    assert len(network.asked) == 1


@each_unrepeatable
def test_an_error_of_ours_is_no_answer_of_the_work_and_never_recorded(network, policy):
    sent = []

    def fail_once(execute, sql, params, many, context):
        if sql.startswith("UPDATE"):
            sent.append(sql)
            if len(sent) == 2:  # The step's result.
                raise OperationalError("no space left on device")
        return execute(sql, params, many, context)

    client = make_client(charging(network), policy)
    with connection.execute_wrapper(fail_once):
        assert_unavailable(client.send())
    assert (row().state, row().get_steps()) == (State.IN_PROGRESS, {"charge": {}})
    age(61)
    assert code(client.send()) == "outcome-unknown"
    assert len(network.asked) == 1
