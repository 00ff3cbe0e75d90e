"""Charges, live: outside effects that are safe to repeat, because the network gets our key."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import uuid

import httpx
import pytest
from django.db.models import F

from .live import CHARGE, LiveDemo, all_at_once, code, is_replay, wait_for

OTHER = CHARGE | {"amount_cents": 9900}
DECLINED = CHARGE | {"source": "declined"}
WITH_RECEIPT = CHARGE | {"receipt_email": "ada@example.com"}


@pytest.fixture
def charged(live_demo: LiveDemo):
    """How many charges alice's tenant has got since the test began."""
    before = live_demo.counts()["charges"]
    return lambda: live_demo.counts()["charges"] - before


@pytest.fixture
def called(live_demo: LiveDemo):
    """How many POSTs the network has got from that tenant since the test began."""
    before = live_demo.network_counts()["requests"]
    return lambda: live_demo.network_counts()["requests"] - before


def test_s1_curl_gives_up_and_tries_again_without_a_key_and_the_card_is_charged_twice(
    live_demo: LiveDemo, charged
) -> None:
    path = "/api/unprotected/charges/"
    impatient = live_demo.curl("-m", "1", "-H", "Demo-Delay: 1.5", path=path)
    lost = [subprocess.run(impatient, capture_output=True, check=False) for _ in range(2)]
    assert [(curl.returncode, curl.stdout) for curl in lost] == [(28, b"")] * 2
    wait_for(lambda: charged() == 2)


def test_a_charge_is_made_and_its_retry_gets_the_first_answer(
    live_demo: LiveDemo, key: str, charged, called
) -> None:
    first, retry = live_demo.charge(key), live_demo.charge(key)
    assert first.status_code == 201
    assert is_replay(retry)
    assert retry.content == first.content
    assert first.json() | CHARGE == first.json()
    assert live_demo.get(first.headers["Location"]).json() == first.json()
    assert (charged(), called()) == (1, 1)


def test_a_declined_card_is_the_banks_answer_and_its_retry_gets_it_again(
    live_demo: LiveDemo, key: str, charged, called
) -> None:
    first, retry = live_demo.charge(key, DECLINED), live_demo.charge(key, DECLINED)
    assert (first.status_code, retry.status_code) == (402, 402)
    assert is_replay(retry)
    assert retry.content == first.content
    assert (charged(), called()) == (0, 1)


@pytest.mark.parametrize("fields", [{"amount_cents": 0}, {"currency": "dollars"}, {"source": ""}])
def test_a_refused_charge_calls_nobody_and_its_key_takes_the_corrected_one(
    live_demo: LiveDemo, key: str, called, fields
) -> None:
    assert live_demo.charge(key, CHARGE | fields).status_code == 400
    assert called() == 0
    assert live_demo.charge(key).status_code == 201


def test_a_charge_without_a_key_is_refused(live_demo: LiveDemo, called) -> None:
    response = live_demo.charge(None)
    assert (response.status_code, code(response)) == (400, "key-missing")
    assert called() == 0


def test_s3_a_duplicate_of_a_charge_in_flight_gets_409_at_once(
    live_demo: LiveDemo, key: str, charged
) -> None:
    original = live_demo.in_background(key, path="/api/charges/", delay=1)
    live_demo.wait_until_claimed(key)
    duplicate = live_demo.charge(key)
    assert (duplicate.status_code, code(duplicate)) == (409, "in-progress")
    assert original.result().status_code == 201
    assert charged() == 1


@pytest.mark.parametrize("moment", ["before", "in-step", "after"])
def test_s6_a_charge_that_fails_runs_again_and_is_made_once(
    live_demo: LiveDemo, key: str, charged, moment: str
) -> None:
    assert live_demo.charge(key, fail=moment).status_code == 500
    retry = live_demo.charge(key)
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert charged() == 1


@pytest.mark.parametrize("moment", ["before", "in-step", "after-effect"])
def test_s11_the_worker_dies_and_the_retry_charges_once(
    live_demo: LiveDemo, key: str, charged, called, moment: str
) -> None:
    with pytest.raises(httpx.TransportError):
        live_demo.charge(key, die=moment)
    reached = called()
    early = live_demo.charge(key)
    assert (early.status_code, code(early)) == (409, "in-progress")
    live_demo.age(key, seconds=61)
    retry = live_demo.charge(key)
    assert (retry.status_code, is_replay(retry)) == (201, False)
    # The network was asked a second time where it had been asked once, under the same key.
    assert called() == reached + 1
    assert charged() == 1
    assert is_replay(live_demo.charge(key))


def test_s11_a_reply_lost_after_the_save_is_replayed(
    live_demo: LiveDemo, key: str, charged
) -> None:
    with pytest.raises(httpx.TransportError):
        live_demo.charge(key, die="after-save")
    assert is_replay(live_demo.charge(key))
    assert charged() == 1


def test_s11_a_worker_killed_from_outside_in_the_middle_of_a_charge_charges_once(
    live_demo: LiveDemo, key: str, charged
) -> None:
    call = live_demo.in_background(key, path="/api/charges/", delay=30)
    wait_for(lambda: charged() == 1)
    for worker in live_demo.workers():
        worker.send_signal(signal.SIGKILL)
    with pytest.raises(httpx.TransportError):
        call.result()
    wait_for(lambda: answers(live_demo))
    live_demo.age(key, seconds=61)
    assert live_demo.charge(key).status_code == 201
    assert charged() == 1


def answers(demo: LiveDemo) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return demo.get("/api/counts/").status_code == 200
    return False


def test_s11_a_finished_step_does_not_run_again_after_a_takeover(
    live_demo: LiveDemo, key: str, charged, called
) -> None:
    with pytest.raises(httpx.TransportError):
        live_demo.charge(key, WITH_RECEIPT, die="receipt")
    live_demo.age(key, seconds=61)
    before = live_demo.counts()["messages"]
    assert live_demo.charge(key, WITH_RECEIPT).status_code == 201
    # The charge of the first attempt, and the receipt of the second.
    assert called() == 2
    assert (charged(), live_demo.counts()["messages"] - before) == (1, 1)


def test_s25_a_corrected_body_is_refused_once_a_step_has_ended_and_the_first_goes_on_after_it(
    live_demo: LiveDemo, key: str, charged, called
) -> None:
    assert live_demo.charge(key, WITH_RECEIPT, fail="receipt").status_code == 500
    corrected = live_demo.charge(key, WITH_RECEIPT | {"receipt_email": "bob@example.com"})
    assert (corrected.status_code, code(corrected)) == (422, "key-reused")
    assert called() == 1
    again = live_demo.charge(key, WITH_RECEIPT)
    assert (again.status_code, is_replay(again)) == (201, False)
    assert (charged(), called()) == (1, 2)


def test_s25_a_row_of_our_own_is_written_once_however_often_the_step_is_found_finished(
    live_demo: LiveDemo, key: str
) -> None:
    first = live_demo.charge(key)
    # As if the worker had died after its row, and before its response was saved.
    live_demo.keys.filter(key=key).update(state="released", locked_until=F("created_at"))
    again = live_demo.charge(key)
    assert not is_replay(again)
    assert again.json() == first.json()


@pytest.mark.parametrize("fault", [{"Fail": "before"}, {"Fail": "after"}, {"Status": "500"}])
def test_a_network_that_fails_is_a_502_and_the_retry_charges_once(
    live_demo: LiveDemo, key: str, charged, fault
) -> None:
    failed = live_demo.charge(key, **{f"Network-{name}": value for name, value in fault.items()})
    assert failed.status_code == 502
    assert charged() == 0
    assert live_demo.charge(key).status_code == 201
    assert charged() == 1


@pytest.mark.parametrize("fault", [{"Lose-Reply": "1"}, {"Die": "after-save"}])
def test_a_reply_of_the_network_that_is_lost_is_a_502_and_the_retry_charges_once(
    live_demo: LiveDemo, key: str, charged, fault
) -> None:
    failed = live_demo.charge(key, **{f"Network-{name}": value for name, value in fault.items()})
    assert failed.status_code == 502
    wait_for(lambda: network_answers(live_demo))
    assert charged() == 1
    assert live_demo.charge(key).status_code == 201
    assert charged() == 1


def network_answers(demo: LiveDemo) -> bool:
    return demo.get("/api/counts/").status_code == 200


def test_a_slow_network_holds_up_its_own_charge_and_no_other(live_demo: LiveDemo, key: str) -> None:
    slow = live_demo.in_background(key, path="/api/charges/", **{"Network-Delay": 2})
    live_demo.wait_until_claimed(key)
    assert live_demo.charge(str(uuid.uuid4())).status_code == 201
    assert live_demo.charge(key).status_code == 409
    assert slow.result().status_code == 201


def test_twenty_identical_charges_at_once_charge_once_and_none_gets_a_5xx(
    live_demo: LiveDemo, key: str, charged, called
) -> None:
    answers = all_at_once(lambda: live_demo.charge(key), 20)
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert sum(answer.status_code == 201 and not is_replay(answer) for answer in answers) == 1
    assert (charged(), called()) == (1, 1)


def test_b72_a_takeover_sends_the_same_downstream_key_and_nobody_else_does(
    live_demo: LiveDemo, key: str, charged
) -> None:
    before = downstream_keys(live_demo)
    with pytest.raises(httpx.TransportError):
        live_demo.charge(key, die="after-effect")
    live_demo.age(key, seconds=61)
    assert live_demo.charge(key).status_code == 201
    assert charged() == 1
    first = downstream_keys(live_demo) - before
    assert len(first) == 1

    assert live_demo.charge(key, token="bob-token").status_code == 201
    other = f"{key}-2"
    assert live_demo.charge(other).status_code == 201
    assert charged() == 2
    all_three = downstream_keys(live_demo) - before
    assert len(all_three) == 3
    for sent in all_three:
        assert str(uuid.UUID(sent)) == sent
        assert key not in sent
        assert "acme" not in sent


def downstream_keys(demo: LiveDemo) -> set[str]:
    """Return the keys that the network has been sent, as it keeps them in its own database."""
    file = demo.var / "network" / "network.sqlite3"
    with contextlib.closing(sqlite3.connect(file, timeout=20)) as connection:
        rows = connection.execute('SELECT "key" FROM idempotency_app_idempotencykey')
        return {key for (key,) in rows}
