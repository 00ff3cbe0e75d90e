"""Metrics: what is counted, what is asked of the database, and the file for cron."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from prometheus_client import REGISTRY, generate_latest

from idempotency_app.models import IdempotencyKey
from tests.cases.support import ViewClient, make_view

from .factories import claim, make_key

pytestmark = pytest.mark.django_db(transaction=True)

ENDPOINT = "POST metered/"


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def counted(outcome: str, endpoint: str = ENDPOINT) -> float:
    return value("idempotency_outcomes_total", outcome=outcome, endpoint=endpoint)


def test_each_outcome_is_counted_once_by_endpoint():
    before = {name: counted(name) for name in ("claimed", "completed", "replayed", "mismatched")}
    client = ViewClient(make_view(), route="metered/")
    client.send(to="/metered/")
    client.send(to="/metered/")
    client.send(to="/metered/", data={"sku": "s1", "amount": 9})
    assert {name: counted(name) - was for name, was in before.items()} == dict.fromkeys(before, 1)


def test_the_work_is_timed_once():
    before = value("idempotency_work_seconds_count", endpoint=ENDPOINT)
    client = ViewClient(make_view(), route="metered/")
    client.send(to="/metered/")
    client.send(to="/metered/")
    assert value("idempotency_work_seconds_count", endpoint=ENDPOINT) - before == 1


def test_a_conflict_is_counted_under_its_own_outcome():
    record = make_key(endpoint=ENDPOINT)
    before = counted("in_progress")
    claim(record)
    assert counted("in_progress") - before == 1


def test_the_gauges_are_the_database_s_and_the_oldest_has_an_age():
    make_key()
    make_key(stale=True)
    make_key(unresolved=True)
    make_key(complete=True)
    assert value("idempotency_in_flight_keys") == 1
    assert value("idempotency_stale_keys") == 2
    assert value("idempotency_unresolved_keys") == 1
    assert 60 <= value("idempotency_oldest_stale_seconds") < 3600


def test_an_empty_table_has_zeros():
    assert value("idempotency_stale_keys") == 0
    assert value("idempotency_oldest_stale_seconds") == 0


def test_reaped_keys_are_counted():
    make_key(expired=True)
    before = value("idempotency_reaped_total")
    IdempotencyKey.objects.reap()
    assert value("idempotency_reaped_total") - before == 1


def test_no_metric_names_a_key_or_an_account():
    ViewClient(make_view(), route="metered/").send("the-key-itself", to="/metered/")
    text = generate_latest(REGISTRY).decode()
    assert "the-key-itself" not in text
    assert "auth.user" not in text


def test_cron_writes_the_gauges_to_a_file(tmp_path):
    make_key(stale=True)
    path = tmp_path / "idempotency.prom"
    call_command("write_idempotency_metrics", str(path))
    assert "idempotency_stale_keys 1.0" in path.read_text()
