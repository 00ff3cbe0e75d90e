"""Work with one outside effect, in a step, and what may go wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import PaymentRequired, ViewClient, age, make_view

REPEATABLE = Idempotency(effects=Effects.REPEATABLE)
UNREPEATABLE = Idempotency(effects=Effects.UNREPEATABLE)
IN_STEPS = Idempotency(effects=Effects.UNREPEATABLE, effects_in_steps=True)
POLICIES = {"repeatable": REPEATABLE, "unrepeatable": UNREPEATABLE, "in steps": IN_STEPS}

OTHER_BODY = {"sku": "s1", "amount": 200}
CHARGED = {"charge": {"result": "ch_1"}}

each_outside_effect = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
each_unrepeatable = pytest.mark.parametrize(
    "policy", [UNREPEATABLE, IN_STEPS], ids=["unrepeatable", "in steps"]
)

Fault = Callable[[], Any]


class Network:
    """The other side: charges once for each key, and notes each time that it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def charge(self, key: str) -> str:
        self.asked.append(key)
        return f"ch_{self.charges}"

    @property
    def charges(self) -> int:
        """How often money has moved, where the keys are honoured."""
        return len(set(self.asked))


class Swallowed(Exception):
    """What the project's exception handler turns into a 200."""


def handler(error: Exception, context: Any) -> Response | None:
    if isinstance(error, Swallowed):
        return Response({"swallowed": True})
    return exception_handler(error, context)


def raising(error: BaseException) -> Fault:
    def fault() -> None:
        raise error

    return fault


def answering(status: int) -> Fault:
    return lambda: Response({"status": status}, status=status)


RAISED = {
    "exception": (raising(ValueError("broken")), 500),
    "APIException": (raising(APIException("broken")), 500),
    "raised 400": (raising(ValidationError("wrong")), 400),
    "raised 402": (raising(PaymentRequired("declined")), 402),
    "exception made a 200": (raising(Swallowed()), 200),
}
RETURNED = {f"returned {status}": (answering(status), status) for status in (400, 402, 409, 503)}


def charging(network: Network, fault: Fault | None = None, moment: str = "after") -> Any:
    """Return work that charges in one step; in its first run the fault happens.

    At the moment `before` the step, `in` it when the network has charged, or `after` it.
    """
    faults = {moment: [fault]} if fault else {}

    def happen(now: str) -> Any:
        coming = faults.pop(now, None)
        return coming[0]() if coming else None

    def charge(key: str) -> str:
        charged = network.charge(key)
        happen("in")
        return charged

    def work(request: Any) -> Response:
        if (answer := happen("before")) is not None:
            return answer  # type: ignore[no-any-return]
        charged = request.idempotency.step("charge", charge)
        return happen("after") or Response({"charge": charged}, status=201)

    return work


def make_client(work: Any, policy: Idempotency, *, raises: bool = False, **attributes: Any) -> Any:
    """Return a client of a view that does the work; exceptions become Django's own 500."""
    attributes = {"get_exception_handler": lambda self: handler, **attributes}
    return ViewClient(make_view(work, policy=policy, **attributes), raises=raises)


def left() -> str:
    """Name the state of the only row, or say that there is none."""
    row = IdempotencyKey.objects.first()
    return row.state if row else "deleted"


def die(work: Any, policy: Idempotency, **attributes: Any) -> None:
    """Let the worker be killed in its work, and its lock become stale."""
    with pytest.raises(SystemExit):
        make_client(work, policy, **attributes).send()
    age(61)


def elsewhere(threads: Any, look: Callable[[], Any]) -> Any:
    """Return what another connection sees."""

    def run() -> Any:
        try:
            return look()
        finally:
            connections.close_all()

    return threads.submit(run).result(20)
