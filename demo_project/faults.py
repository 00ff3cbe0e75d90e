"""Faults on request, so that the worst moments can be watched: the Demo-... headers.

Honoured only under the setting DEMO_FAULTS. Headers are no part of the fingerprint, so the
same request can be sent with a fault first and without it then.

    Demo-Delay: 1.5                     seconds, inside the work, after its effect
    Demo-Fail: before | after           raise before or after the effect
    Demo-Status: 409                    the work answers with this 4xx or 5xx after its effect
    Demo-Die: before | after-effect | after-save
                                        the worker kills itself (SIGKILL)
    Demo-Lose-Reply: 1                  all is saved; the connection closes unanswered
    Demo-Lock: 3                        seconds until this attempt's lock is stale

The effect of a transfer is its row. That of a charge, a wire and a message is what the network
does, inside a step: "before" is before the step has begun, "after" when the network has answered
and the step's result is not saved. Two more points, for Demo-Fail and Demo-Die, lie there:

    in-step                             the step has begun, the network has not been called
    receipt                             in a charge's second step, before the mail is sent

What comes as Demo-Network-Delay, -Fail, -Status, -Die or -Lose-Reply is passed on to the network
(not to the mailing of a receipt), where it means the same but that "before" and "after" lie in
the network's own work, and that the delay comes after its commit. What a charge or a message
did there is rolled back when it fails; a wire stays.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException

GetResponse = Callable[[HttpRequest], HttpResponseBase]
F = TypeVar("F", bound="Faults")

PREFIX = "Demo-"
NETWORK_PREFIX = "Demo-Network-"
PASSED_ON = ("Delay", "Fail", "Status", "Die", "Lose-Reply")

FAIL_AT = ("before", "in-step", "after", "receipt")
DIE_AT = ("before", "in-step", "after-effect", "receipt", "after-save")

# In seconds. More helps nobody: on SQLite a transfer holds up the others meanwhile.
LONGEST_DELAY = 60
LONGEST_LOCK = 3600


class DemoFailure(Exception):
    """What Demo-Fail raises: say, the payments database is unavailable."""


class DemoAnswer(APIException):
    """What Demo-Status answers."""

    default_detail = "As Demo-Status asks."

    def __init__(self, status: int) -> None:
        """Take the HTTP status."""
        super().__init__()
        self.status_code = status


class MalformedFault(ValueError):
    """A Demo-... header that nobody could follow; says what it takes."""


@dataclass(frozen=True)
class Faults:
    """The faults that one request asks for."""

    delay: float = 0.0
    fail: str = ""
    status: int | None = None
    die: str = ""
    lose_reply: bool = False
    lock: float | None = None

    @classmethod
    def of(cls: type[F], headers: Mapping[str, str], prefix: str = PREFIX) -> F:
        """Read the headers that begin with `prefix`; raises MalformedFault."""
        if not settings.DEMO_FAULTS:
            return cls()
        header = Header(headers, prefix)
        status = header.number("Status", 400, 599)
        return cls(
            delay=header.number("Delay", 0, LONGEST_DELAY) or 0,
            fail=header.choice("Fail", FAIL_AT),
            status=None if status is None else int(status),
            die=header.choice("Die", DIE_AT),
            lose_reply=header.choice("Lose-Reply", ("0", "1")) == "1",
            lock=header.number("Lock", 0.001, LONGEST_LOCK),
        )

    def before_effect(self) -> None:
        """Stand where the work has begun and nothing has happened yet."""
        self.reach("before", "before")

    def in_step(self) -> None:
        """Stand where the step has begun and the network has not been called."""
        self.reach("in-step", "in-step")

    def in_receipt(self) -> None:
        """Stand where the second step has begun and no mail has been sent."""
        self.reach("receipt", "receipt")

    def after_effect(self) -> None:
        """Stand where the effect has happened and the response is not saved.

        The delay is here, so that a worker which outlives its lock has something to lose.
        """
        time.sleep(self.delay)
        self.reach("after-effect", "after")

    def after_save(self, environ: dict[str, Any]) -> None:
        """Stand where everything is committed and no byte has been sent."""
        self.reach("after-save", "after-save")
        if self.lose_reply:
            # A server that offers no socket answers after all.
            connection = environ.get("gunicorn.socket")
            if connection is not None:
                connection.shutdown(socket.SHUT_RDWR)

    def reach(self, dying: str, failing: str) -> None:
        """Die or fail if that is asked for at this point, by the names that it has there."""
        if self.die == dying:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fail == failing:
            raise DemoFailure(f"Demo-Fail: {failing}")
        if self.status is not None and failing == "after":
            raise DemoAnswer(self.status)


class Header:
    """The values of the Demo-... headers, each refused where it means nothing."""

    def __init__(self, headers: Mapping[str, str], prefix: str) -> None:
        """Take a request's headers, and what the names begin with."""
        self.headers = headers
        self.prefix = prefix

    def number(self, name: str, least: float, most: float) -> float | None:
        """Return a number in this range; None where there is no such header."""
        text = self.headers.get(self.prefix + name, "")
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = float("nan")  # Which lies in no range.
        if not least <= number <= most:
            raise MalformedFault(f"{self.prefix}{name} takes a number from {least} to {most}.")
        return number

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices; empty where there is no such header."""
        text = self.headers.get(self.prefix + name, "")
        if text and text not in choices:
            raise MalformedFault(f"{self.prefix}{name} takes {' or '.join(choices)}.")
        return text


def for_network(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that ask the network for what Demo-Network-... asks of it."""
    if not settings.DEMO_FAULTS:
        return {}
    asked = {name: headers.get(NETWORK_PREFIX + name, "") for name in PASSED_ON}
    return {PREFIX + name: value for name, value in asked.items() if value}


def lose_replies(get_response: GetResponse, kind: type[Faults] = Faults) -> GetResponse:
    """Lose the reply, or the whole worker, after everything has been committed.

    A Demo-... header that is malformed is told before anything runs.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        try:
            faults = kind.of(request.headers)
            kind.of(request.headers, NETWORK_PREFIX)
        except MalformedFault as error:
            return JsonResponse({"detail": str(error)}, status=400)
        response = get_response(request)
        faults.after_save(request.META)
        return response

    return middleware
