"""S20: the smoke test, against endpoints with the faults that it has to find."""

from __future__ import annotations

import io
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core.management import CommandError, call_command

DATA = '{"amount_cents": 2500, "to": "savings"}'
Reply = tuple[int, bytes, bool]


class Endpoint:
    """A payment endpoint whose `answer` decides what a key is worth."""

    def __init__(self) -> None:
        self.made = itertools.count(1)
        self.lock = threading.Lock()
        self.done: dict[str, tuple[bytes, bytes]] = {}

    def work(self) -> bytes:
        return json.dumps({"id": next(self.made)}).encode()

    def protected(self, key: str, body: bytes) -> Reply:
        with self.lock:
            if key not in self.done:
                self.done[key] = body, self.work()
                return 201, self.done[key][1], False
        seen, reply = self.done[key]
        return (201, reply, True) if seen == body else (422, b"{}", False)

    def unprotected(self, key: str, body: bytes) -> Reply:
        return 201, self.work(), False

    def ignores_a_changed_body(self, key: str, body: bytes) -> Reply:
        with self.lock:
            is_replay = key in self.done
            _, reply = self.done.setdefault(key, (body, b"") if is_replay else (body, self.work()))
        return 201, reply, is_replay

    def runs_twins(self, key: str, body: bytes) -> Reply:
        if key in self.done:
            seen, reply = self.done[key]
            return (201, reply, True) if seen == body else (422, b"{}", False)
        reply = self.work()
        # Both of two requests have looked before either saves; one alone goes on.
        threading.Event().wait(0.3)
        self.done[key] = body, reply
        return 201, reply, False

    def constant(self, key: str, body: bytes) -> Reply:
        return 200, b"ok", False

    def forbidden(self, key: str, body: bytes) -> Reply:
        return 401, b"{}", False


@pytest.fixture
def serve() -> Iterator[Callable[[str], str]]:
    servers = []

    def start(name: str) -> str:
        answer = getattr(Endpoint(), name)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, reply, is_replay = answer(self.headers["Idempotency-Key"], body)
                self.send_response(status)
                if is_replay:
                    self.send_header("Idempotent-Replayed", "true")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def check(url: str, *args: str) -> tuple[int, str]:
    """Return the exit status and what was said."""
    out = io.StringIO()
    try:
        call_command("check_idempotency", url, "--data", DATA, *args, stdout=out)
    except SystemExit as error:
        return int(str(error.code)), out.getvalue()
    return 0, out.getvalue()


def test_s20_a_protected_endpoint_passes(serve):
    status, said = check(serve("protected"))
    assert status == 0
    assert said.endswith("Safe to retry, as far as this can be seen from outside.\n")
    assert "the same request with the same key: 201 with 9 bytes, marked as a replay." in said
    assert said.count("ok      ") == 6


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("unprotected", "A retry runs the work again: it got another answer."),
        (
            "ignores_a_changed_body",
            "Other data got the answer of the first request: the body is not compared.",
        ),
        ("runs_twins", "Both of two simultaneous requests ran."),
    ],
)
def test_s20_an_endpoint_with_a_fault_fails_with_a_sentence(serve, name, sentence):
    status, said = check(serve(name))
    assert status == 1
    assert said.endswith(f"Not safe to retry: {sentence}\n")


def test_where_every_answer_is_the_same_it_cannot_tell(serve):
    status, said = check(serve("constant"), "--changed-data", "x")
    assert status == 1
    assert "unclear" in said
    assert "nothing marks it as a replay" in said


def test_a_first_request_that_fails_says_so_and_asks_no_further(serve):
    status, said = check(serve("forbidden"))
    assert status == 3
    assert said.endswith(
        "Cannot tell: The first request has to succeed; look at its data, its headers and the "
        "address.\n"
    )
    assert "same request" not in said


def test_nobody_there(serve):
    status, said = check("http://127.0.0.1:9/")
    assert status == 3
    assert "no answer" in said


def test_json_has_each_probe(serve):
    status, said = check(serve("protected"), "--json", "--pairs", "1")
    got = json.loads(said)
    assert status == 0
    assert [probe["name"] for probe in got["probes"]] == [
        "first",
        "retry",
        "changed body",
        "twins",
    ]
    assert all(probe["ok"] for probe in got["probes"])
    assert got["probes"][0].keys() == {"name", "ok", "sent", "saw", "meaning"}


def test_secrets_are_not_printed(serve):
    _, said = check(serve("protected"), "-H", "Authorization: Token alice-token")
    assert "alice-token" not in said
    assert "Authorization: …" in said


def test_data_may_come_from_a_file(serve, tmp_path):
    (tmp_path / "body.json").write_text(DATA)
    assert check(serve("protected"), "--data", f"@{tmp_path}/body.json")[0] == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--data", "[]"], "--changed-data"),
        (["--data", "nonsense"], "--changed-data"),
        (["--field", "nope"], "no field 'nope'"),
        (["--data", "@/no/such/file"], "Cannot read /no/such/file"),
        (["--header", "nonsense"], "'Name: value'"),
        (["--changed-data", DATA], "the same as the first"),
        (["--pairs", "0"], "--pairs"),
    ],
)
def test_a_bad_option_is_refused(args, says):
    with pytest.raises(CommandError) as refused:
        check("http://127.0.0.1:9/", *args)
    assert says in str(refused.value)
    assert refused.value.returncode in (1, 2)


def test_another_scheme_is_refused():
    with pytest.raises(CommandError, match="http:// or https://"):
        check("file:///etc/hosts")
