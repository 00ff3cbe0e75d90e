"""The view that the promises are about: each run of its work writes one Order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib.auth.models import User
from django.db import router
from django.urls import include, path
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

Act = Callable[[], Response | None]

USERS = {"acme": User(pk=1, username="acme"), "globex": User(pk=2, username="globex")}


class Script:
    """What happens to the next requests; without a line in it the work succeeds."""

    def __init__(self) -> None:
        self.runs = 0
        """How often the work has run, rolled back or not."""
        self.acts: list[Act] = []
        """One for each coming run, called once that has written its order; before it does so
        where that is an outside effect."""
        self.acts_after: list[Act] = []
        """The same, called once the outside effect has happened."""
        self.closed = ""
        """The door at which DRF refuses, before the work: its class's name."""

    @contextlib.contextmanager
    def closing(self, door: type) -> Iterator[None]:
        self.closed = door.__name__
        yield
        self.closed = ""


script = Script()


class Authentication(BaseAuthentication):
    def authenticate(self, request: Any) -> Any:
        if script.closed == "Authentication":
            raise AuthenticationFailed
        return USERS[request.headers["Account"]], None

    def authenticate_header(self, request: Any) -> str:
        return "Account"


class Permission(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return script.closed != "Permission"


class Throttle(BaseThrottle):
    def allow_request(self, request: Any, view: Any) -> bool:
        return script.closed != "Throttle"

    def wait(self) -> float:
        return 60


class BareOrderView(APIView):
    """The same view as a project has it before it asks for any promise."""

    authentication_classes = [Authentication]
    permission_classes = [Permission]
    throttle_classes = [Throttle]

    def get(self, request: Any) -> Response:
        return Response({"orders": Order.objects.using(router.db_for_write(Order)).count()})

    def post(self, request: Any) -> Response:
        sku, amount = request.data["sku"], request.data["amount"]
        order = Order.objects.create(sku=sku, amount=amount, account=request.user.username)
        script.runs += 1
        answer = script.acts.pop(0)() if script.acts else None
        return answer or Response(
            {"id": order.pk, "amount": order.amount},
            status=201,
            headers={"Location": f"/orders/{order.pk}/"},
        )


class OrderView(IdempotencyMixin, BareOrderView):
    idempotency = Idempotency(effects=Effects.LOCAL)


class RequiringOrderView(IdempotencyMixin, BareOrderView):
    idempotency = Idempotency(effects=Effects.LOCAL, required=True)


class OffOrderView(IdempotencyMixin, BareOrderView):
    idempotency = None


class BareOutsideOrderView(BareOrderView):
    """The order stands for what happens outside: nothing rolls it back."""

    def post(self, request: Any) -> Response:
        values = {"sku": request.data["sku"], "amount": request.data["amount"]}
        script.runs += 1
        answer = script.acts.pop(0)() if script.acts else None
        if answer:
            return answer
        order = self.make_order(request, account=request.user.username, **values)
        answer = script.acts_after.pop(0)() if script.acts_after else None
        headers = {"Location": f"/orders/{order['id']}/"}
        return answer or Response(order, status=201, headers=headers)

    def make_order(self, request: Any, **values: Any) -> dict[str, Any]:
        order = Order.objects.create(**values)
        return {"id": order.pk, "amount": order.amount}


class RepeatableOrderView(IdempotencyMixin, BareOutsideOrderView):
    idempotency = Idempotency(effects=Effects.REPEATABLE)

    def make_order(self, request: Any, **values: Any) -> Any:
        make = super().make_order
        return request.idempotency.step("order", lambda key: make(request, **values))


class UnrepeatableOrderView(RepeatableOrderView):
    idempotency = Idempotency(effects=Effects.UNREPEATABLE, effects_in_steps=True)


REQUIRED = Idempotency(required=True)


def outside(view: Any) -> Any:
    """Return the routes of a view with outside effects."""
    return include(
        [
            path("orders/", view.as_view()),
            path("required/", view.as_view(idempotency=REQUIRED)),
            path("bare/", BareOutsideOrderView.as_view()),
        ]
    )


urlpatterns = [
    path("repeatable/", outside(RepeatableOrderView)),
    path("unrepeatable/", outside(UnrepeatableOrderView)),
    path("orders/", OrderView.as_view()),
    path("required/", RequiringOrderView.as_view()),
    path("off/", OffOrderView.as_view()),
    path("bare/", BareOrderView.as_view()),
]
