"""Rows of the record in each of its states, dated by the database's clock."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.db.models import F
from factory.declarations import LazyFunction, Sequence, Trait
from factory.django import DjangoModelFactory

from idempotency_app.fields import DatabaseNow
from idempotency_app.models import Claim, IdempotencyKey, State
from idempotency_app.policy import Effects

FINGERPRINT = "a" * 64
OTHER_FINGERPRINT = "b" * 64
STEPS = '{"charge": {"result": {"id": "ch_1"}}}'
TIMES = ("locked_at", "locked_until", "created_at", "expires_at", "remember_until")


def ago(**span: float) -> Any:
    return DatabaseNow() - timedelta(**span)


def ahead(**span: float) -> Any:
    return DatabaseNow() + timedelta(**span)


class IdempotencyKeyFactory(DjangoModelFactory[IdempotencyKey]):
    """A lock of 60 s, taken 10 s ago, unless a state is named: `stale=True`."""

    class Meta:
        model = IdempotencyKey

    class Params:
        in_flight = Trait(state=State.IN_PROGRESS)
        stale = Trait(
            locked_at=ago(seconds=61), locked_until=ago(seconds=1), created_at=ago(seconds=61)
        )
        # Work that had begun an outside effect, and whose lock has passed.
        unresolved = Trait(stale=True, effects=Effects.UNREPEATABLE, steps=STEPS)
        released = Trait(stale=True, state=State.RELEASED, effects=Effects.REPEATABLE, steps=STEPS)
        complete = Trait(
            state=State.COMPLETE,
            locked_until=None,
            response_status=201,
            response_headers='[["Location", "/orders/7/"]]',
            response_body=b'{"id": 7}',
        )
        expired = Trait(complete=True, expires_at=ago(hours=1))
        remembered = Trait(expired=True, remember_until=ahead(days=29))

    account = "auth.user:7"
    endpoint = "POST orders/"
    key = Sequence("k-{}".format)
    fingerprint = FINGERPRINT
    effects = Effects.LOCAL
    state = State.IN_PROGRESS
    fencing_token = LazyFunction(lambda: secrets.randbits(63))
    locked_at = ago(seconds=10)
    locked_until = ahead(seconds=50)
    created_at = ago(seconds=10)
    expires_at = ahead(hours=24)

    @classmethod
    def _create(cls, model_class: Any, *args: Any, **kwargs: Any) -> Any:
        record = super()._create(model_class, *args, **kwargs)
        record.refresh_from_db()  # The times, which the database has computed.
        return record


def make_key(**state: Any) -> IdempotencyKey:
    """Make one row: `make_key(stale=True, steps=STEPS)`."""
    return IdempotencyKeyFactory.create(**state)


def claim(record: IdempotencyKey | None = None, using: str | None = None, **changes: Any) -> Claim:
    """Claim the record's key, or a new one, as its own view would on a retry."""
    arguments: dict[str, Any] = {
        "account": record.account if record else "auth.user:7",
        "endpoint": record.endpoint if record else "POST orders/",
        "key": record.key if record else "k",
        "fingerprint": record.fingerprint if record else FINGERPRINT,
        "effects": Effects(record.effects) if record else Effects.LOCAL,
        "lock_timeout": timedelta(seconds=60),
        "retention": timedelta(hours=24),
    }
    return IdempotencyKey.objects.using(using).claim(**(arguments | changes))


def row(record: IdempotencyKey) -> Any:
    """Return every column of the record's row as it is now; None where there is no row."""
    values = IdempotencyKey.objects.filter(pk=record.pk).values().first()
    if values and values["response_body"] is not None:
        values["response_body"] = bytes(values["response_body"])
    return values


def age(record: IdempotencyKey, **span: float) -> None:
    """Let that much time have passed for the row."""
    moved: dict[str, Any] = {name: F(name) - timedelta(**span) for name in TIMES}
    IdempotencyKey.objects.filter(pk=record.pk).update(**moved)
