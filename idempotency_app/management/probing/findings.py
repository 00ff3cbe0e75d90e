"""What an answer means for a retry. Where it shows nothing, these say so."""

from __future__ import annotations

from .exchange import Answer

Finding = tuple[bool | None, str]
"""Whether it is as it should be, None for "cannot tell", and what that means."""

BUSY = "The endpoint has no time now, which tells nothing about keys: ask again later."


def of_first(answer: Answer, method: str) -> Finding:
    """Judge the first answer: there is nothing to ask where the work is not done."""
    if answer.is_success and answer.is_replay:
        return None, "A new key got a replay: the endpoint does not go by the key that was sent."
    if answer.is_success:
        return True, "The work was done."
    quote = f" It says: {answer.quote}" if answer.quote else ""
    return None, _why_not(answer, method) + quote


def _why_not(answer: Answer, method: str) -> str:
    status = answer.status
    if 300 <= status < 400:
        return f"The endpoint redirects to {answer.location}: give the address that it is at."
    if status < 500 and _speaks_of_the_key(answer):
        return "The endpoint does not take the key, a UUID in the header Idempotency-Key."
    if status in (401, 403):
        return "The endpoint does not let the caller in: give credentials by -H 'Authorization: …'."
    if status in (404, 405):
        return f"There is nothing at this address that takes {method}."
    if answer.is_busy:
        return BUSY
    if status < 500:
        return "The endpoint refuses the request: look at --data and the headers."
    return "The endpoint fails by itself: look at its log."


def _speaks_of_the_key(answer: Answer) -> bool:
    return answer.code.startswith("key-") or b"idempotency-key" in answer.body.lower()


def of_retry(first: Answer, again: Answer) -> Finding:
    """Judge the answer to the same request under the same key."""
    if again.is_busy:
        return None, BUSY
    if not again.is_success:
        return False, f"A retry does not get the first answer: it gets {again.status}."
    if again.equals(first):
        if again.is_replay:
            return True, "A retry gets the first answer."
        return None, "The same answer, and nothing marks it as a replay: it may have run again."
    if again.is_replay:
        return False, "A retry is marked as a replay and differs from the first answer."
    return False, "A retry runs the work again: it gets another answer."


def of_changed(first: Answer, answer: Answer, alone: Answer | None = None) -> Finding:
    """Judge the answer to other data under a used key; `alone` is that under a key of its own."""
    if answer.is_busy or (alone is not None and alone.is_busy):
        return None, BUSY
    if alone is not None:
        if not alone.is_success:
            return None, "The other data is refused under a new key too: change another --field."
        usual = "" if answer.status == 422 else f" with {answer.status}, where 422 is usual"
        return True, f"Other data under a used key is refused{usual}."
    if not answer.is_success:
        return False, f"Other data under a used key gets {answer.status}, which is no refusal."
    if answer.is_replay:
        return False, "Other data gets the first request's answer: the body is not compared."
    if answer.equals(first):
        return False, "Other data is not refused under a used key: it ran, or is not compared."
    return False, "Other data is not refused under a used key: it ran."


def of_twins(one: Answer, other: Answer) -> Finding:
    """Judge the answers to two simultaneous requests under one new key."""
    if one.is_success and other.is_success:
        return _both_done(one, other)
    if not (one.is_success or other.is_success):
        return _none_done(one, other)
    refused = other if one.is_success else one
    if refused.is_busy:
        return None, BUSY
    if refused.status == 409:
        return True, "Of two simultaneous requests one ran, and one was told to wait."
    return False, f"Of two simultaneous requests one gets {refused.status}, not 409 or a replay."


def _both_done(one: Answer, other: Answer) -> Finding:
    if one.is_replay and other.is_replay:
        return None, "Both of two simultaneous requests are marked as replays, under a new key."
    if not one.equals(other):
        if one.is_replay or other.is_replay:
            return False, "Two simultaneous requests get two different answers."
        return False, "Both of two simultaneous requests ran: they get two different answers."
    if one.is_replay or other.is_replay:
        return True, "Of two simultaneous requests one ran, and one got its answer."
    return None, "Both get the same answer, and nothing marks a replay: both may have run."


def _none_done(one: Answer, other: Answer) -> Finding:
    if one.is_busy or other.is_busy:
        return None, BUSY
    if max(one.status, other.status) < 500:
        return None, "Neither of two simultaneous requests was done: is the data taken only once?"
    return False, "Neither of two simultaneous requests was done."
