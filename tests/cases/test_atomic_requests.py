"""What a project with ATOMIC_REQUESTS lost by the view's opting out, it gets back."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection
from django.test import TestCase
from rest_framework.exceptions import APIException, NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey, State
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

from .support import ViewClient, code, create_order, is_replay, make_bare_view, make_view, row

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("atomic_requests"),
]


def fails(request):
    create_order(request)
    raise APIException


def crashes(request):
    create_order(request)
    raise ValueError


def depth():
    return len(connection.atomic_blocks)


@pytest.mark.parametrize("work", [fails, crashes])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_request_that_fails_rolls_back_its_earlier_writes(work, key):
    response = ViewClient(make_view(work), raises=False).send(key)
    assert (response.status_code, Order.objects.count()) == (500, 0)


@pytest.mark.parametrize("status", [201, 400, 500])
def test_a_request_without_a_key_that_returns_commits_as_under_a_bare_view(status):
    def work(request):
        create_order(request)
        return Response(status=status)

    bare = ViewClient(make_bare_view(work)).send(None).status_code, Order.objects.count()
    Order.objects.all().delete()
    ours = ViewClient(make_view(work)).send(None).status_code, Order.objects.count()
    assert ours == bare == (status, 1)


@pytest.mark.parametrize("policy", [Idempotency(effects=Effects.LOCAL), None])
@pytest.mark.parametrize(("method", "key"), [("post", None), ("get", None), ("get", "k")])
def test_a_request_that_no_key_protects_is_one_transaction(policy, method, key):
    depths = []

    class Checks(BasePermission):
        def has_permission(self, request, view):
            depths.append(depth())
            return True

    def work(request):
        depths.append(depth())
        return Response()

    view = make_view(
        work,
        policy=policy,
        get=lambda self, request: work(request),
        permission_classes=[Checks],
    )
    ViewClient(view).send(key, {}, method=method)
    assert depths == [1, 1]


@pytest.mark.parametrize("effects", [Effects.REPEATABLE, Effects.UNREPEATABLE])
def test_work_with_outside_effects_runs_in_no_transaction(effects):
    depths = []

    def work(request):
        depths.append(depth())
        return Response()

    ViewClient(make_view(work, policy=Idempotency(effects=effects))).send()
    assert depths == [0]


def test_a_switched_off_view_with_a_key_is_one_transaction():
    depths = []

    def work(request):
        depths.append(depth())
        return create_order(request)

    ViewClient(make_view(work, policy=None)).send("k")
    assert depths == [1]


def test_a_key_on_a_method_of_no_policy_is_one_transaction():
    def put(self, request):
        create_order(request)
        raise APIException

    assert ViewClient(make_view(put=put)).send(method="put").status_code == 500
    assert Order.objects.count() == 0


def test_the_claim_is_visible_to_another_connection_before_the_work(threads):
    seen = []

    def work(request):
        seen.append(threads.call(lambda: row().state).result(20))
        return create_order(request)

    ViewClient(make_view(work)).send()
    assert seen == [State.IN_PROGRESS]


def test_a_refusal_of_a_check_rolls_back_what_the_check_wrote():
    class Writes(BasePermission):
        def has_permission(self, request, view):
            Order.objects.create(sku="seen")
            return False

    assert ViewClient(make_view(permission_classes=[Writes])).send(None).status_code == 403
    assert Order.objects.count() == 0


@pytest.mark.parametrize("is_granted", [True, False])
@pytest.mark.row_locks  # SQLite has one write lock, which a replay must not wait for.
def test_with_a_key_the_checks_have_a_transaction_of_their_own(is_granted):
    depths = []

    class Writes(BasePermission):
        def has_permission(self, request, view):
            Order.objects.create(sku="seen")
            depths.append(depth())
            return is_granted

    ViewClient(make_view(lambda request: Response(), permission_classes=[Writes])).send()
    assert (depths, Order.objects.count()) == ([1], int(is_granted))


# No broken transaction.


class Barred(BasePermission):
    def has_permission(self, request, view):
        return False


class Stranger(BasePermission):
    def has_permission(self, request, view):
        raise NotAuthenticated


ENDS = [
    pytest.param({"permission_classes": [Stranger]}, {}, {401, 403}, id="401"),
    pytest.param({"permission_classes": [Barred]}, {}, {403}, id="403"),
    pytest.param({}, {"method": "delete"}, {405}, id="405"),
    pytest.param({}, {"data": b"{", "content_type": "application/json"}, {400}, id="parse error"),
    pytest.param({}, {"data": b"x", "content_type": "text/x"}, {415}, id="415"),
    pytest.param({}, {"headers": {"Accept": "image/x"}}, {406}, id="406"),
    pytest.param({}, {"data": {"amount": "no number"}}, {500}, id="database error"),
    pytest.param({}, {}, {201}, id="success"),
]
KEYS = pytest.mark.parametrize("key", [None, "k", '"malformed', ""])
ENDINGS = pytest.mark.parametrize(("attributes", "sent", "statuses"), ENDS)


def check(attributes, sent, statuses, key):
    client = ViewClient(make_view(**attributes), raises=False)
    response = client.send(key, **sent)
    assert response.status_code in statuses | ({400} if key in ('"malformed', "") else set())
    assert not connection.needs_rollback
    Order.objects.count()


@KEYS
@ENDINGS
def test_no_answer_leaves_a_broken_transaction(attributes, sent, statuses, key):
    check(attributes, sent, statuses, key)
    assert not connection.in_atomic_block


@pytest.mark.django_db
@KEYS
@ENDINGS
def test_no_answer_leaves_a_broken_transaction_under_testcase(attributes, sent, statuses, key):
    check(attributes, sent, statuses, key)


@pytest.mark.django_db
def test_problems_and_replays_leave_no_broken_transaction_under_testcase():
    client = ViewClient(make_view(policy=Idempotency(effects=Effects.LOCAL, required=True)))
    assert code(client.send(None)) == "key-missing"
    assert code(ViewClient(make_view(), user=None).send()) == "account-required"
    assert client.send().status_code == 201
    assert is_replay(client.send())
    assert code(client.send(data={})) == "key-reused"
    assert Order.objects.count() == 1


@pytest.mark.usefixtures("atomic_requests")
class HostProject(TestCase):
    def test_the_writes_before_a_refusal_are_still_there(self):
        Order.objects.create(sku="setup")
        assert ViewClient(make_view(permission_classes=[Barred])).send().status_code == 403
        assert ViewClient(make_view(fails)).send().status_code == 500
        assert ViewClient(make_view(fails)).send(None).status_code == 500
        assert list(Order.objects.values_list("sku", flat=True)) == ["setup"]


def test_a_swallowed_error_without_a_key_is_as_under_a_bare_view():
    def work(request):
        create_order(request)
        with pytest.raises(IntegrityError):
            Order.objects.create(pk=Order.objects.get().pk)
        return Response(status=201)

    bare = ViewClient(make_bare_view(work)).send(None).status_code, Order.objects.count()
    assert (ViewClient(make_view(work)).send(None).status_code, Order.objects.count()) == bare


def test_without_atomic_requests_a_request_without_a_key_has_no_transaction(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", False)
    depths = []

    def work(request):
        depths.append(depth())
        return Response()

    client = ViewClient(make_view(work))
    client.send(None)
    client.send()
    assert depths == [0, 1]
    assert IdempotencyKey.objects.count() == 1
