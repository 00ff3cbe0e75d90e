"""What the work sees of its key: steps whose results are saved."""

from __future__ import annotations

import datetime
import json
import threading
import uuid
from decimal import Decimal
from typing import Any, cast

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils.translation import gettext_lazy

from idempotency_app.attempts import Attempt
from idempotency_app.exceptions import StepResultInvalid
from idempotency_app.models import State

from .effects.attempts import begin, never, owned, steps, take_over, with_and_without_a_key
from .factories import row

pytestmark = pytest.mark.django_db

NUL, SURROGATE, EMOJI = "a\x00b", "\ud800", "\U0001f600"


def begin_again(attempt: Attempt) -> Attempt:
    """Give the key back, and become its owner again."""
    owned(attempt).release()
    return begin()


def fails(key: str) -> Any:
    raise ConnectionError


def exact(value: Any) -> tuple[type, str]:
    """Tell False from 0."""
    return type(value), json.dumps(value)


# A finished step.


@pytest.mark.parametrize(
    "result", [None, False, 0, "", [], {}, True, 2**70, 0.1, "ch_1", {"id": 7, "sent": [None]}]
)
def test_a_finished_step_is_not_run_again_and_its_result_comes_back(result):
    first = begin()
    assert exact(first.step("charge", lambda key: result)) == exact(result)
    assert exact(first.step("charge", never)) == exact(result)
    assert exact(begin_again(first).step("charge", never)) == exact(result)


def test_s11_a_finished_step_is_not_run_again_after_a_takeover():
    first = begin()
    first.step("charge", lambda key: "ch_1")
    assert take_over(first).step("charge", never) == "ch_1"


def test_s25_the_retry_runs_only_the_step_that_had_failed():
    first = begin()
    first.step("charge", lambda key: "ch_1")
    with pytest.raises(ConnectionError):
        first.step("receipt", fails)
    assert steps(first) == {"charge": {"result": "ch_1"}, "receipt": {}}
    again = begin_again(first)
    assert [again.step("charge", never), again.step("receipt", str.upper)] == [
        "ch_1",
        first.downstream_key("receipt").upper(),
    ]


def test_s11_a_step_that_had_begun_is_run_again_under_the_same_downstream_key():
    sent: list[str] = []

    def charge(key):
        sent.append(key)
        raise ConnectionError

    first = begin()
    with pytest.raises(ConnectionError):
        first.step("charge", charge)
    assert steps(first) == {"charge": {}}
    take_over(first).step("charge", sent.append)
    assert sent == [first.downstream_key("charge")] * 2


def test_a_step_of_a_step_keeps_its_result_beside_the_others():
    first = begin()
    first.step("order", lambda key: first.step("charge", lambda key: "ch_1") + "!")
    assert steps(first) == {"order": {"result": "ch_1!"}, "charge": {"result": "ch_1"}}


def test_each_step_costs_two_updates_and_a_finished_one_none():
    attempt = begin()
    with CaptureQueriesContext(connection) as queries:
        attempt.step("charge", lambda key: "ch_1")
        attempt.step("receipt", lambda key: None)
        attempt.step("charge", never)
    assert [query["sql"].split()[0] for query in queries] == ["UPDATE"] * 4


# What a result becomes.

NOON = datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("result", "decoded"),
    [
        (Decimal("10.50"), "10.50"),
        (datetime.date(2026, 11, 30), "2026-11-30"),
        (NOON, "2026-11-30T12:00:00Z"),
        (datetime.timedelta(minutes=90), "P0DT01H30M00S"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ((1, (2, 3)), [1, [2, 3]]),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        ({7: {8: "a"}}, {"7": {"8": "a"}}),
        (gettext_lazy("Yes"), "Yes"),
        (State.COMPLETE, "complete"),
    ],
)
@with_and_without_a_key
def test_the_first_attempt_gets_what_its_retry_will_get(result, decoded, keyed):
    first = begin(keyed=keyed)
    assert exact(first.step("charge", lambda key: result)) == exact(decoded)
    if keyed:
        assert exact(begin_again(first).step("charge", never)) == exact(decoded)


@pytest.mark.parametrize("text", [NUL, SURROGATE, EMOJI, "é", 'a"b\\', "%s %(id)s"])
def test_b55_no_character_of_a_result_or_a_name_breaks_the_save(text):
    first = begin()
    first.step(text, lambda key: {text: text})
    assert begin_again(first).step(text, never) == {text: text}
    assert row(owned(first))["steps"].isascii()


CIRCULAR: list[Any] = ["ch_9"]
CIRCULAR.append(CIRCULAR)
NO_JSON = {
    "an object": {"id": "ch_9", "at": object()},
    "a set": {"ch_9"},
    "bytes": b"ch_9",
    "a tuple as key": {("ch_9", 1): 1},
    "a circle": CIRCULAR,
    "a time of day that is aware": ["ch_9", NOON.timetz()],
}


@pytest.mark.parametrize("result", NO_JSON.values(), ids=NO_JSON)
@with_and_without_a_key
def test_a_result_that_is_no_json_is_told_with_the_steps_name_before_it_is_lost(result, keyed):
    attempt = begin(keyed=keyed)
    with pytest.raises(StepResultInvalid, match="'charge' has ended") as told:
        attempt.step("charge", lambda key: result)
    assert (told.value.step, told.value.result) == ("charge", result)
    # A message is logged, and what a network answers is not for logs.
    assert "ch_9" not in str(told.value)
    if keyed:
        assert steps(attempt) == {"charge": {}}


@with_and_without_a_key
def test_the_name_of_a_step_is_text(keyed):
    attempt = begin(keyed=keyed)
    with pytest.raises(TypeError, match="name is a str"):
        attempt.step(cast(Any, 7), lambda key: pytest.fail("the effect"))


@pytest.mark.row_locks
@pytest.mark.django_db(transaction=True)
def test_steps_in_two_threads_keep_both_results():
    attempt = begin()
    both = threading.Barrier(2)

    def work(key):
        both.wait(10)
        return key

    def run(name):
        attempt.step(name, work)
        connections.close_all()

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps(attempt) == {name: {"result": attempt.downstream_key(name)} for name in "ab"}
