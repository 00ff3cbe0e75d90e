"""Endpoints, good ones and ones with a fault, served for the smoke test to find out."""

from __future__ import annotations

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPLAY = {"Idempotent-Replayed": "true"}
Reply = tuple[int, bytes, dict[str, str]]

ALONE = 2  # The keys of the first request and of the changed data; all others come twice.
WAIT = 10  # seconds until a test that hangs fails


class Endpoint:
    """A payment endpoint, and how it answers; each public method is one."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.done: dict[str, tuple[bytes, bytes]] = {}
        self.ids = itertools.count(1)
        self.keys: list[str] = []
        self.lock = threading.Lock()
        self.both_here = threading.Barrier(2, timeout=WAIT)
        self.closing = threading.Event()

    def _work(self) -> bytes:
        return json.dumps({"id": next(self.ids)}).encode()

    def _comes_twice(self, key: str) -> bool:
        with self.lock:
            if key not in self.keys:
                self.keys.append(key)
            return self.keys.index(key) >= ALONE

    def _known(self, key: str, body: bytes, refusal: int = 422) -> Reply:
        seen, reply = self.done[key]
        return (201, reply, REPLAY) if seen == body else (refusal, b'{"code": "key-reused"}', {})

    def protected(self, key: str, body: bytes, refusal: int = 422) -> Reply:
        if self._comes_twice(key):
            self.both_here.wait()
        with self.lock:
            if key in self.done:
                return self._known(key, body, refusal)
            self.done[key] = body, self._work()
            return 201, self.done[key][1], {}

    def refuses_other_data_with_409(self, key: str, body: bytes) -> Reply:
        return self.protected(key, body, refusal=409)

    def sends_the_twin_away(self, key: str, body: bytes) -> Reply:
        if key in self.done:
            return self._known(key, body)
        if self._comes_twice(key) and self.both_here.wait():
            return 409, b'{"code": "in-progress"}', {}
        self.done[key] = body, self._work()
        return 201, self.done[key][1], {}

    def unprotected(self, key: str, body: bytes) -> Reply:
        return 201, self._work(), {}

    def ignores_a_changed_body(self, key: str, body: bytes) -> Reply:
        with self.lock:
            if key in self.done:
                return 201, self.done[key][1], REPLAY
            self.done[key] = body, self._work()
            return 201, self.done[key][1], {}

    def validates_and_ignores_a_changed_body(self, key: str, body: bytes) -> Reply:
        if b"savingsx" in body:
            return 400, b'{"to": ["No such account."]}', {}
        return self.ignores_a_changed_body(key, body)

    def runs_twins(self, key: str, body: bytes) -> Reply:
        if key in self.done:
            return self._known(key, body)
        if self._comes_twice(key):
            self.both_here.wait()  # Both have looked, and neither has saved.
        reply = self._work()
        self.done[key] = body, reply
        return 201, reply, {}

    def constant(self, key: str, body: bytes) -> Reply:
        return 200, b"ok", {}

    def constant_but_compares(self, key: str, body: bytes) -> Reply:
        seen = self.done.setdefault(key, (body, b"ok"))[0]
        return (200, b"ok", {}) if seen == body else (422, b"other data", {})

    def goes_by_another_header(self, key: str, body: bytes) -> Reply:
        return 201, b"{}", REPLAY

    def never_answers(self, key: str, body: bytes) -> Reply:
        self.closing.wait(WAIT)
        return 201, b"{}", {}

    def holds_twins(self, key: str, body: bytes) -> Reply:
        if self._comes_twice(key):
            return self.never_answers(key, body)
        return self.protected(key, body)

    def breaks_off(self, key: str, body: bytes) -> Reply:
        return 0, b"", {}

    def answers_401(self, key: str, body: bytes) -> Reply:
        return 401, b'{"detail": "Invalid token."}', {}

    def answers_404(self, key: str, body: bytes) -> Reply:
        return 404, b"<h1>Not Found</h1>", {}

    def answers_400(self, key: str, body: bytes) -> Reply:
        return 400, b'{"to": ["This field is required."]}', {}

    def wants_another_key(self, key: str, body: bytes) -> Reply:
        return 400, b'{"code": "key-invalid", "detail": "A key has to be\\u001b[2J a number."}', {}

    def answers_500(self, key: str, body: bytes) -> Reply:
        return 500, b"<h1>Server Error</h1>", {}

    def answers_429(self, key: str, body: bytes) -> Reply:
        return 429, b"", {}

    def redirects(self, key: str, body: bytes) -> Reply:
        return 301, b"", {"Location": "https://shop.example/payments/"}


class Server(ThreadingHTTPServer):
    """One way to answer, on a free port of the loopback."""

    def __init__(self, way: str) -> None:
        self.endpoint = Endpoint()
        self.way = way
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/payments/"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def stop(self) -> None:
        self.endpoint.closing.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answer in the server's way."""

    server: Server

    def answer(self) -> None:
        endpoint, key = self.server.endpoint, self.headers["Idempotency-Key"]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        endpoint.requests.append((self.command, self.path, dict(self.headers), body))
        status, reply, headers = getattr(endpoint, self.server.way)(key, body)
        if status == 0 or endpoint.closing.is_set():
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(reply))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply)

    do_POST = do_PATCH = do_GET = answer

    def log_message(self, *args: Any) -> None:
        """Say nothing."""
