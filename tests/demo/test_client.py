"""What the demo answers where the card network does not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from demo_project.models import Tenant
from demo_project.network import client
from idempotency_app.models import IdempotencyKey

from .live import CHARGE, WIRE, two_free_ports

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("demo_project.urls"),
]


@pytest.fixture
def api() -> APIClient:
    api = APIClient(headers={"Idempotency-Key": "k"})
    tenant = Tenant.objects.create(slug="acme")
    api.force_authenticate(User.objects.create(username="alice"), token=cast(Any, tenant))
    return api


@pytest.fixture
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", str(two_free_ports()))


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Somebody who takes every call and says nothing; the client waits for 0.2 seconds."""
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    client.client.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PORT", str(server.getsockname()[1] - 1))
        yield server
    client.client.cache_clear()


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.parametrize(("path", "body"), [("/api/charges/", CHARGE), ("/api/wires/", WIRE)])
def test_what_found_nobody_is_a_503_and_its_key_is_as_if_it_had_never_been(api, path, body) -> None:
    response = api.post(path, body)
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert not IdempotencyKey.objects.exists()


@pytest.mark.usefixtures("nobody_listens")
def test_a_charge_that_finds_nobody_on_its_retry_stays_an_open_question(api, monkeypatch) -> None:
    with monkeypatch.context() as network:
        network.setattr(client.CardNetwork, "post", fails_without_an_answer)
        assert api.post("/api/charges/", CHARGE).status_code == 502
    assert api.post("/api/charges/", CHARGE).status_code == 503
    assert IdempotencyKey.objects.waiting().count() == 1


def fails_without_an_answer(*args: object) -> None:
    raise client.NetworkFailed


@pytest.mark.usefixtures("nobody_listens")
def test_counts_without_a_network_are_a_503(api) -> None:
    assert api.get("/api/counts/").status_code == 503


@pytest.mark.usefixtures("listener")
@pytest.mark.parametrize(("path", "body"), [("/api/charges/", CHARGE), ("/api/wires/", WIRE)])
def test_a_call_has_a_time_limit_and_says_that_its_end_is_not_known(api, path, body) -> None:
    begun = time.monotonic()
    response = api.post(path, body)
    assert response.status_code == 502
    assert "it is not known" in response.data["detail"]
    assert time.monotonic() - begun < 5


@pytest.mark.usefixtures("listener")
def test_a_wire_without_an_answer_is_not_sent_again(api) -> None:
    first, retry = api.post("/api/wires/", WIRE), api.post("/api/wires/", WIRE)
    assert (retry.status_code, retry.content) == (502, first.content)
    assert retry["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"json": {"code": "in-progress"}}, client.NetworkBusy),
        ({"json": {"code": "key-expired"}}, client.NetworkFailed),
        ({"json": ["in-progress"]}, client.NetworkFailed),
        ({"content": b"conflict"}, client.NetworkFailed),
    ],
)
def test_only_a_duplicate_of_a_call_at_work_is_told_to_come_again(content, error) -> None:
    with pytest.raises(error):
        client.answer(httpx.Response(409, **content))
