"""Encryption at rest: what the rows hold, rotation, and a key that is gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet

from idempotency_app.exceptions import Unreadable
from idempotency_app.models import IdempotencyKey
from tests.cases.support import ViewClient, code, is_replay, make_view, values

from .factories import age, claim, make_key

pytestmark = pytest.mark.django_db

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


@pytest.fixture
def keys(settings):
    def use(*keys: str) -> None:
        settings.IDEMPOTENCY_APP = {"ENCRYPTION_KEYS": list(keys)}

    use(OLD)
    return use


@pytest.fixture
def client():
    return ViewClient(make_view())


def raw() -> str:
    """Return the only row as text, every column of it."""
    row = values()
    return str({name: bytes(v) if isinstance(v, memoryview) else v for name, v in row.items()})


def test_no_column_holds_the_body_or_the_location_in_clear(keys, client):
    first = client.send()
    assert "amount" not in raw()
    assert first.headers["Location"] not in raw()


def test_a_retry_gets_the_same_bytes_and_headers(keys, client):
    first, second = client.send(), client.send()
    assert is_replay(second)
    assert second.content == first.content
    assert second.headers["Location"] == first.headers["Location"]


def test_after_a_rotation_old_rows_are_read_and_new_ones_written_with_the_new_key(keys, client):
    client.send("old")
    keys(NEW, OLD)
    assert is_replay(client.send("old"))
    client.send("new")
    keys(NEW)
    assert is_replay(client.send("new"))


@pytest.mark.parametrize("left", [[NEW], []])
def test_with_the_old_key_gone_a_retry_is_told_that_the_response_is_not_kept(
    keys, client, left, caplog
):
    client.send()
    keys(*left)
    refused = client.send()
    assert (refused.status_code, code(refused)) == (409, "response-not-kept")
    assert "ENCRYPTION_KEYS" in caplog.text
    client.send()
    assert IdempotencyKey.objects.get().state == "complete"


def test_rows_from_before_are_replayed_when_encryption_is_switched_on(client, keys, settings):
    settings.IDEMPOTENCY_APP = {}
    client.send()
    keys(OLD)
    assert is_replay(client.send())


def test_a_body_in_clear_that_looks_sealed_is_replayed_as_it_is(keys):
    record = make_key(complete=True, response_body=b"sealed:gAAAA")
    assert record.body == b"sealed:gAAAA"


def with_steps(steps: dict[str, dict[str, Any]]) -> IdempotencyKey:
    record = claim(effects="repeatable").record
    record.save_steps(steps, timedelta(seconds=60))
    age(record, seconds=61)
    return IdempotencyKey.objects.get()


def test_results_of_steps_are_encrypted_and_read_by_the_next_owner(keys):
    record = with_steps({"charge": {"result": "ch_secret"}})
    assert "ch_secret" not in raw()
    taken = claim(record)
    assert taken.won
    assert taken.record.get_steps() == {"charge": {"result": "ch_secret"}}


def test_steps_that_nobody_can_read_are_never_run_again(keys):
    record = with_steps({"charge": {"result": "ch_secret"}})
    keys(NEW)
    assert claim(record).outcome == "outcome_unknown"
    assert record.has_finished_step
    assert not record.settle_as_not_happened()
    with pytest.raises(Unreadable):
        record.get_steps()


def test_an_operator_may_record_the_outcome_of_what_nobody_can_read(keys):
    record = with_steps({"charge": {"result": "ch_secret"}})
    keys(NEW)
    body = b'{"id": 7}'
    assert record.settle(status=201, headers=[], body=body, retention=timedelta(hours=24))
    replayed = claim(record)
    assert replayed.outcome == "replay"
    assert replayed.record.body == body
