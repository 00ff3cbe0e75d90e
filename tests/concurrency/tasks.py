"""What a thread of the crowd does; imported in its processes, once Django is set up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import connection, transaction

from idempotency_app import sql
from idempotency_app.exceptions import LockLost
from idempotency_app.models import IdempotencyKey

from ..factories import claim
from ..testapp.models import Order
from .crowd import THREADS

LOCK = timedelta(milliseconds=30)
KEYS_A_MEETING = 4  # To meet costs more than to claim.


def race(
    meet: Callable[[], Any],
    thread: int,
    keys: Sequence[str],
    weakness: str = "",
    isolation: str = "",
) -> list[tuple[str, str]]:
    """Claim the keys together with everybody else; return what came of each."""
    dice = random.Random(thread)

    def dawdle(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        # A claim is too quick to be overtaken between its statements on a machine with few
        # cores, so each statement comes a little late.
        time.sleep(dice.random() * 0.001)
        return execute(sql, params, many, context)

    if thread % THREADS == 0:
        weaken(weakness)
    found = []
    with connection.cursor() as cursor:
        if isolation:
            characteristics = "CHARACTERISTICS AS " if connection.vendor == "postgresql" else ""
            cursor.execute(
                f"SET SESSION {characteristics}TRANSACTION ISOLATION LEVEL {isolation.upper()}"
            )
    with connection.execute_wrapper(dawdle):
        for number, key in enumerate(keys):
            if number % KEYS_A_MEETING == 0:
                meet()
            found.append((key, outcome(key)))
    return found


def outcome(key: str) -> str:
    """Claim the key; name what came of it, also where that is an error."""
    try:
        return str(claim(key=key).outcome)
    except Exception as error:
        return repr(error)


def weaken(weakness: str) -> None:
    """Take away from this process's statements what keeps a second winner out, or nothing."""
    sql._built.clear()
    built = sql.statements(connection, IdempotencyKey)
    if weakness == "no constraint":
        built = replace(built, insert=built.insert.split("ON CONFLICT")[0] + "RETURNING id")
    if weakness == "no compare":
        built = replace(built, take_over=built.take_over.split("AND fencing_token")[0])
    sql._built[connection.vendor, IdempotencyKey._meta.db_table] = built


def work_for_a_while(
    meet: Callable[[], Any], thread: int, keys: Sequence[str], seed: int
) -> list[tuple[str, str]]:
    """Bring every key to its end, as a LOCAL view with slow and failing work would.

    The lock is shorter than much of the work. Returns what happened, key by key.
    """
    if thread % THREADS == 0:
        weaken("")
    dice = random.Random(seed * 1000 + thread)  # Another order, and other faults, each.
    found = []
    meet()
    open_keys = list(keys)
    while open_keys:
        key = dice.choice(open_keys)
        made = claim(key=key, lock_timeout=LOCK)
        if made.won:
            found.append((key, work(made.record, dice)))
        elif made.outcome == "replay":
            open_keys.remove(key)
        else:
            time.sleep(dice.random() * 0.01)  # As a client waits after a 409.
    return found


def work(record: IdempotencyKey, dice: random.Random) -> str:
    """Write one business row and complete, fail and release, or come too late."""
    outlive = dice.random() < 0.4
    if outlive and dice.random() < 0.5:
        time.sleep(0.04)
    try:
        with transaction.atomic():
            Order.objects.create(sku=record.key)
            if outlive:
                time.sleep(0.04)
            if dice.random() < 0.3:
                raise ZeroDivisionError
            record.complete(status=201, headers=[], body=b"{}")
    except LockLost:
        return "lost"
    except ZeroDivisionError:
        return "released" if record.release() else "lost"
    return "completed"
