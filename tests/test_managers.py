"""How rows are found: the adjectives, the reaper, and which database is asked."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.models import Q

from idempotency_app.models import ClaimOutcome, IdempotencyKey, State

from .factories import STEPS, age, ago, ahead, claim, make_key, row

pytestmark = pytest.mark.django_db

A_SECOND_AGO = ago(seconds=1)

# Each state; the adjectives that fit it; whether the reaper takes it.
STATES: dict[str, tuple[dict[str, Any], set[str], bool]] = {
    "in flight": ({}, {"in_flight"}, False),
    "in flight past its expiry": ({"expires_at": ago(days=9)}, {"in_flight"}, False),
    "in flight, begun": ({"steps": STEPS}, {"in_flight"}, False),
    "stale": ({"stale": True}, {"stale"}, False),
    "stale, never expires": ({"stale": True, "expires_at": None}, {"stale"}, False),
    "stale and expired": (
        {"stale": True, "expires_at": ago(seconds=1)},
        {"stale", "expired"},
        True,
    ),
    "stale, begun": ({"unresolved": True}, {"stale", "unresolved"}, False),
    "stale, begun and expired": (
        {"unresolved": True, "expires_at": ago(days=9)},
        {"stale", "unresolved"},
        False,
    ),
    "released": ({"released": True}, {"waiting", "unresolved"}, False),
    "released and expired": (
        {"released": True, "expires_at": ago(days=9)},
        {"waiting", "unresolved"},
        False,
    ),
    "complete": ({"complete": True}, set(), False),
    "complete, with steps": ({"complete": True, "steps": STEPS}, set(), False),
    "complete, never expires": ({"complete": True, "expires_at": None}, set(), False),
    "expired": ({"expired": True}, {"expired"}, True),
    "expired, with steps": ({"expired": True, "steps": STEPS}, {"expired"}, True),
    "remembered": ({"remembered": True}, {"expired"}, False),
    "remembered long enough": (
        {"expired": True, "remember_until": ago(seconds=1)},
        {"expired"},
        True,
    ),
}
ADJECTIVES = ("in_flight", "stale", "waiting", "unresolved", "expired")


@pytest.mark.parametrize("state", STATES)
def test_the_adjectives_agree_with_the_words(state):
    values, fitting, _ = STATES[state]
    make_key(**values)
    rows = IdempotencyKey.objects.all()
    assert {name for name in ADJECTIVES if getattr(rows, name)().exists()} == fitting


@pytest.mark.parametrize("adjective", ADJECTIVES)
def test_an_adjective_can_be_combined_with_other_conditions(adjective):
    for values, _, _ in STATES.values():
        make_key(**values)
    rows = IdempotencyKey.objects.filter(Q(key="another") | Q(account="another"))
    assert not getattr(rows, adjective)().exists()


def test_s22_the_reaper_deletes_what_is_forgotten_and_nothing_else():
    for name, (values, _, _) in STATES.items():
        make_key(key=name, **values)
    taken = {name for name, (_, _, reaped) in STATES.items() if reaped}
    assert IdempotencyKey.objects.reap() == len(taken)
    assert set(IdempotencyKey.objects.values_list("key", flat=True)) == STATES.keys() - taken
    assert IdempotencyKey.objects.reap() == 0


@pytest.mark.parametrize(("expired", "batches"), [(9, 1), (10, 1), (25, 3)])
def test_b57_the_reaper_goes_in_batches_and_reads_no_rows(
    expired, batches, django_assert_max_num_queries
):
    for hours in range(expired):
        make_key(expired=True, expires_at=ago(hours=hours + 1))
    with django_assert_max_num_queries(5 * batches + 1) as captured:
        assert IdempotencyKey.objects.reap(batch_size=10) == expired
    verbs = [query["sql"] for query in captured]
    assert not any("response_body" in text for text in verbs if text.startswith("SELECT"))
    assert sum(text.startswith("DELETE") for text in verbs) >= batches


def test_b57_one_batch_deletes_at_most_its_size_and_the_oldest_first():
    one, three, two = (
        make_key(expired=True, expires_at=ago(hours=hours)).key for hours in (1, 3, 2)
    )
    left: list[set[str]] = []
    with connection.execute_wrapper(notes_keys_before(left)):
        batches = list(IdempotencyKey.objects.reap_in_batches(batch_size=1))
    assert [kept for kept, _ in itertools.groupby(left)] == [
        {one, two, three},
        {one, two},
        {one},
        set(),
    ]
    assert max(batch.deleted for batch in batches) == 1


def test_b57_rows_that_expire_in_the_same_instant_go_in_batches_too():
    same = ago(hours=1)
    for _ in range(7):
        make_key(expired=True, expires_at=same)
    batches = list(IdempotencyKey.objects.reap_in_batches(batch_size=3))
    assert [batch.deleted for batch in batches if batch.deleted] == [3, 3, 1]


def test_s26_the_response_of_a_remembered_key_is_dropped_and_the_key_stays():
    record = make_key(remembered=True, response_body=b"secret")
    assert IdempotencyKey.objects.reap() == 0
    kept = IdempotencyKey.objects.get(pk=record.pk)
    assert (kept.response_status, kept.response_headers, kept.response_body) == (None, None, None)
    assert (kept.state, kept.remember_until) == ("complete", None)
    assert kept.expires_at == record.remember_until
    assert claim(record).outcome == "key_expired"


def test_s26_a_dropped_key_goes_when_it_is_no_longer_remembered():
    record = make_key(remembered=True)
    IdempotencyKey.objects.reap()
    age(record, days=30)
    assert IdempotencyKey.objects.reap() == 1


def test_s26_a_live_lock_on_a_remembered_key_is_left_as_it_is():
    record = make_key(expires_at=ago(hours=1), remember_until=ahead(days=29))
    before = row(record)
    assert IdempotencyKey.objects.reap() == 0
    assert row(record) == before


def test_after_max_rows_nothing_more_is_asked(django_assert_max_num_queries):
    for hours in range(5):
        make_key(expired=True, expires_at=ago(hours=hours + 1))
    with django_assert_max_num_queries(2):
        assert IdempotencyKey.objects.reap(batch_size=1, max_rows=1) == 1


def test_a_dry_run_counts_and_changes_nothing():
    make_key(expired=True)
    record = make_key(remembered=True)
    before = row(record)
    batches = list(IdempotencyKey.objects.reap_in_batches(dry_run=True))
    assert [(batch.deleted, batch.dropped) for batch in batches] == [(1, 1)]
    assert row(record) == before
    assert IdempotencyKey.objects.count() == 2


def test_what_expired_less_than_older_than_ago_stays():
    recent = make_key(expired=True, expires_at=ago(minutes=50))
    make_key(expired=True, expires_at=ago(minutes=70))
    assert IdempotencyKey.objects.reap(older_than=timedelta(hours=1)) == 1
    assert row(recent)


def test_the_reaper_stops_after_max_rows_and_after_max_seconds():
    for hours in range(5):
        make_key(expired=True, expires_at=ago(hours=hours + 1))
    assert IdempotencyKey.objects.reap(batch_size=2, max_rows=3) == 3
    assert IdempotencyKey.objects.reap(batch_size=1, max_seconds=0) == 1


def test_an_unresolved_key_goes_only_with_include_unresolved():
    open_question = make_key(unresolved=True, expires_at=ago(days=1))
    assert IdempotencyKey.objects.reap() == 0
    assert row(open_question)
    assert IdempotencyKey.objects.reap(include_unresolved=True) == 1


def test_a_live_lock_stays_also_with_include_unresolved():
    record = make_key(in_flight=True, steps="{}", expires_at=ago(days=1))
    assert IdempotencyKey.objects.reap(include_unresolved=True) == 0
    assert row(record)


def notes_keys_before(left: list[set[str]]) -> Callable[..., Any]:
    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("DELETE"):
            left.append(set(IdempotencyKey.objects.values_list("key", flat=True)))
        return execute(sql, params, many, context)

    return wrapper


@pytest.fixture
def second(transactional_db: None) -> Iterator[str]:
    """Name another connection to the same database, as another worker has."""
    connections["second"] = connection.copy("second")
    yield "second"
    connections["second"].close()
    del connections["second"]


def test_b58_a_key_that_is_claimed_just_before_the_delete_stays(second):
    record = make_key(expired=True)
    gone = make_key(expired=True)

    def claims_first(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("DELETE"):
            assert claim(record, using=second).won
        return execute(sql, params, many, context)

    with connection.execute_wrapper(claims_first):
        assert IdempotencyKey.objects.reap() == 1
    assert (row(record)["state"], row(gone)) == (State.IN_PROGRESS, None)


@pytest.mark.row_locks
def test_b58_a_key_that_is_being_claimed_while_the_reaper_runs_stays(second):
    record = make_key(expired=True)
    make_key(expired=True)
    deleted: list[int] = []

    def reap() -> None:
        deleted.append(IdempotencyKey.objects.reap())
        connection.close()

    reaper = threading.Thread(target=reap)
    with transaction.atomic(using=second):
        assert claim(record, using=second).won
        reaper.start()
        # MariaDB and MySQL have no DELETE that skips what is locked: there it waits.
        waits = connection.vendor == "mysql"
        reaper.join(timeout=0.2 if waits else 5)
        passed_by = not reaper.is_alive()
    reaper.join()
    assert (deleted, row(record)["state"]) == ([1], State.IN_PROGRESS)
    assert passed_by or waits, "The reaper waited for a claim."


def test_b49_no_statement_goes_to_a_replica(settings):
    settings.DATABASE_ROUTERS = [ReadsFromReplica()]
    record = claim().record
    assert record.created_at  # Read when somebody asks for it.
    record.complete(status=201, headers=[], body=b"")
    assert claim().outcome is ClaimOutcome.REPLAY
    stale = make_key(stale=True)
    assert claim(stale).record.release() is True
    assert IdempotencyKey.objects.reap() == 0


class ReadsFromReplica:
    """Send reads to a database that is not there, so that each is an error."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


@pytest.mark.parametrize("narrow", ["filter", "none", "slice"])
def test_what_goes_over_the_whole_table_heeds_no_filter_and_says_so(narrow):
    rows = IdempotencyKey.objects.all()
    rows = {"filter": rows.filter(account="a"), "none": rows.none(), "slice": rows[:1]}[narrow]
    with pytest.raises(TypeError, match="heeds no filter"):
        rows.reap()
