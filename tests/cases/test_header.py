"""Reading the key."""

from __future__ import annotations

import secrets

import pytest
from django.urls import path

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order
from tests.testapp.views import OrderView

from .support import LOCAL, ViewClient, code, create_order, is_replay, make_view

pytestmark = pytest.mark.django_db


def refused(response):
    return (response.status_code, code(response)) == (400, "key-invalid")


@pytest.mark.parametrize(("length", "is_accepted"), [(255, True), (256, False), (8192, False)])
def test_b39_a_key_has_at_most_255_characters(length, is_accepted):
    response = ViewClient(make_view()).send(secrets.token_hex(length)[:length])
    assert response.status_code == 201 if is_accepted else refused(response)
    assert IdempotencyKey.objects.count() == (1 if is_accepted else 0)


def test_b39_the_longest_key_fits_beside_the_longest_endpoint_and_account():
    policy = LOCAL.over(Idempotency(endpoint="é" * 300, account=lambda request: "ü" * 127))
    view = make_view(policy=policy)
    key = secrets.token_hex(128)[:255]
    assert ViewClient(view).send(key).status_code == 201
    assert is_replay(ViewClient(view).send(key))
    assert len(IdempotencyKey.objects.get().endpoint.encode()) <= 255


def test_b39_two_long_keys_that_differ_in_the_last_character_are_two_keys():
    client = ViewClient(make_view())
    key = secrets.token_hex(127)
    client.send(key + "a")
    assert not is_replay(client.send(key + "b"))


@pytest.mark.parametrize(
    "value",
    [
        "a\x00b",
        "a\r\nX-Evil: 1",
        "a\tb",
        "clé".encode().decode("latin-1"),
        "🙂".encode().decode("latin-1"),
        "a\x7fb",
        "a, b",
        "a,b",
        "",
        " ",
    ],
)
def test_b40_what_is_no_visible_ascii_is_refused_and_never_echoed(value):
    view = make_view()
    response = ViewClient(view).send(None, HTTP_IDEMPOTENCY_KEY=value)
    assert refused(response)
    assert "X-Evil" not in response.headers
    assert not [byte for byte in response.content if not 0x20 <= byte < 0x7F]
    assert (len(view.calls), IdempotencyKey.objects.count()) == (0, 0)


@pytest.fixture
def completed():
    client = ViewClient(make_view())
    client.send("k-41")
    return client


@pytest.mark.parametrize("value", ['"k-41"', " k-41 ", "k-41"])
def test_b41_one_key_however_it_is_spelled(completed, value):
    assert is_replay(completed.send(None, HTTP_IDEMPOTENCY_KEY=value))
    assert Order.objects.count() == 1


@pytest.mark.parametrize("value", ['"k-41', '""', '"k-41";v=1', "k\\41", 'k"41'])
def test_b41_what_is_neither_quoted_nor_bare_is_refused(completed, value):
    assert refused(completed.send(None, HTTP_IDEMPOTENCY_KEY=value))


def test_b41_a_quoted_key_may_hold_a_quote(completed):
    response = completed.send(None, HTTP_IDEMPOTENCY_KEY=r'"a\"b"')
    assert (response.status_code, is_replay(response)) == (201, False)
    assert IdempotencyKey.objects.filter(key='a"b').count() == 1


def test_keys_that_differ_in_case_are_two_keys(completed):
    assert not is_replay(completed.send("K-41"))


def test_b44_a_key_on_a_safe_request_does_nothing():
    client = ViewClient(OrderView)
    assert client.send("k44", {}, method="get").json() == []
    client.send(None)
    assert len(client.send("k44", {}, method="get").json()) == 1
    client.send("k44", {}, method="head")
    client.send("k44", {}, method="options")
    assert IdempotencyKey.objects.count() == 0
    assert not is_replay(client.send("k44"))


@pytest.mark.parametrize("method", ["get", "head", "options"])
@pytest.mark.parametrize("key", [None, "", "a\x00b"])
def test_b44_a_view_that_requires_a_key_asks_for_none_on_a_safe_request(method, key):
    view = type("Required", (OrderView,), {"idempotency": Idempotency(required=True)})
    assert ViewClient(view).send(key, {}, method=method).status_code == 200


def test_a_view_that_requires_a_key_says_what_to_send():
    client = ViewClient(make_view(policy=Idempotency(effects=Effects.LOCAL, required=True)))
    response = client.send(None)
    assert (response.status_code, code(response)) == (400, "key-missing")
    assert "Idempotency-Key header" in response.json()["detail"]
    assert IdempotencyKey.objects.count() == 0


def test_methods_beside_post_and_patch_take_part_by_policy():
    def view(policy):
        return make_view(policy=policy, put=lambda self, request: create_order(request)).as_view()

    routes = [
        path("default/", view(LOCAL)),
        path("named/", view(Idempotency(effects=Effects.LOCAL, methods=["put"]))),
    ]
    client = ViewClient(routes)
    replays = {
        (method, to): [is_replay(client.send("k", method=method, to=to)) for _ in range(2)][1]
        for method in ("post", "put")
        for to in ("/default/", "/named/")
    }
    assert replays == {
        ("post", "/default/"): True,
        ("put", "/default/"): False,
        ("post", "/named/"): False,
        ("put", "/named/"): True,
    }
