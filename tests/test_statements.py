"""What a request costs: its statements, one by one, and its transactions, counted apart.

An empty transaction is listed too, since Django logs it; psycopg sends its BEGIN with the first
statement, so it costs no trip.
"""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import TransactionTestCase
from django.test.utils import CaptureQueriesContext
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects
from tests.contract.harness import (
    OTHER_BODY,
    PAST_THE_LOCK,
    PAST_THE_RETENTION,
    Harness,
    answering,
    raising,
)
from tests.contract.views import Permission, script
from tests.testapp.models import Order

SQLITE = connection.vendor == "sqlite"

# SQLite has one writer, and a replay must not ask for its lock: so it looks first.
CLAIM = ["SELECT key", "INSERT key"] if SQLITE else ["INSERT key"]
LOOK = ["SELECT key"] if SQLITE else ["INSERT key", "SELECT key"]
WORK = ["INSERT order"]
COMPLETE = ["UPDATE key"]
TAKE_OVER = ["UPDATE key"]
RESET = ["UPDATE key"]
RELEASE = ["DELETE key"]

NAMES = {IdempotencyKey._meta.db_table: "key", Order._meta.db_table: "order"}
TRANSACTION = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
COMMITTED = ["BEGIN", "COMMIT"]
ROLLED_BACK = ["BEGIN", "ROLLBACK"]


def readable(text: str) -> str:
    """Say a statement's verb and table; of one that begins or ends a transaction the verb, and
    all of one that is none of ours."""
    verb = text.split()[0]
    if verb in TRANSACTION:
        return verb
    names = [name for table, name in NAMES.items() if re.search(rf"\b{table}\b", text)]
    return f"{verb} {names[0]}" if names else text


class Costs(Harness, TransactionTestCase):
    checks: list[str] = []
    """The transaction that DRF's checks run in."""
    refused_checks: list[str] = []
    """The same, where they, or the key, are refused."""

    def cost_of(self, *body, **options):
        """Return the statements of one request, and what begins and ends its transactions."""
        with CaptureQueriesContext(connection) as captured:
            self.request(*body, **options)
        said = [readable(query["sql"]) for query in captured]
        transactions = [word for word in said if word in TRANSACTION]
        return [words for words in said if words not in TRANSACTION], transactions

    def test_a_first_request(self):
        assert self.cost_of() == (CLAIM + WORK + COMPLETE, self.checks + COMMITTED)

    def test_a_first_request_costs_two_statements_more_than_the_handler_or_three_on_sqlite(self):
        handler, _ = self.cost_of(path="/bare/")
        first, _ = self.cost_of()
        assert len(first) - len(handler) == (3 if SQLITE else 2)

    def test_a_replay(self):
        self.send()
        assert self.cost_of() == (LOOK, self.checks)

    def test_a_mismatch(self):
        self.send()
        assert self.cost_of(OTHER_BODY) == (LOOK, self.checks)

    def test_a_conflict(self):
        self.leave_a_dead_worker()
        assert self.cost_of() == (LOOK, self.checks)

    def test_a_raised_refusal(self):
        script.acts = [raising(ValidationError("no such sku"))]
        assert self.cost_of() == (CLAIM + WORK + RELEASE, self.checks + ROLLED_BACK)

    def test_a_returned_refusal(self):
        script.acts = [answering(Response(status=409))]
        assert self.cost_of() == (CLAIM + WORK + RELEASE, self.checks + ROLLED_BACK)

    def test_a_failure(self):
        script.acts = [raising(RuntimeError("unavailable"))]
        assert self.cost_of() == (CLAIM + WORK + RELEASE, self.checks + ROLLED_BACK)

    def test_a_takeover(self):
        self.leave_a_dead_worker()
        self.age(PAST_THE_LOCK)
        assert self.cost_of() == (LOOK + TAKE_OVER + WORK + COMPLETE, self.checks + COMMITTED)

    def test_a_key_that_has_expired(self):
        self.send()
        self.age(PAST_THE_RETENTION)
        assert self.cost_of() == (LOOK + RESET + WORK + COMPLETE, self.checks + COMMITTED)

    def test_a_request_without_a_key_costs_what_the_bare_view_costs(self):
        assert self.cost_of(key=None) == self.cost_of(path="/bare/")

    def test_a_refused_request_without_a_key_costs_what_the_bare_view_costs(self):
        script.acts = [raising(ValidationError("no such sku"))] * 2
        assert self.cost_of(key=None) == self.cost_of(path="/bare/")

    def test_a_get_with_a_key_costs_what_the_bare_view_costs(self):
        assert self.cost_of(method="GET") == self.cost_of(method="GET", path="/bare/")

    def test_a_malformed_key_costs_nothing(self):
        assert self.cost_of(key='"k') == ([], self.refused_checks)

    def test_a_required_key_that_is_missing_costs_nothing(self):
        assert self.cost_of(key=None, path="/required/")[0] == []

    def test_a_request_that_is_refused_before_the_work_costs_nothing(self):
        with script.closing(Permission):
            assert self.cost_of() == ([], self.refused_checks)


class CostsUnderAtomicRequests(Costs):
    atomic_requests = True
    # SQLite has no row locks: there a transaction of their own would be the write lock.
    checks = [] if SQLITE else COMMITTED
    refused_checks = [] if SQLITE else ROLLED_BACK


MARK, SAVE, LEAVE = ["UPDATE key"], ["UPDATE key"], ["UPDATE key"]
STEP = MARK + WORK + SAVE


class StepCosts(Costs):
    """Outside effects have no transaction, and each step costs two statements more."""

    effects = Effects.REPEATABLE
    prefix = "/repeatable"

    def test_a_first_request(self):
        assert self.cost_of() == (CLAIM + STEP + COMPLETE, self.checks)

    def test_a_first_request_costs_two_statements_more_than_the_handler_or_three_on_sqlite(self):
        handler, _ = self.cost_of(path="/bare/")
        first, _ = self.cost_of()
        assert len(first) - len(handler) == (3 if SQLITE else 2) + len(MARK + SAVE)

    def test_a_raised_refusal(self):
        script.acts = [raising(ValidationError("no such sku"))]
        assert self.cost_of() == (CLAIM + RELEASE, self.checks)

    def test_a_returned_refusal(self):
        script.acts = [answering(Response(status=409))]
        assert self.cost_of() == (CLAIM + RELEASE, self.checks)

    def test_a_failure(self):
        script.acts = [raising(RuntimeError("unavailable"))]
        assert self.cost_of() == (CLAIM + RELEASE, self.checks)

    def test_a_failure_after_the_step(self):
        script.acts_after = [raising(RuntimeError("unavailable"))]
        assert self.cost_of() == (CLAIM + STEP + LEAVE, self.checks)

    def test_a_retry_that_finds_the_step_finished(self):
        script.acts_after = [raising(RuntimeError("unavailable"))]
        self.send()
        assert self.cost_of() == (LOOK + TAKE_OVER + COMPLETE, self.checks)

    def test_a_takeover(self):
        self.leave_a_dead_worker()
        self.age(PAST_THE_LOCK)
        assert self.cost_of() == (LOOK + TAKE_OVER + STEP + COMPLETE, self.checks)

    def test_a_key_that_has_expired(self):
        self.send()
        self.age(PAST_THE_RETENTION)
        assert self.cost_of() == (LOOK + RESET + STEP + COMPLETE, self.checks)


class StepCostsUnderAtomicRequests(CostsUnderAtomicRequests, StepCosts):
    pass


class UnrepeatableStepCosts(StepCosts):
    effects = Effects.UNREPEATABLE
    prefix = "/unrepeatable"

    def test_a_failure_after_the_step(self):
        script.acts_after = [raising(RuntimeError("unavailable"))]
        assert self.cost_of() == (CLAIM + STEP + COMPLETE, self.checks)

    def test_a_retry_that_finds_the_step_finished(self):
        script.acts_after = [raising(RuntimeError("unavailable"))]
        self.send()
        assert self.cost_of() == (LOOK, self.checks)

    def test_an_outcome_that_nobody_knows(self):
        script.acts_after = [raising(SystemExit())]
        with pytest.raises(SystemExit):
            self.send()
        self.age(PAST_THE_LOCK)
        assert self.cost_of() == (LOOK, self.checks)


class UnrepeatableStepCostsUnderAtomicRequests(CostsUnderAtomicRequests, UnrepeatableStepCosts):
    pass


class B54Statements(Harness, TransactionTestCase):
    def captured(self, *steps):
        with CaptureQueriesContext(connection) as captured:
            for step in steps:
                step()
        return [query["sql"] for query in captured]

    def takeover(self):
        self.leave_a_dead_worker(key="stale")
        self.age(PAST_THE_LOCK)
        self.send(key="stale")

    def refusal(self):
        script.acts = [raising(ValidationError("no such sku"))]
        self.send(key="refused")

    def requests(self):
        self.send()  # claims and saves
        self.send()  # replays
        self.send(OTHER_BODY)
        self.takeover()
        self.refusal()  # releases

    def outside(self):
        script.acts_after = [raising(RuntimeError("unavailable"))]
        self.send(key="left", path="/repeatable/orders/")
        self.send(key="left", path="/repeatable/orders/")
        self.send(key="recorded", path="/unrepeatable/orders/")

    def test_b54_nothing_is_left_in_the_session_for_the_next_transaction(self):
        said = self.captured(self.requests, self.outside, IdempotencyKey.objects.reap)
        # No SET, LISTEN, PREPARE or DECLARE ... CURSOR among them,
        verbs = {"SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK"}
        assert {text.split()[0] for text in said} == verbs
        # and no lock that outlives its transaction.
        assert "advisory" not in "".join(said).lower()

    def test_no_request_waits_for_a_row_that_it_only_reads(self):
        said = "\n".join(self.captured(self.requests, self.outside))
        assert re.search(r"\bFOR\s+(NO KEY )?(UPDATE|SHARE)\b", said, re.IGNORECASE) is None
