"""What a worker of the mayhem does; imported once, by the process that forks them all."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import traceback
from datetime import timedelta
from typing import Any

import django

django.setup()

from django.db import connections  # noqa: E402  # Models need the apps.
from rest_framework.exceptions import ValidationError  # noqa: E402
from rest_framework.response import Response  # noqa: E402

from idempotency_app.policy import Effects, Idempotency  # noqa: E402

from ..cases.support import ViewClient, is_replay, make_view  # noqa: E402
from ..testapp.models import Order  # noqa: E402
from .mayhem import KEYS, Journal  # noqa: E402

LOCK = timedelta(milliseconds=30)
PAST_THE_LOCK = 0.1  # seconds, in which others have the time to take over and to finish
KEYS_AT_ONCE = 10  # that the workers crowd at

POLICIES = {
    "local": Idempotency(effects=Effects.LOCAL, lock_timeout=LOCK),
    "repeatable": Idempotency(effects=Effects.REPEATABLE, lock_timeout=LOCK),
    "unrepeatable": Idempotency(effects=Effects.UNREPEATABLE, lock_timeout=LOCK),
    "in-steps": Idempotency(effects=Effects.UNREPEATABLE, effects_in_steps=True, lock_timeout=LOCK),
}


class Work:
    """A view's work whose effect is a row, or a line that the network writes."""

    def __init__(self, effects: str, journal: Journal, dice: random.Random) -> None:
        """Take what decides on its faults."""
        self.effects = effects
        self.journal = journal
        self.dice = dice

    def __call__(self, request: Any) -> Response:
        """Do it, or fail before, in or after the effect."""
        self.journal.note("run", request.idempotency.key)
        self.stumble(request)
        if self.effects == "local":
            Order.objects.create(sku=request.idempotency.key)
            self.stumble(request)
            return Response(status=201)
        charged = request.idempotency.step("charge", lambda key: self.charge(request, key))
        self.stumble(request)
        # A second step, which finds the first one finished where it fails.
        request.idempotency.step("receipt", lambda key: self.stumble(request))
        return Response({"charge": charged}, status=201)

    def charge(self, request: Any, downstream_key: str) -> str:
        self.stumble(request)
        self.journal.note("effect", request.idempotency.key, downstream_key)
        self.stumble(request)
        return downstream_key

    def stumble(self, request: Any) -> None:
        """Go on, sleep past the lock, fail, or die with the whole process."""
        fate = self.dice.random()
        if fate < 0.15:
            time.sleep(PAST_THE_LOCK)
        elif fate < 0.20:
            self.journal.note("failed", request.idempotency.key)
            raise ValueError
        elif fate < 0.25:
            self.journal.note("refused", request.idempotency.key)
            raise ValidationError
        elif fate < 0.28:
            self.journal.note("killed", request.idempotency.key)
            os.kill(os.getpid(), signal.SIGKILL)


def run(database: str, effects: str, journal: Journal, seed: int, threads: int) -> None:
    """Run the threads, and note what must not be."""
    connections.settings["default"]["NAME"] = database

    def serve(number: int) -> None:
        try:
            send_all(effects, journal, random.Random(seed * threads + number))
        except BaseException:
            journal.note("error", "-", *traceback.format_exc().split())
        finally:
            connections.close_all()

    workers = [threading.Thread(target=serve, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def send_all(effects: str, journal: Journal, dice: random.Random) -> None:
    """Be the clients of every key, a few at a time, until each has its answer."""
    view = make_view(Work(effects, journal, dice), policy=POLICIES[effects])
    client = ViewClient(view, raises=False)
    open_keys = list(KEYS)
    while open_keys:
        key = dice.choice(open_keys[:KEYS_AT_ONCE])
        response = client.send(key)
        code = response.json()["code"] if response.status_code in (409, 503) else ""
        journal.note("told", key, response.status_code, code or "-", is_replay(response))
        # The first answer says less than a replay: it may be a failure that was not recorded.
        if is_replay(response) or code == "outcome-unknown":
            open_keys.remove(key)
        elif code:
            time.sleep(dice.random() * 0.01)  # As a client waits after a 409.
