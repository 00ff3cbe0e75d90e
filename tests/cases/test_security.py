"""Whose answer is it?"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import path
from rest_framework.authentication import TokenAuthentication
from rest_framework.authtoken.models import Token
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

from .support import ALICE, BOB, Gate, ViewClient, create_order, is_replay, make_view, row

pytestmark = pytest.mark.django_db


def test_b27_two_accounts_with_one_key_are_two_operations():
    view = make_view()
    first = ViewClient(view, user=ALICE).send("1")
    second = ViewClient(view, user=BOB).send("1")
    assert (second.status_code, is_replay(second)) == (201, False)
    assert second.json()["id"] != first.json()["id"]


@pytest.mark.parametrize(
    "scopes",
    [
        pytest.param([(ALICE, "/a/", "k"), (BOB, "/a/", "k")], id="account"),
        pytest.param([(ALICE, "/a/", "k"), (ALICE, "/b/", "k")], id="endpoint"),
        pytest.param([(ALICE, "/a/", "k"), (ALICE, "/a/", "K")], id="key"),
    ],
)
def test_b27_each_scope_gets_its_own_answer_again(scopes):
    routes = [path(name, make_view().as_view()) for name in ("a/", "b/")]
    clients = [(ViewClient(routes, user=user), to, key) for user, to, key in scopes]
    first, second = ([client.send(key, to=to) for client, to, key in clients] for _ in range(2))
    assert [r.content for r in second] == [r.content for r in first]
    assert first[0].content != first[1].content
    assert [is_replay(response) for response in first + second] == [False, False, True, True]


@pytest.mark.row_locks  # SQLite's one writer is A
@pytest.mark.django_db(transaction=True)
def test_b27_a_key_that_another_account_holds_is_free(threads):
    gate = Gate()

    def work(request):
        if request.user == ALICE:
            gate.wait()
        return create_order(request)

    view = make_view(work)
    first = threads.call(ViewClient(view, user=ALICE).send, "2")
    gate.await_entry()
    second = ViewClient(view, user=BOB).send("2")
    gate.open()
    assert (second.status_code, is_replay(second)) == (201, False)
    assert first.result(20).json()["id"] != second.json()["id"]


def test_b27_the_organisation_that_a_user_acts_for_can_be_the_account():
    policy = Idempotency(
        effects=Effects.LOCAL, account=lambda request: f"org:{request.headers['X-Org']}"
    )
    client = ViewClient(make_view(policy=policy))
    first = client.send("3", headers={"X-Org": "1"})
    second = client.send("3", headers={"X-Org": "2"})
    assert [is_replay(first), is_replay(second)] == [False, False]
    assert set(IdempotencyKey.objects.values_list("account", flat=True)) == {"org:1", "org:2"}


@pytest.fixture
def users():
    return User.objects.create_user("a"), User.objects.create_user("b")


@pytest.fixture
def tokens(users):
    return {f"T{user.username}": Token.objects.create(user=user).key for user in users}


def bearer(view, token):
    client = ViewClient(view, user=None)
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client


@pytest.fixture
def token_view():
    return make_view(
        authentication_classes=[TokenAuthentication], permission_classes=[IsAuthenticated]
    )


def test_b28_the_callers_of_tokens_are_told_apart(token_view, tokens, users):
    for token in tokens.values():
        assert bearer(token_view, token).send("k28").status_code == 201
    assert set(Order.objects.values_list("account", flat=True)) == {"a", "b"}
    accounts = {f"auth.user:{user.pk}" for user in users}
    assert set(IdempotencyKey.objects.values_list("account", flat=True)) == accounts


def test_b28_a_wrong_token_gets_nothing_of_the_store(token_view, tokens):
    bearer(token_view, tokens["Ta"]).send("k28")
    refused = bearer(token_view, "wrong").send("k28")
    assert (refused.status_code, is_replay(refused)) == (401, False)
    assert b"amount" not in refused.content
    assert IdempotencyKey.objects.count() == 1


def test_a_new_token_of_the_same_user_finds_the_old_ones_answer(token_view, tokens, users):
    bearer(token_view, tokens["Ta"]).send("k28")
    Token.objects.filter(user=users[0]).delete()
    rotated = Token.objects.create(user=users[0])
    assert is_replay(bearer(token_view, rotated.key).send("k28"))


class MayAddOrders(BasePermission):
    def has_permission(self, request, view):
        return request.user.has_perm("testapp.add_order")


@pytest.fixture
def privileged(users, tokens):
    permission = Permission.objects.get(codename="add_order")
    users[0].user_permissions.add(permission)
    return permission


def test_b30_who_lost_the_permission_gets_no_replay(users, tokens, privileged):
    user = users[0]
    view = make_view(
        lambda request: Response(
            {"id": 1, "note": "secret-note"}, status=201, headers={"Location": "/orders/1/"}
        ),
        authentication_classes=[TokenAuthentication],
        permission_classes=[IsAuthenticated, MayAddOrders],
    )
    client = bearer(view, tokens["Ta"])
    client.send("k30")

    user.user_permissions.clear()
    without_permission = client.send("k30")
    User.objects.filter(pk=user.pk).update(is_active=False)
    inactive = client.send("k30")
    User.objects.filter(pk=user.pk).update(is_active=True)
    user.user_permissions.add(privileged)
    restored = client.send("k30")

    assert (without_permission.status_code, inactive.status_code) == (403, 401)
    for refused in (without_permission, inactive):
        assert b"secret-note" not in refused.content
        assert not {"Location", "Idempotent-Replayed"} & set(refused.headers.keys())
    assert (is_replay(restored), restored.json()["id"]) == (True, 1)
    assert len(view.calls) == 1


PRIVATE = {"WWW-Authenticate": "Bearer", "Connection": "close", "Set-Cookie": "raw=ghi789"}


@pytest.mark.parametrize("named", [[], ["Set-Cookie", "WWW-Authenticate", "connection", "DATE"]])
def test_b31_cookies_and_credentials_are_neither_stored_nor_sent_again(named, settings):
    settings.IDEMPOTENCY_APP = {"REPLAY_HEADERS": named}

    def work(request):
        response = Response({}, headers=PRIVATE | {"Date": "today"})
        response.set_cookie("sessionid", "abc123")
        response.set_cookie("csrftoken", "def456")
        return response

    view = make_view(work)
    first, second = ViewClient(view).send("k31"), ViewClient(view).send("k31")
    assert {"sessionid", "csrftoken"} <= set(first.cookies)
    stored = repr([getattr(row(), field.attname) for field in IdempotencyKey._meta.fields])
    assert not [secret for secret in ("abc123", "def456", "ghi789") if secret in stored]
    assert is_replay(second)
    assert not second.cookies
    assert not {*PRIVATE, "Date"} & set(second.headers.keys())
