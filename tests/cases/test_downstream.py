"""The key for the next service: the same for one operation, and another for every other."""

from __future__ import annotations

import itertools
import string
import uuid

import pytest
from rest_framework.response import Response

from idempotency_app.attempts import Attempt
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency

from .support import ALICE, BOB, ViewClient, age, is_replay, make_view

REPEATABLE = Idempotency(effects=Effects.REPEATABLE)
SCOPE = {"account": "auth.user:7", "endpoint": "POST orders/", "key": "k"}


def downstream(name="charge", **changed):
    """Return the downstream key of one row, as it is in the database or not."""
    return Attempt(REPEATABLE.resolve(), IdempotencyKey(**(SCOPE | changed))).downstream_key(name)


def test_the_form_is_pinned():
    """An operation that was begun before a release of ours has to end under the same key."""
    # uuid.uuid5 over ["auth.user:7", "POST orders/", "k", "charge"], as JSON.
    assert downstream() == "257f6c3d-40dd-5d04-a566-26678ed512b5"


def test_it_is_the_text_of_a_uuid():
    assert str(uuid.UUID(downstream())) == downstream()


@pytest.mark.parametrize("scope", [*SCOPE, "name"])
def test_it_differs_with_each_part_of_what_it_is_for(scope):
    assert downstream(**{scope: "another"}) != downstream()


@pytest.mark.parametrize("pair", list(itertools.pairwise([*SCOPE, "name"])))
@pytest.mark.parametrize("mark", ["", ":", "/", '"', '", "', "\x00"])
def test_no_character_moves_from_one_part_to_the_next(pair, mark):
    one, other = pair
    left = downstream(**{one: f"a{mark}b", other: "c"})
    right = downstream(**{one: "a", other: f"b{mark}c"})
    assert left != right


def test_it_does_not_depend_on_the_secret_key(settings):
    before = downstream()
    settings.SECRET_KEY = "the next one"
    assert downstream() == before


def test_it_shows_neither_the_key_nor_the_account():
    shown = downstream(account="acct_5678", key="cafe0123")
    assert set(shown) <= set(string.hexdigits + "-")
    assert "5678" not in shown
    assert "cafe0123" not in shown


def test_without_a_key_it_is_random_for_each_request_and_stable_for_each_name():
    attempts = [Attempt(REPEATABLE.resolve()) for _ in range(2)]
    charge, other = ([one.downstream_key("charge") for _ in range(2)] for one in attempts)
    assert charge[0] == charge[1] == str(uuid.UUID(charge[0]))
    assert charge[0] != other[0]
    assert attempts[0].downstream_key("receipt") != charge[0]


class Provider:
    """Charges once for each key that it is sent."""

    def __init__(self):
        self.sent = []
        self.dies = False

    def charge(self, key):
        self.sent.append(key)
        if self.dies:
            self.dies = False
            raise SystemExit
        return {"id": f"ch_{self.charges}"}

    @property
    def charges(self):
        return len(set(self.sent))


@pytest.fixture
def provider():
    return Provider()


@pytest.fixture(params=["by the step", "by hand"])
def view(request, provider):
    """The view hands its downstream key to the provider, in a step or not."""
    names = {
        "by the step": lambda attempt: attempt.step("charge", provider.charge),
        "by hand": lambda attempt: provider.charge(attempt.downstream_key("charge")),
    }
    return make_view(
        lambda sent: Response(names[request.param](sent.idempotency), status=201),
        policy=REPEATABLE,
    )


@pytest.mark.django_db
def test_b72_a_takeover_sends_the_same_downstream_key(provider, view):
    provider.dies = True
    with pytest.raises(SystemExit):
        ViewClient(view).send("k72")
    age(61)
    second = ViewClient(view).send("k72")
    assert (second.status_code, is_replay(second)) == (201, False)
    assert (len(provider.sent), provider.charges) == (2, 1)


@pytest.mark.django_db
def test_b72_another_account_and_another_key_send_others(provider, view):
    for user, key in ((ALICE, "k72"), (BOB, "k72"), (ALICE, "k73")):
        assert ViewClient(view, user=user).send(key).status_code == 201
    assert provider.charges == 3
    for sent in provider.sent:
        assert (len(sent), sent.isascii()) == (36, True)
        assert "k72" not in sent


@pytest.mark.django_db
def test_b72_another_endpoint_sends_another(provider, view):
    for route in ("orders/", "payments/"):
        ViewClient(view, route=route).send("k72", to=f"/{route}")
    assert provider.charges == 2


@pytest.mark.django_db
def test_b72_a_policy_that_names_its_endpoint_keeps_it_when_the_route_is_renamed(provider):
    view = make_view(
        lambda request: Response(request.idempotency.step("charge", provider.charge)),
        policy=Idempotency(effects=Effects.REPEATABLE, endpoint="payments.create"),
    )
    provider.dies = True
    with pytest.raises(SystemExit):
        ViewClient(view, route="orders/").send("k72")
    age(61)
    assert ViewClient(view, route="payments/").send("k72", to="/payments/").status_code == 200
    assert (len(provider.sent), provider.charges) == (2, 1)


@pytest.mark.django_db
def test_b72_without_a_key_each_request_charges(provider, view):
    for _ in range(2):
        ViewClient(view).send(None)
    assert provider.charges == 2
