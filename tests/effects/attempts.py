"""Attempts at work with outside effects, as the claim of a key gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from idempotency_app.attempts import Attempt
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Idempotency
from tests.factories import age, claim, row

from .support import REPEATABLE

with_and_without_a_key = pytest.mark.parametrize("keyed", [True, False])


def begin(policy: Idempotency = REPEATABLE, keyed: bool = True) -> Attempt:
    """Become the owner of the key, as a first request or a retry does."""
    complete = policy.resolve()
    if not keyed:
        return Attempt(complete)
    made = claim(effects=complete.effects, effects_in_steps=complete.effects_in_steps)
    assert made.won
    return Attempt(complete, made.record)


def owned(attempt: Attempt) -> IdempotencyKey:
    assert attempt.record is not None
    return attempt.record


def take_over(attempt: Attempt) -> Attempt:
    """Let the lock pass, and another worker take the key over."""
    age(owned(attempt), seconds=61)
    return begin()


def never(key: str) -> Any:
    pytest.fail("The work of the step was called.")


def steps(attempt: Attempt) -> Any:
    """Return what the database holds of the steps."""
    return json.loads(row(owned(attempt))["steps"] or "null")
