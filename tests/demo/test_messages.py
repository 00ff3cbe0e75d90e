"""The contact form, live: anybody may write, and the network sends the mail."""

from __future__ import annotations

import httpx
import pytest

from .live import MESSAGE, LiveDemo, code, is_replay

OTHER = MESSAGE | {"text": "Thank you, it has come."}


@pytest.fixture
def mailed(live_demo: LiveDemo):
    """How many mails have been sent since the test began, whoever asks."""
    before = live_demo.counts("bob-token")["messages"]
    return lambda: live_demo.counts("bob-token")["messages"] - before


def test_a_message_without_a_token_is_mailed_once_and_its_retry_gets_the_first_answer(
    live_demo: LiveDemo, key: str, mailed
) -> None:
    before = live_demo.counts()["requests"]
    first, retry = live_demo.write(key), live_demo.write(key)
    assert (first.status_code, is_replay(first)) == (201, False)
    assert first.json() | MESSAGE == first.json()
    assert is_replay(retry)
    assert retry.content == first.content
    assert mailed() == 1
    assert live_demo.counts()["requests"] - before == 2


def test_two_people_who_write_under_one_key_do_not_get_each_others_answer(
    live_demo: LiveDemo, key: str, mailed
) -> None:
    live_demo.write(key)
    other = live_demo.write(key, OTHER)
    assert (other.status_code, code(other)) == (422, "key-reused")
    assert mailed() == 1


def test_a_message_without_a_key_is_mailed_each_time(live_demo: LiveDemo, mailed) -> None:
    assert [live_demo.write(None).status_code for _ in range(2)] == [201, 201]
    assert mailed() == 2


def test_s11_a_worker_that_dies_after_the_mail_mails_once(
    live_demo: LiveDemo, key: str, mailed
) -> None:
    with pytest.raises(httpx.TransportError):
        live_demo.write(key, die="after-effect")
    live_demo.age(key, seconds=61)
    retry = live_demo.write(key)
    assert (retry.status_code, is_replay(retry)) == (201, False)
    assert mailed() == 1


def test_s19_a_reply_that_is_lost_leaves_one_message(live_demo: LiveDemo, key: str, mailed) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        live_demo.write(key, lose_reply=1)
    assert is_replay(live_demo.write(key))
    assert mailed() == 1


@pytest.mark.parametrize("fields", [{"email": "nobody"}, {"text": ""}])
def test_a_message_that_is_refused_is_not_mailed(
    live_demo: LiveDemo, key: str, mailed, fields
) -> None:
    assert live_demo.write(key, MESSAGE | fields).status_code == 400
    assert mailed() == 0
    assert live_demo.write(key).status_code == 201
