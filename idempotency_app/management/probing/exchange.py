"""Send the request, alone or twice at once, and keep what came back."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from django.utils.encoding import iri_to_uri

KEY = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
LONGEST_QUOTE = 200  # characters of an error, so that a probe stays a line
FAULTS = (OSError, HTTPException, UnicodeError)  # UnicodeError: a host that no IDN can name.


class Unreachable(Exception):
    """Nobody answered: no connection, or none in time; says which, in a sentence."""


@dataclass(frozen=True)
class Answer:
    """What came back: the status, the body, and whether it says that it is a replay."""

    status: int
    body: bytes = b""
    is_replay: bool = False
    location: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the work was done, now or before."""
        return 200 <= self.status < 300

    @property
    def is_busy(self) -> bool:
        """Whether it says "not now", which tells nothing about keys."""
        return self.status in (429, 503)

    def equals(self, other: Answer) -> bool:
        """Whether a client gets the same from both."""
        return (self.status, self.body) == (other.status, other.body)

    @property
    def code(self) -> str:
        """The `code` of a problem, as this app sends it; empty where there is none."""
        return _printable(self._problem().get("code"))

    @property
    def quote(self) -> str:
        """What an error says about itself, fit for a terminal, cut; empty where it is no JSON."""
        problem = self._problem()
        text = problem.get("detail") or problem.get("title")
        # An encoded text is ASCII, and so has nothing that a terminal obeys.
        return _printable(text) or (json.dumps(problem)[:LONGEST_QUOTE] if problem else "")

    def _problem(self) -> dict[str, Any]:
        try:
            data = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def __str__(self) -> str:
        """Say it in a few words, without the body, which may hold what is nobody's business."""
        if not self.is_success and self.code:
            return f"{self.status} {self.code}"
        digest = hashlib.sha256(self.body).hexdigest()[:8]
        size = f"{len(self.body)} bytes, SHA-256 {digest}…" if self.body else "no body"
        return f"{self.status} ({size}{', marked as a replay' if self.is_replay else ''})"


@dataclass(frozen=True)
class Target:
    """The request that is sent, but for its key; the timeout is in seconds."""

    url: str
    method: str
    body: bytes
    changed: bytes
    headers: Mapping[str, str] = field(repr=False)
    timeout: float

    def send(self, key: str, body: bytes | None = None) -> Answer:
        """Send the request under the key; without a body, its own. Raises Unreachable."""
        return self._send(self._connected(), key, self.body if body is None else body)

    def send_at_once(self, key: str) -> tuple[Answer, Answer]:
        """Send the request twice, on two connections that both stand first. Raises Unreachable."""
        start = threading.Barrier(2)

        def send(connection: HTTPConnection) -> Answer:
            start.wait()
            return self._send(connection, key, self.body)

        one = self._connected()
        try:
            other = self._connected()
        except Unreachable:
            one.close()
            raise
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.submit(send, one), pool.submit(send, other)
            return first.result(), second.result()

    def _connected(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout)
        try:
            connection.connect()
        except FAULTS as error:
            raise Unreachable(f"No connection, so nothing was sent: {_reason(error)}.") from error
        return connection

    def _send(self, connection: HTTPConnection, key: str, body: bytes) -> Answer:
        parts = urlsplit(self.url)
        path = iri_to_uri(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}")
        headers = {**self.headers, KEY: key, "Connection": "close"}
        try:
            connection.request(self.method, path, body, headers)
            return _answer(connection.getresponse())
        except TimeoutError as error:
            text = f"No answer within {self.timeout:g} s; the work may be done. See --timeout."
            raise Unreachable(text) from error
        except FAULTS as error:
            text = f"The connection broke; the work may be done: {_reason(error)}."
            raise Unreachable(text) from error
        finally:
            connection.close()


def _answer(response: HTTPResponse) -> Answer:
    is_replay = response.headers.get(REPLAYED, "").strip().lower() == "true"
    location = _printable(response.headers.get("Location"))
    return Answer(response.status, response.read(), is_replay, location)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).rstrip(".")


def _printable(text: Any) -> str:
    """Return the text without what a terminal would obey, cut; empty where it is none."""
    if not isinstance(text, str):
        return ""
    return "".join(each if each.isprintable() else " " for each in text)[:LONGEST_QUOTE]
