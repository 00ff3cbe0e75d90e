from __future__ import annotations

import functools

import pytest
from django.views.decorators.cache import never_cache
from rest_framework.decorators import (
    api_view,
    authentication_classes,
    permission_classes,
    renderer_classes,
)
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from idempotency_app.decorators import idempotent
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import (
    LOCAL,
    ViewClient,
    code,
    create_order,
    is_replay,
    make_bare_view,
    row,
)
from tests.testapp.models import Order

pytestmark = pytest.mark.django_db


@idempotent(effects=Effects.LOCAL)
@api_view(["POST", "GET"])
def payout(request):
    """Pay somebody out."""
    return create_order(request)


def test_a_function_is_made_safe_to_retry():
    client = ViewClient(payout)
    first, second = client.send(), client.send()
    assert (first.status_code, is_replay(second), second.content) == (201, True, first.content)
    assert Order.objects.count() == 1


def test_a_function_keeps_its_name_and_its_description():
    assert payout.cls.__name__ == "payout"
    assert payout.cls.__module__ == __name__
    assert payout.cls.__doc__ == "Pay somebody out."


def test_a_function_sees_its_attempt():
    @idempotent()
    @api_view(["POST"])
    def view(request):
        return Response({"key": request.idempotency.key})

    assert ViewClient(view).send("k-1").json() == {"key": "k-1"}
    assert ViewClient(view).send(None).json() == {"key": None}


def test_a_get_of_a_function_is_left_alone():
    client = ViewClient(payout)
    for _ in range(2):
        assert not is_replay(client.send(method="get", data={}))
    assert IdempotencyKey.objects.count() == 0


@pytest.mark.parametrize(
    "decorate",
    [
        idempotent(required=True, effects=Effects.LOCAL),
        idempotent(Idempotency(required=True, effects=Effects.LOCAL)),
    ],
)
def test_it_takes_a_policy_or_its_fields(decorate):
    client = ViewClient(decorate(api_view(["POST"])(create_order)))
    assert code(client.send(None)) == "key-missing"
    client.send()
    assert row().effects == Effects.LOCAL


def test_what_stands_below_api_view_stays():
    @idempotent()
    @api_view(["POST"])
    @permission_classes([IsAuthenticated])
    @authentication_classes([])
    @renderer_classes([JSONRenderer])
    def view(request):
        return create_order(request)

    assert view.cls.permission_classes == [IsAuthenticated]
    assert view.cls.renderer_classes == [JSONRenderer]
    assert ViewClient(view, user=None).send().status_code in (401, 403)
    assert ViewClient(view, user=None).send(method="put").status_code in (401, 403, 405)


def test_below_api_view_it_says_to_move_it_up():
    with pytest.raises(TypeError, match="above @api_view: move it up"):
        api_view(["POST"])(idempotent()(create_order))


@pytest.mark.parametrize("target", [create_order, 7, make_bare_view()])
def test_on_what_is_no_view_it_says_where_it_belongs(target):
    with pytest.raises(TypeError, match="above @api_view"):
        idempotent()(target)


def test_with_a_decorator_between_it_says_to_move_it_down():
    view = never_cache(api_view(["POST"])(create_order))
    with pytest.raises(TypeError, match="directly above @api_view: move it down"):
        idempotent()(view)


def test_a_decorator_above_it_is_fine():
    def stamped(view):
        @functools.wraps(view)
        def inner(*args, **kwargs):
            response = view(*args, **kwargs)
            response["X-Stamp"] = "s"
            return response

        return inner

    client = ViewClient(stamped(payout))
    client.send()
    second = client.send()
    assert (is_replay(second), second.headers["X-Stamp"]) == (True, "s")


def test_without_its_parentheses_it_says_to_call_it():
    with pytest.raises(TypeError, match=r"@idempotent\(\)"):
        idempotent(api_view(["POST"])(create_order))  # type: ignore[arg-type]


def test_a_wrong_field_is_told_at_import():
    with pytest.raises(TypeError, match="lock_timeout"):
        idempotent(lock_timeout=60)


def test_a_policy_and_fields_together_are_told_at_import():
    with pytest.raises(TypeError, match="policy or"):
        idempotent(LOCAL, required=True)


def test_a_view_class_served_by_as_view_may_be_decorated_too():
    view = idempotent(LOCAL)(make_bare_view().as_view())
    client = ViewClient(view)
    client.send()
    assert is_replay(client.send())


def test_the_initial_arguments_of_as_view_stay():
    class Barred(BasePermission):
        def has_permission(self, request, view):
            return False

    bare = make_bare_view().as_view(permission_classes=[Barred])
    assert ViewClient(idempotent(LOCAL)(bare)).send().status_code == 403


def test_a_viewset_takes_the_mixin_and_not_the_decorator():
    orders = type("Orders", (ViewSet,), {"create": lambda self, request: create_order(request)})
    with pytest.raises(TypeError, match="above @api_view"):
        idempotent(LOCAL)(orders.as_view({"post": "create"}))  # type: ignore[attr-defined]


@pytest.mark.django_db(transaction=True)
def test_a_function_under_atomic_requests_opens_its_own_transaction(monkeypatch):
    from django.db import connection

    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    depths = []

    @idempotent(effects=Effects.LOCAL)
    @api_view(["POST"])
    def view(request):
        depths.append(len(connection.atomic_blocks))
        return create_order(request)

    ViewClient(view).send()
    ViewClient(view).send(None)
    assert depths == [1, 1]
