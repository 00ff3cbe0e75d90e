from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.test.utils import isolate_apps
from django.urls import include, path, re_path
from rest_framework.test import APIRequestFactory, force_authenticate

from idempotency_app.identity import fitted, user_account
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Idempotency
from tests.cases.support import ALICE, LOCAL, ViewClient, code, is_replay, make_view, row

pytestmark = pytest.mark.django_db


with isolate_apps("tests.testapp"):

    class ProxyUser(User):
        class Meta:
            proxy = True
            app_label = "testapp"


class TokenUser:
    """A user that is no model, as simplejwt has one."""

    is_authenticated = True

    def __init__(self, pk):
        self.pk = pk


class Partner(TokenUser):
    pass


@pytest.mark.parametrize(
    ("user", "account"),
    [
        (User(pk=7), "auth.user:7"),
        (User(pk=0), "auth.user:0"),
        (ProxyUser(pk=7), "auth.user:7"),
        (TokenUser(7), f"{__name__}.TokenUser:7"),
        (TokenUser("e7"), f"{__name__}.TokenUser:e7"),
        (TokenUser(None), None),
        (User(), None),
        (AnonymousUser(), None),
        (None, None),
        (SimpleNamespace(is_authenticated=True), None),
    ],
)
def test_the_account_is_the_acting_user(user, account):
    assert user_account(user) == account


def test_two_kinds_of_users_with_one_number_are_two_accounts():
    view = make_view()
    for user in (User(pk=7), TokenUser(7), Partner(7)):
        assert not is_replay(ViewClient(view, user=user).send())
    assert len(set(IdempotencyKey.objects.values_list("account", flat=True))) == 3


def test_a_user_and_its_proxy_are_one_account():
    view = make_view()
    ViewClient(view, user=User(pk=7)).send()
    assert is_replay(ViewClient(view, user=ProxyUser(pk=7)).send())


@pytest.mark.parametrize("user", [None, User(), TokenUser(None)])
def test_a_caller_without_an_account_is_refused(user):
    view = make_view()
    response = ViewClient(view, user=user).send()
    assert (response.status_code, code(response)) == (400, "account-required")
    assert (view.calls, IdempotencyKey.objects.count()) == ([], 0)


@pytest.mark.parametrize("user", [None, User()])
def test_a_caller_without_an_account_may_come_without_a_key(user):
    assert ViewClient(make_view(), user=user).send(None).status_code == 201


@pytest.mark.parametrize("by", ["policy", "setting"])
def test_callers_without_an_account_may_share_one(by, settings):
    settings.IDEMPOTENCY_APP = {"ANONYMOUS": "share"} if by == "setting" else {}
    policy = LOCAL.over(Idempotency(anonymous="share")) if by == "policy" else LOCAL
    client = ViewClient(make_view(policy=policy), user=None)
    client.send()
    assert is_replay(client.send())
    assert row().account == "anonymous:"


def of(account):
    """Return the policy of a project whose callable gives this account."""
    return LOCAL.over(Idempotency(account=lambda request: account))


@pytest.mark.parametrize("account", ["tenant:7", "ü" * 127, "x" * 255, "名", " a b ", "Anonymous:"])
def test_an_account_is_stored_as_the_project_names_it(account):
    ViewClient(make_view(policy=of(account))).send()
    assert row().account == account


def test_the_projects_callable_may_say_that_there_is_no_account():
    assert code(ViewClient(make_view(policy=of(None))).send()) == "account-required"
    shared = of(None).over(Idempotency(anonymous="share"))
    assert ViewClient(make_view(policy=shared)).send().status_code == 201
    assert row().account == "anonymous:"


@pytest.mark.parametrize(
    "account",
    [
        pytest.param("", id="empty"),
        pytest.param("x" * 256, id="too long"),
        pytest.param("ü" * 128, id="too long in bytes"),
        pytest.param(7, id="a number"),
        pytest.param(b"tenant", id="bytes"),
        pytest.param(User(pk=7), id="a user"),
        pytest.param(0, id="zero"),
        pytest.param(False, id="false"),
        pytest.param("anonymous:", id="reserved"),
        pytest.param("anonymous:7", id="begins as reserved"),
        pytest.param("consumer:deposits", id="the consumers'"),
        pytest.param("a\x00b", id="NUL"),
        pytest.param("a\nb", id="new line"),
        pytest.param("a\x7fb", id="DEL"),
        pytest.param("a\x85b", id="C1"),
        pytest.param("a\ud800b", id="lone surrogate"),
        pytest.param("a\u202eb", id="turns the text around"),
    ],
)
def test_an_account_that_is_none_is_refused_loudly(account):
    view = make_view(policy=of(account))
    with pytest.raises(ImproperlyConfigured, match="names the account"):
        ViewClient(view).send()
    assert (view.calls, IdempotencyKey.objects.count()) == ([], 0)


@pytest.mark.parametrize("pk", ["x" * 300, "a\x00b", "a\nb"])
def test_a_users_own_name_that_is_no_account_is_refused_as_loudly(pk):
    view = make_view()
    with pytest.raises(ImproperlyConfigured, match="names the account"):
        ViewClient(view, user=TokenUser(pk)).send()
    assert (view.calls, IdempotencyKey.objects.count()) == ([], 0)


def test_a_view_may_name_the_account_itself():
    view = make_view(get_idempotency_account=lambda self: f"view:{self.request.user.pk}")
    ViewClient(view).send()
    assert row().account == "view:1"


# Endpoints.


@pytest.mark.parametrize(
    ("route", "to", "endpoint"),
    [
        (path("orders/", make_view().as_view()), "/orders/", "POST orders/"),
        (path("o/<int:pk>/pay/", make_view().as_view()), "/o/7/pay/", "POST o/<int:pk>/pay/"),
        (re_path(r"^o/(?P<pk>\d+)$", make_view().as_view()), "/o/7", r"POST ^o/(?P<pk>\d+)$"),
        (
            path("v1/", include([path("orders/", make_view().as_view())])),
            "/v1/orders/",
            "POST v1/orders/",
        ),
    ],
)
def test_the_endpoint_is_method_and_route(route, to, endpoint):
    assert ViewClient([route]).send(to=to).status_code == 201
    assert row().endpoint == endpoint


@pytest.mark.parametrize(("length", "is_cut"), [(255, False), (256, True), (1000, True)])
def test_an_endpoint_that_is_too_long_ends_in_its_sha_256(length, is_cut):
    endpoint = "POST " + "é" * ((length - 5) // 2) + "x" * ((length - 5) % 2)
    assert len(endpoint.encode()) == length
    stored = fitted(endpoint)
    assert stored == endpoint if not is_cut else stored.endswith(digest(endpoint))
    assert 253 <= len(stored.encode()) <= 255
    assert endpoint.startswith(stored[:90])


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_two_long_routes_that_differ_in_the_end_are_two_endpoints():
    names = ["o" * 300 + end for end in ("a/", "b/")]
    client = ViewClient([path(name, make_view().as_view()) for name in names])
    assert [is_replay(client.send(to=f"/{name}")) for name in names] == [False, False]
    assert is_replay(client.send(to=f"/{names[0]}"))


def named(name):
    return LOCAL.over(Idempotency(endpoint=name))


def test_a_named_endpoint_survives_a_new_route():
    view = make_view(policy=named("orders.create"))
    old = ViewClient(view, route="orders/<int:pk>/")
    new = ViewClient(view, route="v2/orders/<int:pk>/")
    old.send(to="/orders/7/")
    assert row().endpoint == "orders.create"
    assert is_replay(new.send(to="/v2/orders/7/"))


def test_the_urls_arguments_count_where_the_endpoint_has_a_name():
    client = ViewClient(make_view(policy=named("orders.pay")), route="orders/<int:pk>/")
    client.send(to="/orders/7/")
    assert code(client.send(to="/orders/8/")) == "key-reused"


def test_a_route_without_a_name_is_another_endpoint_once_it_moves():
    view = make_view()
    ViewClient(view).send()
    assert not is_replay(ViewClient(view, route="v2/orders/").send(to="/v2/orders/"))


def test_without_a_resolver_match_the_views_name_stands_for_the_route():
    view = make_view()
    request = APIRequestFactory().post("/", {}, headers={"Idempotency-Key": "k"})
    force_authenticate(request, user=ALICE)
    assert view.as_view()(request).status_code == 201
    assert row().endpoint == f"POST {view.__module__}.{view.__qualname__}"


def test_a_view_may_name_the_endpoint_itself():
    view = make_view(get_idempotency_endpoint=lambda self: "mine")
    ViewClient(view).send()
    assert row().endpoint == "mine"


def test_a_view_may_take_the_key_from_elsewhere():
    view = make_view(get_idempotency_key=lambda self: self.request.data.get("reference"))
    client = ViewClient(view)
    client.send(None, {"reference": "r-1"})
    assert is_replay(client.send(None, {"reference": "r-1"}))
    assert row().key == "r-1"


def test_a_view_may_say_what_counts_as_the_same_request():
    view = make_view(get_idempotency_fingerprint=lambda self: "0" * 64)
    client = ViewClient(view)
    client.send()
    assert is_replay(client.send(data={"amount": 7}))


@pytest.mark.parametrize("key", ["", "k" * 256, "é", "a b"])
def test_a_key_that_a_view_makes_up_has_to_be_one_too(key):
    view = make_view(get_idempotency_key=lambda self: key)
    assert code(ViewClient(view).send(None)) == "key-invalid"


def test_an_account_that_a_view_makes_up_has_to_be_one_too():
    view = make_view(get_idempotency_account=lambda self: "consumer:7")
    with pytest.raises(ImproperlyConfigured, match="names the account"):
        ViewClient(view).send()
