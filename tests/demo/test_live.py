"""The stories that have a network in them, over real sockets, each named by its case."""

from __future__ import annotations

import subprocess
import time

import httpx
import pytest

from .live import TRANSFER, LiveDemo, all_at_once, code, is_replay

OTHER = TRANSFER | {"amount_cents": 9900}


def retry_until_answered(demo: LiveDemo, key: str) -> httpx.Response:
    """Send the same request again, as long after each 409 as its Retry-After says."""
    while (response := demo.post(key)).status_code == 409:
        time.sleep(int(response.headers["Retry-After"]))
    return response


def test_s2_a_reply_that_comes_too_late_for_curl_is_replayed_to_its_retry(
    live_demo: LiveDemo, key: str
) -> None:
    # 1. What is there before.
    before = live_demo.counts()
    # 2. A POST of 1.5 seconds, by a client that waits for one.
    lost = subprocess.Popen(
        live_demo.curl("-m", "1", "-H", f"Idempotency-Key: {key}", "-H", "Demo-Delay: 1.5"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    live_demo.wait_until_claimed(key)
    # 3. Its duplicate while it runs.
    assert live_demo.post(key).status_code == 409
    # 4. Another body under its key while it runs.
    assert live_demo.post(key, OTHER).status_code == 422
    # 5. curl gives up: 28 is its "operation timed out", and it has seen nothing.
    answer, _ = lost.communicate()
    assert (lost.returncode, answer) == (28, b"")
    # 6. The retry gets the first answer.
    retry = retry_until_answered(live_demo, key)
    assert retry.status_code == 201
    assert is_replay(retry)
    assert live_demo.get(retry.headers["Location"]).json() == retry.json()
    # 7. One transfer; each POST was counted.
    after = live_demo.counts()
    assert after["transfers"] - before["transfers"] == 1
    assert after["requests"] - before["requests"] >= 4


def test_s2_a_reply_that_the_network_loses_is_replayed(live_demo: LiveDemo, key: str) -> None:
    before = live_demo.counts()["transfers"]
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        live_demo.post(key, lose_reply=1)
    retry = live_demo.post(key)
    assert (retry.status_code, is_replay(retry)) == (201, True)
    assert live_demo.counts()["transfers"] - before == 1


def test_s2_a_retry_with_the_tenants_other_token_is_replayed(live_demo: LiveDemo, key: str) -> None:
    first = live_demo.post(key)
    retry = live_demo.post(key, token="alice-token-2")
    assert not is_replay(first)
    assert is_replay(retry)
    assert retry.content == first.content


def test_s3_a_duplicate_in_flight_gets_409_at_once_and_the_original_its_201(
    live_demo: LiveDemo, key: str
) -> None:
    original = live_demo.in_background(key, delay=1.5)
    live_demo.wait_until_claimed(key)
    asked = time.monotonic()
    duplicate = live_demo.post(key)
    took = time.monotonic() - asked
    assert (duplicate.status_code, code(duplicate)) == (409, "in-progress")
    assert int(duplicate.headers["Retry-After"]) >= 1
    assert took < 1
    first = original.result()
    assert (first.status_code, is_replay(first)) == (201, False)
    retry = live_demo.post(key)
    assert is_replay(retry)
    assert retry.content == first.content


def test_s4_another_body_gets_422_while_the_first_runs_and_after_it(
    live_demo: LiveDemo, key: str
) -> None:
    before = live_demo.counts()["transfers"]
    original = live_demo.in_background(key, delay=1)
    live_demo.wait_until_claimed(key)
    while_it_runs = live_demo.post(key, OTHER)
    assert original.result().status_code == 201
    after_it = live_demo.post(key, OTHER)
    for response in (while_it_runs, after_it):
        assert (response.status_code, code(response)) == (422, "key-reused")
        assert not is_replay(response)
    assert live_demo.counts()["transfers"] - before == 1


def test_s5_a_request_without_a_key_gets_400_that_says_what_to_send(live_demo: LiveDemo) -> None:
    response = live_demo.post(None)
    assert (response.status_code, code(response)) == (400, "key-missing")
    assert "Idempotency-Key" in response.json()["detail"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_s6_work_that_throws_runs_again_and_its_effect_exists_once(
    live_demo: LiveDemo, key: str, moment: str
) -> None:
    before = live_demo.counts()["transfers"]
    assert live_demo.post(key, fail=moment).status_code == 500
    retry = live_demo.post(key)
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert live_demo.counts()["transfers"] - before == 1


def test_s8_a_corrected_body_runs_under_the_key_of_a_refused_one(
    live_demo: LiveDemo, key: str
) -> None:
    assert live_demo.post(key, TRANSFER | {"amount_cents": 0}).status_code == 400
    corrected = live_demo.post(key)
    assert (corrected.status_code, is_replay(corrected)) == (201, False)


@pytest.mark.parametrize("moment", ["before", "after-effect"])
def test_s9_one_of_two_retries_takes_over_from_a_worker_that_was_killed(
    live_demo: LiveDemo, key: str, moment: str
) -> None:
    before = live_demo.counts()["transfers"]
    with pytest.raises(httpx.TransportError):
        live_demo.post(key, die=moment)
    early = live_demo.post(key)
    assert (early.status_code, code(early)) == (409, "in-progress")
    live_demo.age(key, seconds=61)
    both = [live_demo.in_background(key, delay=0.3) for _ in range(2)]
    answers = [background.result() for background in both]
    ran = [answer for answer in answers if answer.status_code == 201 and not is_replay(answer)]
    assert len(ran) == 1
    for other in set(answers) - set(ran):
        assert other.status_code == 409 or is_replay(other)
    assert live_demo.counts()["transfers"] - before == 1
    assert live_demo.post(key).content == ran[0].content


def test_s9_a_worker_that_is_killed_after_the_commit_leaves_its_answer(
    live_demo: LiveDemo, key: str
) -> None:
    before = live_demo.counts()["transfers"]
    with pytest.raises(httpx.TransportError):
        live_demo.post(key, die="after-save")
    retry = live_demo.post(key)
    assert (retry.status_code, is_replay(retry)) == (201, True)
    assert live_demo.counts()["transfers"] - before == 1


# On SQLite the slow worker holds the only write lock, so that nobody can take over.
@pytest.mark.row_locks
def test_s10_a_slow_worker_that_saves_after_a_takeover_changes_nothing(
    live_demo: LiveDemo, key: str
) -> None:
    before = live_demo.counts()["transfers"]
    slow = live_demo.in_background(key, lock=1, delay=3)
    live_demo.wait_until_claimed(key)
    live_demo.wait_until_stale(key)
    owner = live_demo.post(key)
    assert (owner.status_code, is_replay(owner)) == (201, False)
    lost = slow.result()
    assert (lost.status_code, code(lost)) == (409, "in-progress")
    assert live_demo.counts()["transfers"] - before == 1
    retry = live_demo.post(key)
    assert is_replay(retry)
    assert retry.content == owner.content


@pytest.mark.row_locks
def test_s10_a_slow_worker_that_fails_after_a_takeover_releases_nothing(
    live_demo: LiveDemo, key: str
) -> None:
    before = live_demo.counts()["transfers"]
    slow = live_demo.in_background(key, lock=1, delay=3, fail="after")
    live_demo.wait_until_claimed(key)
    live_demo.wait_until_stale(key)
    owner = live_demo.in_background(key, delay=3)
    assert slow.result().status_code == 500
    # The owner still runs: a key that had been released would run a third time.
    assert live_demo.post(key).status_code == 409
    answer = owner.result()
    assert (answer.status_code, is_replay(answer)) == (201, False)
    retry = live_demo.post(key)
    assert is_replay(retry)
    assert retry.content == answer.content
    assert live_demo.counts()["transfers"] - before == 1


def test_s13_two_tenants_with_the_same_key_both_run(live_demo: LiveDemo, key: str) -> None:
    alice = live_demo.post(key, token="alice-token")
    bob = live_demo.post(key, token="bob-token")
    assert [(r.status_code, is_replay(r)) for r in (alice, bob)] == [(201, False), (201, False)]
    assert alice.json()["id"] != bob.json()["id"]
    assert live_demo.get(alice.headers["Location"], token="bob-token").status_code == 404


def test_twenty_identical_posts_at_once_run_once_and_none_gets_a_5xx(
    live_demo: LiveDemo, key: str
) -> None:
    before = live_demo.counts()["transfers"]
    answers = all_at_once(lambda: live_demo.post(key), 20)
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert sum(answer.status_code == 201 and not is_replay(answer) for answer in answers) == 1
    assert live_demo.counts()["transfers"] - before == 1
