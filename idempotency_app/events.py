"""How the app tells what became of a key: one line in the log, and one signal."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.dispatch import Signal

from . import signals
from .keys import mask

if TYPE_CHECKING:
    from .models import IdempotencyKey

logger = logging.getLogger(__name__)

# The two warnings are what an operator should look into. A retry that gets its answer is the
# mechanism at work.
LEVELS = {
    "claimed": logging.DEBUG,
    "taken_over": logging.WARNING,
    "completed": logging.INFO,
    "released": logging.INFO,
    "lock_lost": logging.WARNING,
    "replayed": logging.INFO,
    "conflicted": logging.INFO,
    "mismatched": logging.INFO,
    "settled": logging.INFO,
}
WORDS = {
    "claimed": "Claimed",
    "taken_over": "Took over a stale lock",
    "completed": "Recorded the response",
    "released": "Released the key, a retry runs the work",
    "lock_lost": "Lost the lock to another worker",
    "replayed": "Replayed the recorded response",
    "conflicted": "Refused, nothing to replay",
    "mismatched": "Refused, other data under a used key",
    "settled": "Settled by an operator",
}


def tell(event: str, record: IdempotencyKey, **details: Any) -> None:
    """Log the event at once, and send its signal when the transaction around it commits.

    The log has the key masked, and everything else as the log record's attributes too; a
    signal has the key whole. Without a transaction the signal is sent at once.
    """
    scope = {name: getattr(record, name) for name in ("account", "endpoint", "key", "effects")}
    if logger.isEnabledFor(LEVELS[event]):
        masked = mask(record.key)
        extra = {"event": event, **scope, "key": masked, **details}
        words = "%s: %s, key %s"
        logger.log(LEVELS[event], words, WORDS[event], record.endpoint, masked, extra=extra)
    signal: Signal = getattr(signals, event)
    if signal.receivers:
        send = partial(
            signal.send_robust, sender=type(record), using=record.alias, **scope, **details
        )
        transaction.on_commit(send, using=record.alias, robust=True)
