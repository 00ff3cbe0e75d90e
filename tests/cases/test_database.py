"""What is different from one database to the next."""

from __future__ import annotations

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext
from rest_framework.response import Response

from idempotency_app.fields import DatabaseNow
from idempotency_app.models import IdempotencyKey, State
from tests.testapp.models import Order

from .support import ViewClient, age, is_replay, make_view, orphan, row

pytestmark = pytest.mark.django_db(transaction=True)


def answer(request):
    return Response({"id": 7}, status=201)


@pytest.mark.usefixtures("replica")
def test_b49_no_statement_on_the_keys_goes_to_a_replica():
    client = ViewClient(make_view(answer))
    assert client.send("k49").status_code == 201
    assert is_replay(client.send("k49"))
    assert client.send("k49", {"amount": 2}).status_code == 422
    IdempotencyKey.objects.update(state=State.IN_PROGRESS, locked_until=DatabaseNow())
    taken_over = client.send("k49")
    assert (taken_over.status_code, is_replay(taken_over)) == (201, False)
    age(24 * 3600 + 61)
    assert IdempotencyKey.objects.reap() == 1


def test_b51_many_keys_at_once_meet_no_locked_database(threads):
    view = make_view(answer)

    def send(number):
        client = ViewClient(view)
        return [client.send(f"k51-{number}-{n}").status_code for n in range(20)]

    assert threads.all(send, 8) == [[201] * 20] * 8
    assert len(view.calls) == IdempotencyKey.objects.count() == 160


def test_b51_one_key_at_once_meets_no_locked_database(threads):
    view = make_view(answer)
    responses = threads.all(lambda number: ViewClient(view).send("k51"), 8)
    fresh = [r for r in responses if r.status_code == 201 and not is_replay(r)]
    assert (len(fresh), len(view.calls)) == (1, 1)
    assert {response.status_code for response in responses} <= {201, 409}


def test_b51_a_claim_never_reads_in_a_transaction_before_it_writes():
    with CaptureQueriesContext(connection) as queries:
        ViewClient(make_view(answer)).send("k51")
    statements = [query["sql"].split()[0] for query in queries]
    expected = ["INSERT", "BEGIN", "UPDATE", "COMMIT"]
    assert statements == (["SELECT"] if connection.vendor == "sqlite" else []) + expected


def test_a_replay_is_at_most_two_statements_that_change_nothing():
    client = ViewClient(make_view(answer))
    client.send("k51")
    before = IdempotencyKey.objects.values().get()
    with CaptureQueriesContext(connection) as queries:
        client.send("k51")
    statements = [query["sql"].split()[0] for query in queries]
    assert statements == (["SELECT"] if connection.vendor == "sqlite" else ["INSERT", "SELECT"])
    assert IdempotencyKey.objects.values().get() == before


@pytest.mark.mariadb_only
def test_b39_the_unique_index_holds_every_byte_beside_utf8mb4():
    table = IdempotencyKey._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, sub_part, character_octet_length, data_type, table_collation"
            " FROM information_schema.statistics"
            " JOIN information_schema.columns USING (table_schema, table_name, column_name)"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = DATABASE() AND table_name = %s"
            " AND index_name = 'idempotency_app_one_row_a_key' ORDER BY seq_in_index",
            [table],
        )
        columns = cursor.fetchall()
    assert [column[0] for column in columns] == ["account", "endpoint", "key"]
    assert {column[1:4] for column in columns} == {(None, 255, "varbinary")}  # No prefix.
    assert {column[4].split("_")[0] for column in columns} == {"utf8mb4"}


SESSION_STATE = (
    "ADVISORY",
    "SET SESSION",
    "LISTEN",
    "DECLARE",
    "PREPARE",
    "TEMPORARY",
    "FOR UPDATE",
)


def test_b54_nothing_depends_on_the_session():
    client = ViewClient(make_view(answer))
    assert client.send("k54").status_code == 201  # connects: its SET is Django's
    with CaptureQueriesContext(connection) as queries:
        assert is_replay(client.send("k54"))
        orphan(seconds_ago=61)
        assert not is_replay(client.send("k54"))
        assert client.send("k54", {"amount": -1}).status_code == 422
    text = "\n".join(query["sql"].upper() for query in queries)
    assert not [word for word in SESSION_STATE if word in text]


def test_b54_every_step_works_on_a_connection_of_its_own():
    client = ViewClient(make_view(answer))
    outcomes = []
    for is_dead in (False, False, True, False):
        if is_dead:
            orphan(seconds_ago=61)
        connection.close()
        outcomes.append(is_replay(client.send("k54")))
    assert outcomes == [False, True, False, True]
    connection.close()
    age(24 * 3600 + 61)
    connection.close()
    assert IdempotencyKey.objects.reap() == 1


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda request: Response({"note": "a\x00b"}, status=201), id="NUL"),
        pytest.param(lambda request: HttpResponse(b'{"note": "\\ud800"}', status=201), id="half"),
        pytest.param(lambda request: HttpResponse(b"\xff\xfe\x00", status=201), id="no UTF-8"),
        pytest.param(
            lambda request: HttpResponse(
                b"", status=201, headers={"Content-Disposition": "attachment; filename=é.txt"}
            ),
            id="Latin-1 in a header",
        ),
        pytest.param(
            lambda request: HttpResponse(
                b"", status=201, headers={"Content-Disposition": "attachment; filename=名.txt"}
            ),
            id="more than Latin-1 in a header",
        ),
        pytest.param(
            lambda request: HttpResponse(b"[" * 100_000 + b"]" * 100_000, status=201), id="deep"
        ),
    ],
)
def test_b55_no_bytes_in_an_answer_break_its_save(work):
    view = make_view(work)
    client = ViewClient(view)
    first, second = client.send("k55"), client.send("k55")
    assert (first.status_code, second.status_code, is_replay(second)) == (201, 201, True)
    assert first.content == second.content
    name = "Content-Disposition"
    assert first.headers.get(name) == second.headers.get(name)
    assert (len(view.calls), row().state, Order.objects.count()) == (1, State.COMPLETE, 0)
