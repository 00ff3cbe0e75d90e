"""S20: the smoke test, against endpoints with the faults that it has to find."""

from __future__ import annotations

import io
import json
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command

from .probed import Server

DATA = '{"amount_cents": 2500, "to": "savings"}'
SAFE = "Safe to retry, as far as this can be seen from outside."


@pytest.fixture
def serve() -> Iterator[Callable[[str], Server]]:
    servers: list[Server] = []

    def start(way: str) -> Server:
        servers.append(Server(way))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def check(url: str, *args: str, **streams: Any) -> tuple[int, list[str]]:
    """Return the exit status and the lines that were said."""
    out = io.StringIO()
    status = 0
    try:
        call_command("check_idempotency", url, "--data", DATA, *args, stdout=out, **streams)
    except SystemExit as error:
        status = int(str(error.code))
    return status, out.getvalue().splitlines()


def test_s20_a_protected_endpoint_passes(serve):
    status, lines = check(serve("protected").url)
    assert status == 0
    assert [line[:7] for line in lines[1:-1]] == ["ok     "] * 6
    assert lines[-1] == SAFE


def test_it_says_what_was_sent_what_it_saw_and_what_that_means(serve):
    _, lines = check(serve("protected").url, "--pairs", "1")
    first, retry, changed, twins = lines[1:-1]
    one, two, three = (
        f"201 (9 bytes, SHA-256 {digest}…" for digest in ("354aaef7", "828e18e6", "e7e47cff")
    )
    assert first == f"ok      the request with a new key: {one}). The work was done."
    assert retry == (
        f"ok      the same request with the same key: {one}, marked as a replay). "
        "A retry gets the first answer."
    )
    assert changed == (
        f"ok      other data with the same key: 422 key-reused; with a new key {two}). "
        "Other data under a used key is refused."
    )
    assert sorted(re.findall(r"201 \(.*?\)", twins)) == [
        f"{three})",
        f"{three}, marked as a replay)",
    ]
    assert twins.endswith(" Of two simultaneous requests one ran, and one got its answer.")


@pytest.mark.parametrize(
    ("way", "word", "sentence"),
    [
        (
            "sends_the_twin_away",
            "409 in-progress",
            "Of two simultaneous requests one ran, and one was told to wait.",
        ),
        (
            "refuses_other_data_with_409",
            "409 key-reused",
            "Other data under a used key is refused with 409, where 422 is usual.",
        ),
    ],
)
def test_s20_other_good_ways_pass_and_are_named(serve, way, word, sentence):
    status, lines = check(serve(way).url)
    assert status == 0
    assert lines[-1] == SAFE
    assert any(word in line and line.endswith(sentence) for line in lines)


@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        ("unprotected", "A retry runs the work again: it gets another answer."),
        (
            "ignores_a_changed_body",
            "Other data gets the first request's answer: the body is not compared.",
        ),
        (
            "runs_twins",
            "Both of two simultaneous requests ran: they get two different answers.",
        ),
        # It replays nothing that can be seen, and takes other data.
        (
            "constant",
            "Other data is not refused under a used key: it ran, or is not compared.",
        ),
    ],
)
def test_s20_an_endpoint_with_a_fault_fails_with_a_sentence(serve, way, sentence):
    status, lines = check(serve(way).url)
    assert status == 1
    assert lines[-1] == f"Not safe to retry: {sentence}"
    assert any(line.startswith("FAILED ") and line.endswith(sentence) for line in lines)


def test_where_every_answer_is_the_same_it_cannot_tell(serve):
    status, lines = check(serve("constant_but_compares").url)
    assert status == 3
    assert [line[:7] for line in lines[1:-1]] == [
        *("ok     ", "unclear", "ok     "),
        *["unclear"] * 3,
    ]
    assert lines[-1] == (
        "Cannot tell: The same answer, and nothing marks it as a replay: it may have run again."
    )


def test_data_that_is_refused_for_what_it_says_proves_nothing(serve):
    status, lines = check(serve("validates_and_ignores_a_changed_body").url, "--field", "to")
    assert status == 3
    assert lines[-1] == (
        "Cannot tell: The other data is refused under a new key too: change another --field."
    )


@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        (
            "answers_401",
            "The endpoint does not let the caller in: give credentials by "
            "-H 'Authorization: …'. It says: Invalid token.",
        ),
        ("answers_404", "There is nothing at this address that takes POST."),
        (
            "answers_400",
            "The endpoint refuses the request: look at --data and the headers. "
            'It says: {"to": ["This field is required."]}',
        ),
        (
            "wants_another_key",
            "The endpoint does not take the key, a UUID in the header Idempotency-Key. "
            "It says: A key has to be [2J a number.",
        ),
        ("answers_500", "The endpoint fails by itself: look at its log."),
        (
            "answers_429",
            "The endpoint has no time now, which tells nothing about keys: ask again later.",
        ),
        (
            "redirects",
            "The endpoint redirects to https://shop.example/payments/: "
            "give the address that it is at.",
        ),
        (
            "goes_by_another_header",
            "A new key got a replay: the endpoint does not go by the key that was sent.",
        ),
        (
            "breaks_off",
            "The connection broke; the work may be done: Remote end closed connection "
            "without response.",
        ),
    ],
)
def test_a_first_request_that_fails_says_why_and_is_the_only_one(serve, way, sentence):
    server = serve(way)
    status, lines = check(server.url)
    assert status == 3
    assert lines[-1] == f"Cannot tell: {sentence}"
    assert len(server.endpoint.requests) == 1


def test_nobody_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        status, lines = check(url)
    assert status == 3
    assert lines[-1] == ("Cannot tell: No connection, so nothing was sent: Connection refused.")


@pytest.mark.parametrize(("way", "asked"), [("never_answers", 1), ("holds_twins", 4)])
def test_an_answer_that_takes_too_long(serve, way, asked):
    status, lines = check(serve(way).url, "--timeout", "0.3")
    assert status == 3
    assert len(lines[1:-1]) == asked
    assert lines[-1] == (
        "Cannot tell: No answer within 0.3 s; the work may be done. See --timeout."
    )


def test_json_is_one_object_with_each_probe(serve):
    err = io.StringIO()
    server = serve("protected")
    status, lines = check(server.url, "--json", "--pairs", "1", stderr=err)
    (line,) = lines
    said = json.loads(line)
    assert status == said["status"] == 0
    assert said["url"] == server.url
    assert said["verdict"] == SAFE
    names = [probe["name"] for probe in said["probes"]]
    assert names == ["first", "retry", "changed body", "twins"]
    assert all(probe.keys() == {"name", "ok", "sent", "saw", "meaning"} for probe in said["probes"])
    assert [probe["ok"] for probe in said["probes"]] == [True] * 4
    assert "money moves" in err.getvalue()


def test_it_warns_before_it_sends(serve):
    server = serve("protected")

    class Terminal(io.StringIO):
        def flush(self) -> None:
            sent_by_then.append(len(server.endpoint.requests))

    sent_by_then: list[int] = []
    said = Terminal()
    call_command("check_idempotency", server.url, "--data", DATA, "--pairs", "2", stdout=said)
    assert sent_by_then[0] == 0
    assert said.getvalue().splitlines()[0] == (
        f"POST {server.url} (Content-Type: application/json), 39 bytes. "
        "This does the work 4 times or more: where it is production, money moves."
    )
    assert next(server.endpoint.ids) == 4 + 1


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_secrets_are_not_printed(serve, form):
    server, err = serve("protected"), io.StringIO()
    secrets = ("-H", "Authorization: Token alice-token", "-H", "X-Shop-Pass: open-sesame")
    _, lines = check(server.url + "?code=hidden", *secrets, *form, stderr=err)
    said = "\n".join([*lines, err.getvalue()])
    assert not re.search("alice-token|open-sesame|hidden", said)
    assert "/payments/?… (Content-Type: application/json, Authorization: …, X-Shop-Pass: …)" in said
    method, path, headers, _ = server.endpoint.requests[0]
    assert (method, path) == ("POST", "/payments/?code=hidden")
    assert headers["Authorization"] == "Token alice-token"
    assert headers["X-Shop-Pass"] == "open-sesame"


def test_each_question_has_the_keys_and_bodies_that_it_says(serve):
    server = serve("protected")
    check(server.url, "--pairs", "1", "-X", "patch", "-H", "content-type: application/shop+json")
    assert {method for method, *_ in server.endpoint.requests} == {"PATCH"}
    sent = [(h["Idempotency-Key"], body) for _, _, h, body in server.endpoint.requests]
    types = {h["Content-Type"] for _, _, h, _ in server.endpoint.requests}
    assert types == {"application/shop+json"}
    first, alone, twin = dict.fromkeys(key for key, _ in sent)
    changed = b'{"amount_cents": 2501, "to": "savings"}'
    assert sent == [
        *[(first, DATA.encode())] * 2,
        *[(first, changed), (alone, changed)],
        *[(twin, DATA.encode())] * 2,
    ]
