"""What the tests of the request path share: a view that counts, its client, and its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connections
from django.db.models import F
from django.urls import URLPattern, URLResolver, path
from rest_framework.exceptions import APIException
from rest_framework.response import Response
from rest_framework.test import APIClient, ForceAuthClientHandler
from rest_framework.views import APIView

from idempotency_app.fields import DatabaseNow
from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.models import IdempotencyKey, State
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

LOCAL = Idempotency(effects=Effects.LOCAL)
BODY = {"sku": "s1", "amount": 100}

# Unsaved: a test that does not speak of users needs no rows of theirs.
ALICE = User(pk=1, username="alice")
BOB = User(pk=2, username="bob")

WAIT = 20  # seconds until a test that hangs fails; no test takes that long


def create_order(request: Any, /, **kwargs: Any) -> Response:
    """Write one order and answer with it: what the cases call the view under test."""
    amount = request.data.get("amount", 0)
    order = Order.objects.create(sku="s1", amount=amount, account=str(request.user))
    data = {"id": order.pk, "amount": amount}
    return Response(data, status=201, headers={"Location": f"/orders/{order.pk}/"})


class PaymentRequired(APIException):
    status_code = 402


def returning(status: int) -> Callable[..., Response]:
    """Return work that writes an order and returns a response with this status."""

    def work(request: Any) -> Response:
        create_order(request)
        return Response({"status": status}, status=status)

    return work


def raising(error: BaseException) -> Callable[..., Response]:
    """Return work that writes an order and raises."""

    def work(request: Any) -> Response:
        create_order(request)
        raise error

    return work


def make_view(
    work: Callable[..., Any] = create_order,
    *,
    policy: Idempotency | None = LOCAL,
    bases: tuple[type, ...] = (IdempotencyMixin, APIView),
    **attributes: Any,
) -> Any:
    """Return a new view class whose POST notes its run in `calls` and then does the work."""
    calls: list[str] = []

    def post(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(request.method)
        return work(request, *args, **kwargs)

    return type(
        "OrderView", bases, {"calls": calls, "post": post, "idempotency": policy} | attributes
    )


def make_bare_view(work: Callable[..., Any] = create_order, **attributes: Any) -> Any:
    """Return the same view without the mixin."""
    return make_view(work, bases=(APIView,), **attributes)


class Routes:
    """A URLconf of its own, for one client."""

    def __init__(self, urlpatterns: list[URLPattern | URLResolver]) -> None:
        self.urlpatterns = urlpatterns


class Handler(ForceAuthClientHandler):
    """Serve one URLconf; the settings' is for the rest of the suite."""

    routes: Routes

    def get_response(self, request: Any) -> Any:
        request.urlconf = self.routes
        return super().get_response(request)


class ViewClient(APIClient):
    """A client of one view at /orders/, or of a list of routes, that sends keys."""

    def __init__(
        self, view: Any, *, user: Any = ALICE, route: str = "orders/", raises: bool = True
    ) -> None:
        super().__init__(raise_request_exception=raises)
        served: Any = view.as_view() if hasattr(view, "as_view") else view
        self.handler = Handler(enforce_csrf_checks=False)
        self.handler.routes = Routes(served if isinstance(served, list) else [path(route, served)])
        self.force_authenticate(user)

    def send(
        self,
        key: str | None = "k",
        data: Any = None,
        *,
        method: str = "post",
        to: str = "/orders/",
        headers: dict[str, str] | None = None,
        **extra: Any,
    ) -> Any:
        """Send BODY, or `data`, under the key; None sends none."""
        keyed = {} if key is None else {"Idempotency-Key": key}
        body = BODY if data is None else data
        return getattr(self, method)(to, body, headers={**keyed, **(headers or {})}, **extra)


def is_replay(response: Any) -> bool:
    return bool(response.headers.get("Idempotent-Replayed") == "true")


def code(response: Any) -> str:
    """Return what a problem is called."""
    assert response.headers["Content-Type"] == "application/problem+json"
    return str(response.json()["code"])


def row() -> IdempotencyKey:
    """Return the only row."""
    return IdempotencyKey.objects.get()


def values() -> dict[str, Any]:
    """Return the only row's columns."""
    return dict(IdempotencyKey.objects.values().get())


def age(seconds: float) -> None:
    """Let every row have been claimed, and given its times, so many seconds earlier."""
    moved = timedelta(seconds=seconds)
    IdempotencyKey.objects.update(
        **{
            name: F(name) - moved
            for name in ("locked_at", "locked_until", "created_at", "expires_at", "remember_until")
        }
    )


def orphan(seconds_ago: float = 0, lock: float = 60) -> IdempotencyKey:
    """Turn the recorded row into what a worker leaves that claimed it then and was killed."""
    begun = DatabaseNow() - timedelta(seconds=seconds_ago)
    Order.objects.all().delete()
    IdempotencyKey.objects.update(
        state=State.IN_PROGRESS,
        locked_at=begun,
        locked_until=DatabaseNow() + timedelta(seconds=lock - seconds_ago),
        response_status=None,
        response_headers=None,
        response_body=None,
    )
    return row()


class Gate:
    """A place in the work where a request waits until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def wait(self) -> None:
        """Say that the work has come here, and wait to be let through."""
        self.entered.set()
        assert self.opened.wait(WAIT)

    def await_entry(self) -> None:
        """Wait until the work has come here."""
        assert self.entered.wait(WAIT)

    def open(self) -> None:
        self.opened.set()


class Threads(ThreadPoolExecutor):
    """Threads with one connection each, which they close in the end."""

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Begin the call and return its future."""

        def run() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                connections.close_all()

        return self.submit(run)

    def all(self, function: Callable[[int], Any], count: int) -> list[Any]:
        """Call the function with 0 to count - 1, all at once, and return what they return."""
        barrier = threading.Barrier(count)

        def run(number: int) -> Any:
            barrier.wait(WAIT)
            return function(number)

        return [future.result(WAIT) for future in [self.call(run, n) for n in range(count)]]
