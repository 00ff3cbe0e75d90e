"""S20: the smoke test against the served demo."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command

from .live import CHARGE, CONTENT

TOKEN = "Authorization: Token bob-token"


def check(url: str, data: object, *args: str) -> tuple[int, list[str]]:
    """Return the exit status and the lines that were said."""
    out = io.StringIO()
    status = 0
    try:
        call_command("check_idempotency", url, "--data", json.dumps(data), *args, stdout=out)
    except SystemExit as error:
        status = int(str(error.code))
    return status, out.getvalue().splitlines()


@pytest.mark.parametrize(
    "path", ["/api/transfers/", "/api/charges/", "/api/wires/", "/api/messages/"]
)
def test_s20_what_the_demo_protects_passes(live_demo, path):
    # A changed text is still a text; the address of a mail would be refused for what it is.
    field = ["--field", "text"] if path == "/api/messages/" else []
    status, lines = check(live_demo.url + path, CONTENT[path], "-H", TOKEN, *field)
    assert status == 0
    assert [line[:7] for line in lines[1:-1]] == ["ok     "] * 6
    assert "422 key-reused" in lines[3]
    assert lines[-1] == "Safe to retry, as far as this can be seen from outside."


def test_s20_the_unprotected_endpoint_fails(live_demo):
    url = live_demo.url + "/api/unprotected/charges/"
    status, lines = check(url, CHARGE, "-H", TOKEN)
    assert status == 1
    assert lines[-1] == "Not safe to retry: A retry runs the work again: it gets another answer."


def test_s20_without_a_token_it_says_to_give_one(live_demo):
    url = live_demo.url + "/api/transfers/"
    status, lines = check(url, CONTENT["/api/transfers/"])
    assert status == 3
    assert lines[-1].startswith("Cannot tell: The endpoint does not let the caller in: ")


def test_s20_it_does_the_work_as_often_as_it_says(live_demo):
    before = live_demo.counts("bob-token")
    check(live_demo.url + "/api/wires/", CONTENT["/api/wires/"], "-H", TOKEN)
    assert live_demo.counts("bob-token")["wires"] - before["wires"] == 5
