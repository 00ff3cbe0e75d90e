"""The seeded keys: each is met by the very request that its name stands for."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from demo_project.models import Tenant
from demo_project.seed_keys import CHARGE, TRANSFER, WIRE, seed_keys
from idempotency_app.models import IdempotencyKey

from .live import ROOT, environment

pytestmark = [pytest.mark.django_db, pytest.mark.urls("demo_project.urls")]

# What has to be the same each time, and not the times, tokens and password hashes.
LOOK = (
    "SELECT id, key, state, effects, steps, fingerprint FROM idempotency_app_idempotencykey",
    "SELECT id, username FROM auth_user",
    "SELECT id, slug FROM demo_project_tenant",
    "SELECT id, network_id FROM demo_project_charge",
    "SELECT id FROM demo_project_transfer",
    "SELECT key, user_id FROM authtoken_token",
)


@pytest.fixture
def seeded() -> Tenant:
    tenant = Tenant.objects.create(slug="acme")
    seed_keys()
    return tenant


@pytest.fixture
def post(seeded: Tenant) -> Any:
    user = User.objects.create(username="alice")

    def post(key: str, path: str, body: dict[str, Any]) -> Any:
        client = APIClient(headers={"Idempotency-Key": key})
        client.force_authenticate(user, token=cast(Any, seeded))
        return client.post(path, body)

    return post


@pytest.mark.usefixtures("seeded")
def test_there_is_a_key_in_each_state() -> None:
    keys = IdempotencyKey.objects
    found = {
        name: [row.key for row in getattr(keys, name)()]
        for name in ("in_flight", "unresolved", "expired")
    }
    assert found == {
        "in_flight": ["seed-in-flight"],
        "unresolved": ["seed-unknown"],
        "expired": ["seed-expired"],
    }
    assert {row.key for row in keys.stale()} == {"seed-stale", "seed-unknown"}
    assert keys.filter(key="seed-complete", state="complete").exists()


def test_the_complete_key_is_replayed(post) -> None:
    response = post("seed-complete", "/api/charges/", CHARGE)
    assert (response.status_code, response["Idempotent-Replayed"]) == (201, "true")
    assert response.json()["network_id"] == "ch_seed-complete"


def test_the_key_in_flight_is_told_to_wait(post) -> None:
    response = post("seed-in-flight", "/api/transfers/", TRANSFER)
    assert (response.status_code, response.json()["code"]) == (409, "in-progress")


def test_the_stale_key_is_taken_over(post) -> None:
    response = post("seed-stale", "/api/transfers/", TRANSFER)
    assert response.status_code == 201
    assert "Idempotent-Replayed" not in response


def test_the_unknown_key_is_held(post) -> None:
    response = post("seed-unknown", "/api/wires/", WIRE)
    assert (response.status_code, response.json()["code"]) == (409, "outcome-unknown")


def test_the_expired_key_is_as_good_as_new(post, monkeypatch: pytest.MonkeyPatch) -> None:
    # Port 1 is nobody's; that it was called shows that the work runs.
    monkeypatch.setenv("PORT", "0")
    assert post("seed-expired", "/api/charges/", CHARGE).status_code == 503


def test_the_demos_own_database_is_the_same_after_each_start(tmp_path: Path) -> None:
    file = tmp_path / "demo.sqlite3"
    manage(tmp_path, "migrate")
    manage(tmp_path, "seed_demo")
    first = [run(file, look) for look in LOOK]
    run(file, "UPDATE idempotency_app_idempotencykey SET key = key || '-changed'")
    run(file, "DELETE FROM authtoken_token")
    manage(tmp_path, "seed_demo")
    assert [run(file, look) for look in LOOK] == first
    assert len(first[0]) == 5


def manage(var: Path, *arguments: str, settings: str = "demo_project.settings") -> None:
    """Run a command of the demo on its own SQLite file."""
    subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(port=0, var=var) | {"DJANGO_SETTINGS_MODULE": settings},
        check=True,
        capture_output=True,
    )


def run(file: Path, sql: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        return connection.execute(sql).fetchall()


def test_the_networks_migrations_are_complete(tmp_path: Path) -> None:
    arguments = ("makemigrations", "--check", "--dry-run")
    manage(tmp_path, *arguments, settings="demo_project.network.settings")
