"""Which rows a person may do something to, and in words why not the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..claims import State
from ..policy import Effects
from .situations import Situation, is_unresolved

CLOSED = (Situation.COMPLETE, Situation.REMEMBERED, Situation.EXPIRED)

CHANGED = "changed since it was shown"
ALONE = "select this key alone, and record its outcome"


def is_releasable(row: Any) -> bool:
    """Whether its lock is stale, and no effect has begun that must not be repeated."""
    return bool(row.situation == Situation.STALE)


def is_settleable(row: Any) -> bool:
    """Whether an outside effect has begun, nobody is at work, and its end is not known."""
    return is_unresolved(row) or has_failed(row)


def has_failed(row: Any) -> bool:
    """Whether a failure is recorded of an effect that must not be repeated, once it had begun."""
    return (
        row.state == State.COMPLETE
        and row.effects == Effects.UNREPEATABLE
        and row.has_begun
        and (row.response_status or 0) >= 500
    )


def why_only_recorded(row: Any) -> str | None:
    """Say why nobody can say of the row that it did not happen."""
    if has_failed(row):
        return "A failure is recorded: what you record replaces it."
    return "A step has finished, so it did happen." if row.has_finished_step else None


def is_closed(row: Any) -> bool:
    """Whether nobody is at work and nothing is open."""
    return row.situation in CLOSED or (row.situation == Situation.STALE and not row.has_begun)


def why_not_released(row: Any) -> str | None:
    """Say why the row is left alone; None where its lock may be released."""
    if is_releasable(row):
        return None
    if row.situation == Situation.IN_FLIGHT:
        return "a worker holds its lock, which is live"
    if row.situation == Situation.UNKNOWN:
        return "its effect has begun and must not be repeated: settle it"
    return "there is no lock to release"


def why_not_settled(row: Any) -> str | None:
    """Say why the row is left alone; None where its outcome may be settled."""
    if is_settleable(row):
        return None
    if row.situation == Situation.IN_FLIGHT:
        return "a worker holds its lock, and may still end it"
    if row.situation == Situation.STALE:
        return "nothing had begun outside: release its lock"
    return "there is nothing open to settle"


def why_not_settled_with_others(row: Any) -> str | None:
    """Say why the row is left alone where it is settled together with others."""
    reason = why_not_settled(row)
    if reason is None and (only := why_only_recorded(row)):
        return f"{only[0].lower()}{only[1:-1]}; {ALONE}"
    return reason


def sorted_out(
    rows: list[Any], seen: dict[int, tuple[int, int]], why_not: Callable[[Any], str | None]
) -> tuple[list[Any], list[tuple[Any, str]]]:
    """Return the rows that qualify, and the others, each with its state and the reason.

    `seen`: the fencing tokens that the person has been shown, if any.
    """
    fits: list[Any] = []
    others: list[tuple[Any, str]] = []
    for row in rows:
        is_changed = row.pk in seen and seen[row.pk][0] != row.fencing_token
        reason = CHANGED if is_changed else why_not(row)
        if reason is None:
            fits.append(row)
        else:
            others.append((row, f"{Situation(row.situation).label}: {reason}"))
    return fits, others
