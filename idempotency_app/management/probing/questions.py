"""Ask the four questions, and stop where there is nobody to ask."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from .exchange import Target, Unreachable
from .findings import of_changed, of_first, of_retry, of_twins

Asked = tuple[str, bool | None, str]
"""What was seen, and the finding."""


@dataclass(frozen=True)
class Probe:
    """One question: what was sent and seen, and what it means. `ok` is None for no verdict."""

    name: str
    ok: bool | None
    sent: str
    saw: str
    meaning: str


def probes(target: Target, pairs: int) -> Iterator[Probe]:
    """Ask one question after the other; the first that nobody answers is the last.

    Where the endpoint is safe the work is done `pairs` + 2 times, else more often: with the first
    request, with the changed data under a key of its own, and with each simultaneous pair.
    """
    conversation = _Conversation(target)
    questions = (
        ("first", "the request with a new key", conversation.first),
        ("retry", "the same request with the same key", conversation.retry),
        ("changed body", "other data with the same key", conversation.changed),
        *[("twins", "the same request twice at once, with a new key", conversation.twins)] * pairs,
    )
    for name, sent, ask in questions:
        try:
            saw, ok, meaning = ask()
        except Unreachable as error:
            yield Probe(name, None, sent, "no answer", str(error))
            return
        yield Probe(name, ok, sent, saw, meaning)
        if name == "first" and not ok:
            return


class _Conversation:
    """What is sent for each question; all go back to the first answer."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.key = _new_key()

    def first(self) -> Asked:
        self.answer = self.target.send(self.key)
        return str(self.answer), *of_first(self.answer, self.target.method)

    def retry(self) -> Asked:
        again = self.target.send(self.key)
        return str(again), *of_retry(self.answer, again)

    def changed(self) -> Asked:
        answer = self.target.send(self.key, self.target.changed)
        if not 400 <= answer.status < 500:
            return str(answer), *of_changed(self.answer, answer)
        # It may be the data that is refused, and not that the key was used for other data.
        alone = self.target.send(_new_key(), self.target.changed)
        return f"{answer}; with a new key {alone}", *of_changed(self.answer, answer, alone)

    def twins(self) -> Asked:
        one, other = self.target.send_at_once(_new_key())
        return f"{one}; {other}", *of_twins(one, other)


def _new_key() -> str:
    return str(uuid.uuid4())
