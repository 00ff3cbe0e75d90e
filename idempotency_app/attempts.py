"""What the work sees of its key: keys for the next service, and steps that are saved."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections
from django.db.transaction import TransactionManagementError

from . import events
from .claims import UNREACHABLE
from .exceptions import LockLost, StepResultInvalid, StoreUnavailable
from .models import IdempotencyKey
from .policy import Effects, Policy

# Any UUID would do; a change of it would change every downstream key.
DOWNSTREAM = uuid.UUID("6b3a3f0e-5d0c-5f6e-9c37-0d3c1c9c8a51")


class Attempt:
    """One attempt at the work, `request.idempotency`.

    A request without a key has one too, so that the work reads the same: its downstream keys
    are random, and its steps simply run.
    """

    def __init__(self, policy: Policy, record: IdempotencyKey | None = None) -> None:
        """Take the policy and the claimed record; None for a request without a key."""
        self.policy = policy
        self.record = record
        self._unkeyed = uuid.uuid4()
        self._saving = threading.Lock()  # Steps may run side by side, in threads of the work's.
        self._depth = len(self._blocks())

    @property
    def key(self) -> str | None:
        """The client's key; None where the request carries none."""
        return self.record.key if self.record else None

    def downstream_key(self, name: str) -> str:
        """Return a UUID for the next service, stable for this key and `name`.

        The same after a takeover and after a change of SECRET_KEY; it shows neither the key
        nor the account. Without a key it is random, and stable for this request only.
        """
        if self.record is None:
            return str(uuid.uuid5(self._unkeyed, name))
        scope = [self.record.account, self.record.endpoint, self.record.key, name]
        return str(uuid.uuid5(DOWNSTREAM, json.dumps(scope)))

    def step(self, name: str, work: Callable[[str], Any]) -> Any:
        """Do a named part of outside work, and save its result; return it as decoded JSON.

        `work` gets the downstream key of that name. A step that has ended is not run again:
        its saved result is returned. The lock is renewed when it begins and when it ends.
        Raises LockLost before the effect where another worker has taken the key over,
        StoreUnavailable where the database cannot be reached, StepResultInvalid where the
        result is no JSON, and ImproperlyConfigured under `LOCAL`.
        """
        self._check_effects("step()")
        if not isinstance(name, str):
            raise TypeError(f"A step's name is a str, not {name!r}: JSON would make it one.")
        record = self.record
        if record is None:
            return _decoded(name, work(self.downstream_key(name)))
        with self._saving:
            saved = record.get_steps().get(name, {})
            if "result" in saved:
                return saved["result"]
            self._save(record, name, {})
            record.begun_steps += 1
        result = _decoded(name, work(self.downstream_key(name)))
        with self._saving:
            self._save(record, name, {"result": result})
        return result

    def renew(self) -> None:
        """Hold the lock for another `lock_timeout` from now.

        Raises LockLost where another worker has taken the key over, StoreUnavailable where the
        database cannot be reached, and ImproperlyConfigured under `LOCAL`.
        """
        self._check_effects("renew()")
        if self.record is not None:
            with _fenced(self.record):
                self.record.renew(self.policy.lock_timeout)

    def _save(self, record: IdempotencyKey, name: str, step: dict[str, Any]) -> None:
        # Onto what is there now: a step within this one may have been saved meanwhile.
        with _fenced(record):
            record.save_steps({**record.get_steps(), name: step}, self.policy.lock_timeout)

    def _check_effects(self, verb: str) -> None:
        """Refuse where the UPDATE would sit unseen in the work's own transaction."""
        if self.policy.effects is Effects.LOCAL:
            raise ImproperlyConfigured(
                f"{verb} is for effects outside of the database, and this view's are LOCAL. "
                "Declare them: Idempotency(effects=Effects.REPEATABLE) where the other side "
                "takes a key of ours, Effects.UNREPEATABLE where it does not."
            )
        if self.record is not None and len(self._blocks()) > self._depth:
            raise TransactionManagementError(
                f"{verb} inside atomic(): nobody would see that the effect has begun. "
                "Call it outside of the block."
            )

    def _blocks(self) -> list[Any]:
        return connections[self.record.alias].atomic_blocks if self.record else []


@contextmanager
def _fenced(record: IdempotencyKey) -> Iterator[None]:
    """Tell a lost lock, and a store that cannot be reached as what it is: a 503."""
    try:
        yield
    except LockLost:
        events.tell("lock_lost", record)
        raise
    except UNREACHABLE as error:
        raise StoreUnavailable from error


def _decoded(name: str, result: Any) -> Any:
    """Return the result as every attempt gets it: through JSON, with dates and decimals as text."""
    try:
        return json.loads(json.dumps(result, cls=DjangoJSONEncoder))
    except (TypeError, ValueError) as error:
        raise StepResultInvalid(name, result) from error
