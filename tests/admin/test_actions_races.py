"""Two people, or a person and a request, at once: on connections of their own."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection, transaction
from django.db.models.signals import post_save

from idempotency_app.models import IdempotencyKey
from tests.cases.support import WAIT, Gate
from tests.factories import claim, make_key

from .acting import NOT_HAPPENED, RECORD, RELEASE, SETTLE, ask, confirm, history
from .test_pages import log_in

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_three_people_who_confirm_at_once_one_wins(threads):
    record = make_key(unresolved=True, steps="{}")
    people = [log_in(f"p{number}", "view", "settle") for number in range(3)]
    shown = [ask(person, SETTLE, record) for person in people]
    fields = [{**RECORD, "status": str(201 + number)} for number in range(3)]
    got = threads.all(lambda n: confirm(people[n], SETTLE, shown[n], **fields[n]), 3)
    won = [number for number, page in enumerate(got) if "Done: 1 key." in page]
    assert len(won) == 1
    assert IdempotencyKey.objects.get().response_status == 201 + won[0]
    assert len(history()) == 1
    losers = [page for number, page in enumerate(got) if number not in won]
    assert all(f"it is complete now. p{won[0]}, 0 minutes ago: Settled" in page for page in losers)


class Sending:
    """Says when this connection is about to change a key."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def __call__(self, execute: Any, sql: str, *args: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and "idempotencykey" in sql:
            self.begun.set()
        return execute(sql, *args)


@pytest.fixture
def in_the_log():
    """A place where whoever writes the first entry has changed the row, and not committed."""
    gate, is_first = Gate(), threading.Lock()

    def wait(**kwargs):
        if is_first.acquire(blocking=False):
            gate.wait()

    post_save.connect(wait, sender=LogEntry)
    yield gate
    gate.open()
    post_save.disconnect(wait, sender=LogEntry)


def while_it_waits(threads, gate, first, second):
    """Let the first change the row, the second meet its lock, and both go on."""
    sending = Sending()

    def watched():
        with connection.execute_wrapper(sending):
            return second()

    one = threads.call(first)
    gate.await_entry()
    other = threads.call(watched)
    assert sending.begun.wait(WAIT)
    gate.open()
    return one.result(WAIT), other.result(WAIT)


@pytest.mark.row_locks
@pytest.mark.parametrize("fields", [RECORD, NOT_HAPPENED])
def test_who_meets_an_uncommitted_change_waits_and_is_told(threads, in_the_log, fields):
    record = make_key(unresolved=True, steps="{}")
    boss, support = (log_in(name, "view", "settle") for name in ("boss", "support"))
    shown = [ask(person, SETTLE, record) for person in (boss, support)]
    got = while_it_waits(
        threads,
        in_the_log,
        lambda: confirm(boss, SETTLE, shown[0], **RECORD),
        lambda: confirm(support, SETTLE, shown[1], **fields),
    )
    assert "Done: 1 key." in got[0]
    assert "Nothing was changed: it is complete now. boss, 0 minutes ago: Settled" in got[1]
    assert IdempotencyKey.objects.get().response_status == 201
    assert len(history()) == 1


@pytest.mark.row_locks
def test_a_retry_that_meets_an_uncommitted_release_runs_as_new(threads, in_the_log):
    record = make_key(stale=True)
    support = log_in("support", "view", "release")
    shown = ask(support, RELEASE, record)
    got, claimed = while_it_waits(
        threads,
        in_the_log,
        lambda: confirm(support, RELEASE, shown, reason="dead"),
        lambda: claim(record),
    )
    assert "Done: 1 key." in got
    assert claimed.won
    assert IdempotencyKey.objects.get().fencing_token == claimed.record.fencing_token


@pytest.mark.row_locks
def test_a_takeover_that_is_not_committed_wins_over_a_release(threads):
    """The other way round: the person is the one who waits."""
    record = make_key(stale=True)
    support = log_in("support", "view", "release")
    shown = ask(support, RELEASE, record)
    sending, gate = Sending(), Gate()

    def take_over():
        with transaction.atomic():
            claimed = claim(record)
            gate.wait()
        return claimed

    def release():
        with connection.execute_wrapper(sending):
            return confirm(support, RELEASE, shown, reason="dead")

    taken = threads.call(take_over)
    gate.await_entry()
    told = threads.call(release)
    assert sending.begun.wait(WAIT)
    gate.open()
    assert taken.result(WAIT).won
    assert "it is in flight now. A further request has taken it over." in told.result(WAIT)
    assert IdempotencyKey.objects.get().fencing_token == taken.result(WAIT).record.fencing_token
    assert history() == []
