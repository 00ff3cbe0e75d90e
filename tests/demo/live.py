"""The demo and its card network, served for real on free ports, and clients that talk to them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
from django.db import connections
from django.db.models import F

from idempotency_app.managers import IdempotencyKeyQuerySet
from idempotency_app.models import IdempotencyKey
from tests.settings import database

START_SECONDS = 60  # Three workers on a busy machine; four seconds are usual.
WAIT_SECONDS = 20
ROOT = Path(__file__).resolve().parents[2]
ALIAS = "live"
TIMES = ("locked_at", "locked_until", "created_at", "expires_at", "remember_until")

TRANSFER = {"amount_cents": 2500, "currency": "usd", "to": "savings"}
CHARGE = {"amount_cents": 2500, "currency": "usd", "source": "pm_1"}
WIRE = {"amount_cents": 2500, "currency": "usd", "iban": "DE89370400440532013000"}
MESSAGE = {"email": "ada@example.com", "text": "Where is my order?"}

CONTENT = {
    "/api/transfers/": TRANSFER,
    "/api/charges/": CHARGE,
    "/api/unprotected/charges/": CHARGE,
    "/api/wires/": WIRE,
    "/api/messages/": MESSAGE,
}


@dataclass
class LiveDemo:
    """A running demo: its process, its address, its folder, and the database that it is on."""

    process: psutil.Process
    port: int
    var: Path
    database: dict[str, Any]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def keys(self) -> IdempotencyKeyQuerySet:
        """The demo's table of keys, on a connection of our own."""
        return IdempotencyKey.objects.using(ALIAS)

    def post(
        self,
        key: str | None,
        body: Any = None,
        *,
        token: str | None = "alice-token",
        path: str = "/api/transfers/",
        **faults: object,
    ) -> httpx.Response:
        """POST on a connection of its own; `delay=1.5` is sent as `Demo-Delay: 1.5`."""
        headers = {"Authorization": f"Token {token}"} if token else {}
        if key is not None:
            headers["Idempotency-Key"] = key
        headers |= {f"Demo-{name.replace('_', '-')}": str(v) for name, v in faults.items()}
        content = CONTENT[path] if body is None else body
        return httpx.post(self.url + path, json=content, headers=headers, timeout=WAIT_SECONDS)

    def charge(self, key: str | None, body: Any = None, **options: Any) -> httpx.Response:
        return self.post(key, body, path="/api/charges/", **options)

    def wire(self, key: str | None, body: Any = None, **options: Any) -> httpx.Response:
        return self.post(key, body, path="/api/wires/", **options)

    def write(self, key: str | None, body: Any = None, **options: Any) -> httpx.Response:
        """Send the contact form, without any token."""
        return self.post(key, body, path="/api/messages/", token=None, **options)

    def in_background(self, *args: Any, **kwargs: Any) -> Background:
        """Send what `post` would from a thread of its own."""
        return Background(lambda: self.post(*args, **kwargs))

    def get(self, path: str, token: str = "alice-token") -> httpx.Response:
        return httpx.get(
            self.url + path, headers={"Authorization": f"Token {token}"}, timeout=WAIT_SECONDS
        )

    def counts(self, token: str = "alice-token") -> dict[str, int]:
        counts: dict[str, int] = self.get("/api/counts/", token).json()
        return counts

    def network_counts(self, tenant: str = "acme") -> dict[str, int]:
        """Return what the network says of itself, with the calls that it got."""
        url = f"http://127.0.0.1:{self.port + 1}/counts/"
        counts: dict[str, int] = httpx.get(url, params={"tenant": tenant}).json()
        return counts

    def curl(self, *arguments: str, path: str = "/api/transfers/") -> list[str]:
        """Return the command of a POST by curl, as the README has it."""
        body = httpx.Request("POST", self.url, json=CONTENT[path]).content.decode()
        return [
            *("curl", "--silent", "--show-error", f"{self.url}{path}"),
            *("-H", "Authorization: Token alice-token", "-H", "Content-Type: application/json"),
            *("-d", body),
            *arguments,
        ]

    def wait_until_claimed(self, key: str) -> None:
        """Return when the work under the key has been claimed, which others then see."""
        wait_for(self.keys.filter(key=key).exists)

    def wait_until_stale(self, key: str) -> None:
        """Return when the lock has lapsed, by the database's own clock."""
        wait_for(self.keys.filter(key=key).stale().exists)

    def age(self, key: str, **span: float) -> None:
        """Let that much time have passed for the key."""
        moved: dict[str, Any] = {name: F(name) - timedelta(**span) for name in TIMES}
        self.keys.filter(key=key).update(**moved)

    def workers(self) -> list[psutil.Process]:
        """Return the demo's own worker processes, without the network's."""
        # The network was started first.
        _, demo = sorted(self.process.children(), key=lambda child: child.pid)
        workers: list[psutil.Process] = demo.children()
        return workers


class Background:
    """A call in a thread; `result()` waits for it and raises what it raised."""

    def __init__(self, call: Callable[[], httpx.Response]) -> None:
        self._call = call
        self._outcome: list[httpx.Response | BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome.append(self._call())
        except BaseException as error:
            self._outcome.append(error)

    def result(self) -> httpx.Response:
        self._thread.join(WAIT_SECONDS)
        outcome = self._outcome[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def all_at_once(call: Callable[[], httpx.Response], times: int) -> list[httpx.Response]:
    """Make the same call from that many threads in the same moment."""
    together = threading.Barrier(times)

    def wait_and_call() -> httpx.Response:
        together.wait()
        return call()

    calls = [Background(wait_and_call) for _ in range(times)]
    return [call.result() for call in calls]


def is_replay(response: httpx.Response) -> bool:
    return bool(response.headers.get("Idempotent-Replayed") == "true")


def code(response: httpx.Response) -> str:
    """Return the problem's code: what follows the last colon of its type."""
    return str(response.json()["type"]).rpartition(":")[2]


@contextlib.contextmanager
def served(var: Path, log: Path) -> Iterator[LiveDemo]:
    """Serve the demo on a fresh database until the block ends."""
    with fresh_database(var) as (url, config):
        port = two_free_ports()
        with demo_process(port, var, log, url) as process:
            wait_until_ready(process, port, log)
            yield LiveDemo(psutil.Process(process.pid), port, var, config)


@contextlib.contextmanager
def fresh_database(var: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the DATABASE_URL and the entry of DATABASES of a database that is nobody else's.

    On SQLite that is the demo's own file. On a server it is made, and dropped at the end.
    """
    config = {**database(), "TEST": {}}
    vendor = connections["default"].vendor
    if vendor == "sqlite":
        yield "", config | {"NAME": str(var / "demo.sqlite3")}
        return
    name = f"demo_{uuid.uuid4().hex}"
    with connections["default"]._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    try:
        given = httpx.URL(os.environ["DATABASE_URL"])
        yield str(given.copy_with(path=f"/{name}")), config | {"NAME": name}
    finally:
        force = "WITH (FORCE)" if vendor == "postgresql" else ""
        with connections["default"]._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name} {force}")


@contextlib.contextmanager
def connected(config: dict[str, Any]) -> Iterator[None]:
    """Let the ORM reach the demo's database, under the alias "live", until the block ends."""
    connections.settings[ALIAS] = connections.configure_settings({"default": {}, ALIAS: config})[
        ALIAS
    ]
    try:
        yield
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]


def environment(port: int, var: Path, database_url: str = "") -> dict[str, str]:
    """Return the variables of a demo."""
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "demo_project.settings",
        "DATABASE_URL": database_url,
        "DEMO_VAR": str(var),
        "DEMO_FAULTS": "1",
        "PORT": str(port),
    }


@contextlib.contextmanager
def demo_process(
    port: int, var: Path, log: Path, database_url: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the demo, and leave nothing of it behind."""
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, "manage.py", "run_demo"],
            cwd=ROOT,
            env=environment(port, var, database_url),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield demo
    finally:
        kill_family(demo)


def kill_family(process: subprocess.Popen[Any]) -> None:
    """Kill a process that we have started, with all below it."""
    # One that has ended by itself has ended its own.
    if process.poll() is None:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
    process.wait()


def wait_until_ready(demo: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when the demo answers; raise with its log where it ends before."""

    def answers() -> bool:
        if demo.poll() is not None:
            raise RuntimeError(f"The demo did not start:\n{log.read_text(errors='replace')}")
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/api/counts/").status_code == 401
        return False

    wait_for(answers, START_SECONDS)


def two_free_ports() -> int:
    """Return a port of 127.0.0.1 that nobody listens on right now, nor on the next one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


def wait_for(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Return as soon as the condition holds; fail after that many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} seconds")
        time.sleep(0.02)
