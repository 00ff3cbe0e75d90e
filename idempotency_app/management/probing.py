"""Ask an endpoint from outside whether a retry is safe: four questions over HTTP."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException

REPLAYED = "Idempotent-Replayed"


class Unreachable(Exception):
    """Nobody answered: no connection, or none in time."""


@dataclass(frozen=True)
class Answer:
    """What came back: the status, the body, and whether it says that it is a replay."""

    status: int
    body: bytes
    is_replay: bool

    @property
    def is_success(self) -> bool:
        """Whether the work was done, now or before."""
        return 200 <= self.status < 300

    def __str__(self) -> str:
        """Say it in a few words."""
        marked = ", marked as a replay" if self.is_replay else ""
        return f"{self.status} with {len(self.body)} bytes{marked}"


@dataclass(frozen=True)
class Probe:
    """One question: what was sent and seen, and what it means. `ok` is None for no verdict."""

    name: str
    ok: bool | None
    sent: str
    saw: str
    meaning: str


@dataclass(frozen=True)
class Target:
    """The request that is sent, but for its key."""

    url: str
    method: str
    body: bytes
    changed: bytes
    headers: Mapping[str, str] = field(repr=False)
    timeout: float

    def send(self, key: str, body: bytes | None = None) -> Answer:
        """Send the request under the key. Raises Unreachable."""
        data = self.body if body is None else body
        headers = {**self.headers, "Idempotency-Key": key}
        request = urllib.request.Request(self.url, data, headers, method=self.method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:  # noqa: S310
                return _answer(response.status, response.read(), response.headers)
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.read(), error.headers)
        except (OSError, HTTPException) as error:
            raise Unreachable(str(getattr(error, "reason", error))) from error


def _answer(status: int, body: bytes, headers: Message) -> Answer:
    return Answer(status, body, headers[REPLAYED] == "true")


def probes(target: Target, pairs: int) -> Iterator[Probe]:
    """Ask one question after the other; the first that finds no endpoint to ask is the last."""
    key = str(uuid.uuid4())
    try:
        first = target.send(key)
    except Unreachable as error:
        yield Probe("first", None, "the request with a new key", "no answer", f"{error}.")
        return
    yield _first(first)
    if not first.is_success:
        return
    try:
        yield _retry(first, target.send(key))
        yield _changed(first, target.send(key, target.changed))
        for _ in range(pairs):
            yield _twins(*_at_once(target))
    except Unreachable as error:
        yield Probe("answer", None, "a further request", "no answer", f"{error}.")


def _first(answer: Answer) -> Probe:
    sent = "the request with a new key"
    if answer.is_success:
        return Probe("first", True, sent, str(answer), "The work was done.")
    meaning = "The first request has to succeed; look at its data, its headers and the address."
    return Probe("first", None, sent, str(answer), meaning)


def _retry(first: Answer, again: Answer) -> Probe:
    sent, saw = "the same request with the same key", str(again)
    if not again.is_success:
        meaning = "A retry does not get the first answer."
        return Probe("retry", False, sent, saw, meaning)
    if (again.status, again.body) != (first.status, first.body):
        meaning = "A retry runs the work again: it got another answer."
        return Probe("retry", False, sent, saw, meaning)
    if not again.is_replay:
        meaning = "The same answer, and nothing marks it as a replay: it may have run again."
        return Probe("retry", None, sent, saw, meaning)
    return Probe("retry", True, sent, saw, "A retry gets the first answer.")


def _changed(first: Answer, answer: Answer) -> Probe:
    sent, saw = "other data with the same key", str(answer)
    if 400 <= answer.status < 500:
        meaning = "Other data under a used key is refused."
        return Probe("changed body", True, sent, saw, meaning)
    if answer.is_success and (answer.is_replay or answer.body == first.body):
        meaning = "Other data got the answer of the first request: the body is not compared."
        return Probe("changed body", False, sent, saw, meaning)
    meaning = "Other data under a used key is not refused: it ran."
    return Probe("changed body", False, sent, saw, meaning)


def _at_once(target: Target) -> tuple[Answer, Answer]:
    """Send the same request twice with one new key, at the same moment."""
    key, start = str(uuid.uuid4()), threading.Barrier(2)

    def send() -> Answer:
        start.wait()
        return target.send(key)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(send), pool.submit(send)
        return one.result(), other.result()


def _twins(one: Answer, other: Answer) -> Probe:
    sent, saw = "the same request twice at once, with a new key", f"{one}; {other}"
    done = [answer for answer in (one, other) if answer.is_success]
    refused = [answer for answer in (one, other) if answer.status == 409]
    if len(done) == 2 and done[0].body != done[1].body:
        meaning = "Both of two simultaneous requests ran."
        return Probe("twins", False, sent, saw, meaning)
    if len(done) == 2 and not any(answer.is_replay for answer in done):
        meaning = "Both got the same answer, and nothing marks a replay: both may have run."
        return Probe("twins", None, sent, saw, meaning)
    if len(done) == 2 or len(done) == len(refused) == 1:
        return Probe("twins", True, sent, saw, "Of two simultaneous requests one ran.")
    meaning = "Of two simultaneous requests not one was done, or one failed."
    return Probe("twins", False, sent, saw, meaning)
