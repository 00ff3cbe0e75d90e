"""S20: what each answer means; the fourth question's cases cannot all be served at will."""

from __future__ import annotations

import pytest

from idempotency_app.management.probing.exchange import Answer
from idempotency_app.management.probing.findings import of_changed, of_retry, of_twins

FIRST = Answer(201, b'{"id": 1}')
REPLAY = Answer(201, b'{"id": 1}', is_replay=True)
SECOND = Answer(201, b'{"id": 2}')
BUSY = "The endpoint has no time now, which tells nothing about keys: ask again later."


@pytest.mark.parametrize(
    ("again", "ok", "meaning"),
    [
        (REPLAY, True, "A retry gets the first answer."),
        (
            FIRST,
            None,
            "The same answer, and nothing marks it as a replay: it may have run again.",
        ),
        (SECOND, False, "A retry runs the work again: it gets another answer."),
        (
            Answer(200, FIRST.body),
            False,
            "A retry runs the work again: it gets another answer.",
        ),
        (
            Answer(200, FIRST.body, is_replay=True),
            False,
            "A retry is marked as a replay and differs from the first answer.",
        ),
        (Answer(409), False, "A retry does not get the first answer: it gets 409."),
        (Answer(500), False, "A retry does not get the first answer: it gets 500."),
        (Answer(429), None, BUSY),
    ],
)
def test_a_retry(again, ok, meaning):
    assert of_retry(FIRST, again) == (ok, meaning)


@pytest.mark.parametrize(
    ("answer", "alone", "ok", "meaning"),
    [
        (Answer(422), SECOND, True, "Other data under a used key is refused."),
        (
            Answer(400),
            SECOND,
            True,
            "Other data under a used key is refused with 400, where 422 is usual.",
        ),
        # A framework that validates with 422 refuses the data, not the reuse.
        (
            Answer(422),
            Answer(422),
            None,
            "The other data is refused under a new key too: change another --field.",
        ),
        (Answer(422), Answer(429), None, BUSY),
        (Answer(503), None, None, BUSY),
        (Answer(429), SECOND, None, BUSY),
        (
            Answer(500),
            None,
            False,
            "Other data under a used key gets 500, which is no refusal.",
        ),
        (
            REPLAY,
            None,
            False,
            "Other data gets the first request's answer: the body is not compared.",
        ),
        (
            FIRST,
            None,
            False,
            "Other data is not refused under a used key: it ran, or is not compared.",
        ),
        (SECOND, None, False, "Other data is not refused under a used key: it ran."),
    ],
)
def test_other_data(answer, alone, ok, meaning):
    assert of_changed(FIRST, answer, alone) == (ok, meaning)


@pytest.mark.parametrize(
    ("other", "ok", "meaning"),
    [
        (REPLAY, True, "Of two simultaneous requests one ran, and one got its answer."),
        (Answer(409), True, "Of two simultaneous requests one ran, and one was told to wait."),
        (
            FIRST,
            None,
            "Both get the same answer, and nothing marks a replay: both may have run.",
        ),
        (
            SECOND,
            False,
            "Both of two simultaneous requests ran: they get two different answers.",
        ),
        (
            Answer(201, b'{"id": 2}', is_replay=True),
            False,
            "Two simultaneous requests get two different answers.",
        ),
        (
            Answer(500),
            False,
            "Of two simultaneous requests one gets 500, not 409 or a replay.",
        ),
        (
            Answer(400),
            False,
            "Of two simultaneous requests one gets 400, not 409 or a replay.",
        ),
        (Answer(429), None, BUSY),
    ],
)
def test_twins_of_which_one_ran(other, ok, meaning):
    assert of_twins(FIRST, other) == (ok, meaning)
    assert of_twins(other, FIRST) == (ok, meaning)


@pytest.mark.parametrize(
    ("one", "other", "ok", "meaning"),
    [
        (
            REPLAY,
            REPLAY,
            None,
            "Both of two simultaneous requests are marked as replays, under a new key.",
        ),
        # An order number that there may be only once.
        (
            Answer(400),
            Answer(409),
            None,
            "Neither of two simultaneous requests was done: is the data taken only once?",
        ),
        (Answer(409), Answer(500), False, "Neither of two simultaneous requests was done."),
        (Answer(409), Answer(503), None, BUSY),
    ],
)
def test_twins_of_which_neither_ran(one, other, ok, meaning):
    assert of_twins(one, other) == (ok, meaning)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(204), "204 (no body)"),
        (
            Answer(201, b"\x1b[2J", is_replay=True),
            "201 (4 bytes, SHA-256 05704e8a…, marked as a replay)",
        ),
        (Answer(409, b'{"code": "in-progress"}'), "409 in-progress"),
        (Answer(422, b'{"code": "\\u001b[2J"}'), "422  [2J"),
        (Answer(400, b"[" * 100_000), "400 (100000 bytes, SHA-256 13f86ea1…)"),
    ],
)
def test_an_answer_in_words_holds_nothing_that_a_terminal_obeys(answer, words):
    assert str(answer) == words
