"""The mixins that make a view's POST safe to retry: claim, replay, conflict.

One request: DRF authenticates, permits and throttles; `run_once` reads the key, claims it,
and runs the handler, replays, or tells the conflict; `dispatch` saves what the work answered
or gives the key back.
"""

from __future__ import annotations

from .claim import ClaimMixin
from .conflict import ConflictMixin
from .replay import ReplayMixin

__all__ = ["ClaimMixin", "ConflictMixin", "IdempotencyMixin", "ReplayMixin"]


# ClaimMixin has the other two among its bases; they are named for the reader.
class IdempotencyMixin(ClaimMixin, ReplayMixin, ConflictMixin):
    """Make a view's POST safe to retry. Stands before the view's other bases."""
