"""The record: one row a key, what its owner may do with it, and how rows are found."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import connections, models, router
from django.db.models import F, Q
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

from . import events, sealing, sending, sql
from .claims import NO_STEPS, Claim, ClaimOutcome, State, new_token
from .exceptions import LockLost, Unreadable
from .fields import ExactCharField, UTCDateTimeField
from .managers import IdempotencyKeyQuerySet
from .policy import Effects

__all__ = ["Claim", "ClaimOutcome", "IdempotencyKey", "State"]


class IdempotencyKey(models.Model):
    """One client's name for one operation, who owns it now, and the response once there is one.

    The times are in UTC and the database's own. A row belongs to whoever knows its
    `fencing_token`: each claim and takeover sets a new one, and every later write names it.
    """

    id = models.BigAutoField(primary_key=True)
    account = ExactCharField(max_length=255)
    endpoint = ExactCharField(max_length=255)
    key = ExactCharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    effects = models.CharField(max_length=12, choices=Effects.choices)
    state = models.CharField(max_length=11, choices=State.choices)
    fencing_token = models.BigIntegerField()
    locked_at = UTCDateTimeField()
    locked_until = UTCDateTimeField(null=True, help_text="Empty exactly when complete.")
    response_status = models.PositiveSmallIntegerField(null=True)
    response_headers = models.TextField(null=True, help_text="A JSON list of pairs, in ASCII.")
    response_body = models.BinaryField(null=True, help_text="Empty where it was not kept.")
    steps = models.TextField(null=True, help_text="Empty until an outside effect has begun.")
    created_at = UTCDateTimeField()
    expires_at = UTCDateTimeField(null=True, help_text="Empty where the response is kept for ever.")
    remember_until = UTCDateTimeField(null=True)

    begun_steps = 0
    """How often a step has begun in this attempt; not in the row."""

    objects = IdempotencyKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "idempotency key"
        constraints = [
            models.UniqueConstraint(
                fields=["account", "endpoint", "key"], name="idempotency_app_one_row_a_key"
            ),
            models.CheckConstraint(
                condition=Q(GreaterThanOrEqual(Length(F("key")), 1))
                & Q(LessThanOrEqual(Length(F("key")), 255)),
                name="idempotency_app_key_1_to_255",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="idempotency_app_expires_at"),
            models.Index(fields=["locked_until"], name="idempotency_app_locked_until"),
            # For the people who look a key up in the admin; no request needs them.
            models.Index(fields=["key"], name="idempotency_app_key"),
            models.Index(fields=["account", "created_at"], name="idempotency_app_account"),
            models.Index(fields=["created_at"], name="idempotency_app_created_at"),
        ]
        permissions = [
            ("release_idempotencykey", "Can release a stale lock"),
            ("settle_idempotencykey", "Can settle an unknown outcome"),
            ("view_response_idempotencykey", "Can view a recorded response"),
        ]

    def __str__(self) -> str:
        """Name the endpoint and the state; the key itself is the client's."""
        return f"{self.endpoint}, {self.get_state_display()}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The recorded response headers, in the order and spelling of the first response.

        Raises Unreadable where they were encrypted with a key that is gone.
        """
        text = sealing.open_text(self.response_headers or "[]")
        return [(name, value) for name, value in json.loads(text)]

    @property
    def body(self) -> bytes | None:
        """The recorded response body; None where it was not kept. Raises Unreadable."""
        if self.response_body is None:
            return None
        body = bytes(self.response_body)
        return sealing.open_body(body) if sealing.is_sealed(self.response_headers) else body

    def complete(
        self, *, status: int, headers: Iterable[tuple[str, str]], body: bytes | None
    ) -> None:
        """Save the response, and with it the end of the work; None for a body not kept.

        Raises LockLost, and saves nothing, where this record is no longer the owner's.
        """
        values = self._response(status, headers, body)
        if not self._change("complete", values):
            raise LockLost
        self.state, self.locked_until = State.COMPLETE, None
        self.response_status, self.response_headers = status, values["headers"]
        self.response_body = values["body"]

    def release(self, *, forget: bool = False) -> bool:
        """Give the key back, so that a retry runs the work; True if it was still ours.

        The row is deleted, or, once an outside effect has begun, left as `released`.
        `forget` deletes it then too: nothing happened outside after all.
        """
        if forget or self.steps is None:
            return bool(self._change("forget" if forget else "delete", {}))
        return bool(self._change("leave", {"new_token": new_token()}))

    def renew(self, lock_timeout: timedelta) -> None:
        """Hold the lock for `lock_timeout` from now; the expiry moves with the lock's end.

        Raises LockLost where another worker has taken the key over.
        """
        if not self._change("renew", sql.durations(connections[self.alias], lock_timeout)):
            raise LockLost

    def settle(
        self,
        *,
        status: int,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        retention: timedelta | None,
    ) -> bool:
        """Record, for an operator, what the next retry of an unresolved key will get.

        Also over a failure (5xx) that was recorded of UNREPEATABLE work after its effect had
        begun. It is kept for `retention` from now on. False, and nothing is changed, where the
        key is no longer as it was seen, or neither of the two.
        """
        durations = sql.durations(connections[self.alias], timedelta(0), retention)
        # A worker that wakes up after all finds that it is no longer the owner.
        values = {**self._response(status, headers, body), **durations, "new_token": new_token()}
        if not self._change("settle", values):
            return False
        events.tell("settled", self, status=status)
        return True

    def settle_as_not_happened(self) -> bool:
        """Forget an unresolved key, for an operator who knows that nothing happened outside.

        False, and nothing is changed, where the key is no longer as it was seen, is not
        unresolved, or has a finished step, which shows that something did happen.
        """
        if self.has_finished_step or not self._change("dismiss", {}):
            return False
        events.tell("settled", self, status=None)
        return True

    def release_stale_lock(self) -> bool:
        """Give back, for an operator, what a worker holds that has probably died.

        The row is deleted, or, once a step has begun, left as `released`. False, and nothing
        is changed, where the key is no longer as it was seen, its lock is live, or its effect
        has begun and must not be repeated: that is settled.
        """
        is_left = self._change("leave_stale", {"new_token": new_token()})
        if not is_left and not self._change("delete_stale", {}):
            return False
        events.tell("released", self, by="operator", seconds=None)
        return True

    def discard(self) -> bool:
        """Delete the row, for an operator: a further request runs the work.

        False, and nothing is changed, where the key is no longer as it was seen, its lock is
        live, or it is unresolved.
        """
        return bool(self._change("discard", {}))

    def get_steps(self) -> dict[str, dict[str, Any]]:
        """Return the steps by name: `{}` for one that has begun, with `result` when it ended.

        Raises Unreadable where they were encrypted with a key that is gone.
        """
        steps: dict[str, dict[str, Any]] = json.loads(sealing.open_text(self.steps or NO_STEPS))
        return steps

    @property
    def has_readable_steps(self) -> bool:
        """Whether the key that the steps were encrypted with, if any, is there."""
        try:
            self.get_steps()
        except Unreadable:
            return False
        return True

    @property
    def has_finished_step(self) -> bool:
        """Whether something certainly happened outside, or nobody can read whether it did."""
        if not self.has_readable_steps:
            return True
        return any("result" in step for step in self.get_steps().values())

    def save_steps(self, steps: dict[str, dict[str, Any]], lock_timeout: timedelta) -> None:
        """Save the steps, and hold the lock for `lock_timeout` from now.

        Raises LockLost, and saves nothing, where another worker has taken the key over.
        """
        text = sealing.seal_text(json.dumps(steps)) if steps else NO_STEPS
        values = {"steps": text, **sql.durations(connections[self.alias], lock_timeout)}
        if not self._change("save_steps", values):
            raise LockLost
        self.steps = text

    def refresh_from_db(
        self, using: str | None = None, fields: Any = None, from_queryset: Any = None
    ) -> None:
        """Read the row where it was claimed; a router might send a deferred column to a replica."""
        super().refresh_from_db(using or self.alias, fields, from_queryset)

    @property
    def alias(self) -> str:
        """The database that the row is in."""
        return self._state.db or router.db_for_write(type(self), instance=self)

    def _response(
        self, status: int, headers: Iterable[tuple[str, str]], body: bytes | None
    ) -> dict[str, Any]:
        """Return the parameters of a statement that saves the response."""
        binary = connections[self.alias].Database.Binary  # type: ignore[attr-defined]
        return {
            "status": status,
            "headers": sealing.seal_text(json.dumps([list(pair) for pair in headers])),
            "body": None if body is None else binary(sealing.seal_body(body)),
        }

    def _change(self, verb: str, values: dict[str, Any]) -> int:
        """Run the statement of that name behind the fence; return how many rows it changed."""
        connection = connections[self.alias]
        text = getattr(sql.statements(connection, type(self)), verb)
        fence = {"id": self.pk, "token": self.fencing_token}
        return sending.change(connection, text, {**values, **fence})
