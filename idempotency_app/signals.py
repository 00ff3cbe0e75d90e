"""What becomes of keys, as Django signals: sent after the commit, and never with a body.

The sender is `IdempotencyKey`, and every signal but `reaped` has `using` (the database alias),
`account`, `endpoint`, `key` and `effects`. A receiver that raises harms nobody: the error is
logged. Inside somebody else's transaction they wait for its commit.
"""

from __future__ import annotations

from django.dispatch import Signal

claimed = Signal()
"""A request became the owner of a new, forgotten or released key."""

taken_over = Signal()
"""A request became the owner of a stale lock: the worker before it has probably died."""

completed = Signal()
"""The work's response is recorded; `status`, and `seconds` that the work took."""

released = Signal()
"""The key was given back; `by` "work" or "operator", and `seconds` that the work took or None."""

lock_lost = Signal()
"""A worker found that its key had been taken over; what it would have saved was not saved."""

replayed = Signal()
"""A retry got the recorded response; `status`."""

conflicted = Signal()
"""A request neither ran nor got a replay; `outcome`, and `retry_after` in seconds or 0."""

mismatched = Signal()
"""Other data came under a key that was used before."""

settled = Signal()
"""An operator settled an unknown outcome; `status`, None where it did not happen."""

reaped = Signal()
"""The reaper has been there; `using`, `deleted` keys, `dropped` responses of remembered keys."""
