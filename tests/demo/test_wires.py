"""Wires, live: outside effects that are not safe to repeat, and so never are."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from idempotency_app.models import IdempotencyKey

from .live import WIRE, LiveDemo, all_at_once, code, is_replay

RETENTION = timedelta(hours=24)


@pytest.fixture
def wired(live_demo: LiveDemo):
    """How many wires alice's tenant has got since the test began."""
    before = live_demo.counts()["wires"]
    return lambda: live_demo.counts()["wires"] - before


def leave_unknown(demo: LiveDemo, key: str, moment: str) -> IdempotencyKey:
    """Let the worker die in the middle of the wire, and its lock become stale."""
    with pytest.raises(httpx.TransportError):
        demo.wire(key, die=moment)
    demo.age(key, seconds=61)
    return demo.keys.get(key=key)


def assert_unknown(response: httpx.Response) -> None:
    assert (response.status_code, code(response)) == (409, "outcome-unknown")
    assert "Retry-After" not in response.headers


def test_a_wire_is_sent_and_its_retry_gets_the_first_answer(
    live_demo: LiveDemo, key: str, wired
) -> None:
    first, retry = live_demo.wire(key), live_demo.wire(key)
    assert first.status_code == 201
    assert is_replay(retry)
    assert retry.content == first.content
    assert live_demo.get(first.headers["Location"]).json() == first.json()
    assert wired() == 1


def test_s7_a_a_wire_that_fails_before_its_step_is_sent_by_the_retry(
    live_demo: LiveDemo, key: str, wired
) -> None:
    assert live_demo.wire(key, fail="before").status_code == 500
    assert wired() == 0
    retry = live_demo.wire(key)
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert wired() == 1


def test_s7_a_a_refused_wire_is_sent_once_it_is_corrected(
    live_demo: LiveDemo, key: str, wired
) -> None:
    assert live_demo.wire(key, WIRE | {"amount_cents": -1}).status_code == 400
    assert live_demo.wire(key).status_code == 201
    assert wired() == 1


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param({"fail": "after"}, 500, id="exception"),
        pytest.param({"status": 500}, 500, id="500"),
        pytest.param({"status": 503}, 503, id="503"),
        pytest.param({"status": 409}, 409, id="409"),
        pytest.param({"status": 400}, 400, id="400"),
        pytest.param({"Network-Fail": "after"}, 502, id="network-fails"),
        pytest.param({"Network-Lose-Reply": 1}, 502, id="network-loses-reply"),
    ],
)
def test_s7_b_a_wire_that_fails_after_its_effect_is_answered_the_same_again(
    live_demo: LiveDemo, key: str, wired, fault, status: int
) -> None:
    first, retry = live_demo.wire(key, **fault), live_demo.wire(key)
    assert (first.status_code, retry.status_code) == (status, status)
    assert (is_replay(first), is_replay(retry)) == (False, True)
    assert retry.content == first.content
    assert wired() == 1


def test_s12_a_a_worker_that_dies_before_the_step_is_taken_over(
    live_demo: LiveDemo, key: str, wired
) -> None:
    leave_unknown(live_demo, key, "before")
    retry = live_demo.wire(key)
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert wired() == 1


def test_s12_b_an_unknown_outcome_that_is_recorded_is_replayed(
    live_demo: LiveDemo, key: str, wired
) -> None:
    record = leave_unknown(live_demo, key, "after-effect")
    assert_unknown(live_demo.wire(key))
    # Support looks at the network, and finds the wire there.
    assert wired() == 1
    headers = [("Content-Type", "application/json")]
    assert record.settle(status=201, headers=headers, body=b'{"id": 7}', retention=RETENTION)
    retry = live_demo.wire(key)
    assert (retry.status_code, retry.content) == (201, b'{"id": 7}')
    assert is_replay(retry)
    assert wired() == 1


def test_s12_b_an_unknown_outcome_that_did_not_happen_is_released_and_runs(
    live_demo: LiveDemo, key: str, wired
) -> None:
    record = leave_unknown(live_demo, key, "in-step")
    assert_unknown(live_demo.wire(key))
    # Support looks at the network, and does not find the wire there.
    assert wired() == 0
    assert record.settle_as_not_happened()
    retry = live_demo.wire(key)
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert wired() == 1


def test_s24_an_open_question_outlives_its_retention_and_its_answer_is_kept_for_a_full_one(
    live_demo: LiveDemo, key: str, wired
) -> None:
    leave_unknown(live_demo, key, "after-effect")
    live_demo.age(key, hours=30)
    assert_unknown(live_demo.wire(key))
    live_demo.age(key, hours=42)
    record = live_demo.keys.get(key=key)
    assert record.settle(status=201, headers=[], body=b"settled", retention=RETENTION)
    live_demo.age(key, hours=23)
    retry = live_demo.wire(key)
    assert is_replay(retry)
    assert (retry.status_code, retry.content) == (201, b"settled")
    assert wired() == 1


def test_s26_a_key_that_is_remembered_refuses_the_same_wire_on_day_three(
    live_demo: LiveDemo, key: str, wired
) -> None:
    assert live_demo.wire(key).status_code == 201
    live_demo.age(key, days=3)
    late = live_demo.wire(key)
    assert (late.status_code, code(late)) == (409, "key-expired")
    assert wired() == 1


def test_twenty_identical_wires_at_once_are_one_and_none_gets_a_5xx(
    live_demo: LiveDemo, key: str, wired
) -> None:
    answers = all_at_once(lambda: live_demo.wire(key), 20)
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert sum(answer.status_code == 201 and not is_replay(answer) for answer in answers) == 1
    assert wired() == 1
