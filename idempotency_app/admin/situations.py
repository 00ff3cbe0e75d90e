"""What a key's row means to a person: judged by the database's clock, told in words."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Case, ExpressionWrapper, Q, Value, When

from ..claims import State
from ..exceptions import Unreadable
from ..fields import DatabaseNow
from ..policy import Effects
from .ages import since


class Situation(models.TextChoices):
    """What a row is now."""

    IN_FLIGHT = "in_flight", "in flight"
    UNKNOWN = "unknown", "outcome unknown"
    STALE = "stale", "stale lock"
    WAITING = "waiting", "waiting for a retry"
    COMPLETE = "complete", "complete"
    REMEMBERED = "remembered", "response expired, key remembered"
    EXPIRED = "expired", "expired"


HELD = Q(steps__isnull=False, effects=Effects.UNREPEATABLE)

SENTENCES = {
    Situation.IN_FLIGHT: "A worker has been running this request for {age}. A further request "
    "gets 409 in-progress until it ends, or until its lock does.",
    Situation.UNKNOWN: "The worker stopped after the effect had begun, and nobody knows how it "
    "ended. A further request gets 409 outcome-unknown until somebody settles it here.",
    Situation.STALE: "The worker has probably died: its lock has passed. A further request with "
    "the same data takes over, and runs {rest}.",
    Situation.WAITING: "The last attempt failed after a step had begun, and gave the key back. A "
    "further request with the same data runs {rest}.",
    Situation.COMPLETE: "The request is done. A further request with the same data gets the "
    "recorded response{status}.",
    Situation.REMEMBERED: "The request is done, and its response has expired. A further request "
    "with the same data gets 409 key-expired.",
    Situation.EXPIRED: "The request is done, and the key has expired. A further request is a new "
    "one, and runs.",
}
NOT_KEPT = (
    "The request is done, and its response was too large or streamed. A further request gets "
    "409 response-not-kept."
)
UNREADABLE = (
    "The request is done, and its response was encrypted with a key that is gone. A further "
    "request gets 409 response-not-kept."
)
UNREADABLE_STEPS = (
    "The worker stopped after a step had begun, and its steps were encrypted with a key that is "
    "gone. A further request gets 409 outcome-unknown until the key is back, or somebody settles "
    "it here."
)
EXPIRED_LOCK = (
    "The worker has probably died: its lock has passed, and the key has expired. A further "
    "request is a new one, and runs."
)


def judged(rows: Any) -> Any:
    """Annotate `situation` (of Situation), `has_begun` (the effect), `now` (the database's)."""
    now = DatabaseNow()
    past = Q(expires_at__lte=now)
    cases = [
        When(state=State.IN_PROGRESS, locked_until__gt=now, then=Value("in_flight")),
        When(~Q(state=State.COMPLETE) & HELD, then=Value("unknown")),
        When(state=State.RELEASED, then=Value("waiting")),
        When(state=State.IN_PROGRESS, then=Value("stale")),
        When(Q(response_status__isnull=True) & ~past, then=Value("remembered")),
        When(past & Q(remember_until__gt=now), then=Value("remembered")),
        When(past, then=Value("expired")),
    ]
    situation = Case(*cases, default=Value("complete"), output_field=models.CharField())
    has_begun = ExpressionWrapper(Q(steps__isnull=False), models.BooleanField())
    return rows.annotate(situation=situation, has_begun=has_begun, now=now)


def is_unresolved(record: Any) -> bool:
    """Whether it is an open question, which never expires."""
    open_ones = (Situation.UNKNOWN, Situation.WAITING, Situation.STALE)
    return bool(record.has_begun and record.situation in open_ones)


def sentence(record: Any) -> str:
    """Say what happened, and what a further request would get."""
    words = _exception(record) or SENTENCES[Situation(record.situation)]
    return words.format(
        age=since(record.locked_at, record.now),
        rest="what follows its finished steps" if record.has_finished_step else "the work",
        status=f", {record.response_status}" if record.response_status else "",
    )


def _exception(record: Any) -> str | None:
    """Return what is said where a request gets something else than most in this situation."""
    if record.situation == Situation.COMPLETE:
        try:
            return None if record.headers is not None and record.body is not None else NOT_KEPT
        except Unreadable:
            return UNREADABLE
    if record.situation in (Situation.STALE, Situation.WAITING) and not record.has_readable_steps:
        return UNREADABLE_STEPS
    is_expired = record.expires_at is not None and record.expires_at <= record.now
    if record.situation == Situation.STALE and is_expired and not record.has_begun:
        return EXPIRED_LOCK
    return None
