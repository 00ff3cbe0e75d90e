"""S20: the options of the smoke test: what it sends, and what it refuses to."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command, execute_from_command_line

from idempotency_app.management.probing import changed_body, is_same

from .probed import Server

DATA = '{"amount_cents": 2500, "to": "savings"}'
NOWHERE = "http://127.0.0.1:9/"
NO_OBJECT = "The data is no JSON object with fields: give the other body by --changed-data."


@pytest.mark.parametrize(
    ("data", "field", "changed"),
    [
        ('{"to": "savings", "cents": 25}', None, {"to": "savings", "cents": 26}),
        ('{"is_now": true, "to": "savings"}', None, {"is_now": True, "to": "savingsx"}),
        ('{"to": "savings", "cents": 25}', "to", {"to": "savingsx", "cents": 25}),
        ('{"pay": {"items": [{"n": 1}]}}', "pay.items.0.n", {"pay": {"items": [{"n": 2}]}}),
        ('{"rate": 0.5}', None, {"rate": 1.5}),
        ('{"rate": 1e300}', None, {"rate": 5e299}),
        ('{"id": 9007199254740993}', None, {"id": 9007199254740994}),
    ],
)
def test_one_field_is_changed(data, field, changed):
    assert json.loads(changed_body(data.encode(), field)) == changed


@pytest.mark.parametrize(
    ("data", "field", "says"),
    [
        ("[]", None, NO_OBJECT),
        ("{}", None, NO_OBJECT),
        ("null", None, NO_OBJECT),
        ("a=b", None, NO_OBJECT),
        ('{"n": NaN}', None, NO_OBJECT),
        ("\udcff", None, NO_OBJECT),
        (
            '{"pay": {"cents": 1}}',
            None,
            "There is no field with a number or a text at the top: name one by --field.",
        ),
        (DATA, "nope", "There is no field 'nope' with a number or a text."),
        (DATA, "to.0", "There is no field 'to.0' with a number or a text."),
        ('{"pay": {}}', "pay", "There is no field 'pay' with a number or a text."),
        ('{"is_now": true}', "is_now", "There is no field 'is_now' with a number or a text."),
        ('{"items": [1]}', "items.x", "There is no field 'items.x' with a number or a text."),
        ('{"items": [1]}', "items.1", "There is no field 'items.1' with a number or a text."),
    ],
)
def test_what_cannot_be_changed_says_what_to_do(data, field, says):
    with pytest.raises(ValueError, match=r"^The") as refused:
        changed_body(data.encode(errors="surrogateescape"), field)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a": 1, "b": 2}', b'{"b":2,"a":1}', True),
        (b"a=1", b"a=1", True),
        (b"a=1", b"a=2", False),
        (b'{"a": 1}', b'{"a": true}', False),
        (b'{"a": 1}', b"null", False),
    ],
)
def test_bodies_that_say_the_same(one, other, same):
    assert is_same(one, other) is same


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--data", "[]"], NO_OBJECT),
        (["--field", "nope"], "There is no field 'nope' with a number or a text."),
        (["--data", "@/no/such/file"], "Cannot read /no/such/file: No such file or directory."),
        (["--changed-data", DATA + " "], "The other body says the same as the first."),
        (
            ["--changed-data", "x", "--field", "to"],
            "Give --field or --changed-data, not both.",
        ),
        (["-H", "nonsense"], "A header is written 'Name: value', in ASCII."),
        (["-H", "a b: c"], "A header is written 'Name: value', in ASCII."),
        (["-H", "a: b\r\nc: d"], "A header is written 'Name: value', in ASCII."),
        (["-H", "a: é"], "A header is written 'Name: value', in ASCII."),
        (["-H", "idempotency-key: 1"], "The command sets Idempotency-Key by itself."),
        (["-H", "Content-Length: 1"], "The command sets Content-Length by itself."),
        (["-X", "get"], "GET is no method that does work."),
        (["-X", "A B"], "A B is no method that does work."),
    ],
)
def test_a_bad_option_is_refused_before_anything_is_sent(args, says):
    with pytest.raises(CommandError) as refused:
        call_command("check_idempotency", NOWHERE, "--data", DATA, *args)
    assert str(refused.value) == says
    assert refused.value.returncode == 2


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/hosts", "ftp://a/", "shop.example/pay", "http://", "http:///pay"),
        *("http://a:port/", "http://a:99999/", "http://a:0/", "http://[::1/", "http://a/\n"),
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(CommandError) as refused:
        call_command("check_idempotency", url, "--data", DATA)
    assert str(refused.value) == ("The URL has to be whole, and begin with http:// or https://.")
    assert refused.value.returncode == 2


def test_credentials_in_the_address_are_refused_and_not_repeated():
    with pytest.raises(CommandError) as refused:
        call_command("check_idempotency", "http://me:secret@127.0.0.1:9/", "--data", DATA)
    assert str(refused.value) == "Give credentials by -H 'Authorization: …', not in the URL."


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--pairs", "0", "'0' is not a whole number of at least 1"),
        ("--timeout", "0", "'0' is not a number of seconds above 0, at most a day"),
        ("--timeout", "nan", "'nan' is not a number of seconds above 0, at most a day"),
        ("--timeout", "1e9", "'1e9' is not a number of seconds above 0, at most a day"),
        ("--timeout", "soon", "'soon' is not a number of seconds above 0, at most a day"),
    ],
)
def test_a_number_that_is_none_is_refused_from_the_shell_too(option, value, says, capsys):
    with pytest.raises(SystemExit) as exit_:
        execute_from_command_line(["manage.py", "check_idempotency", NOWHERE, option, value])
    assert exit_.value.code == 2
    assert says in capsys.readouterr().err


def test_a_bad_option_exits_with_2_from_the_shell(capsys):
    with pytest.raises(SystemExit) as exit_:
        execute_from_command_line(["manage.py", "check_idempotency", "ftp://a/"])
    assert exit_.value.code == 2
    assert "CommandError: The URL has to be whole" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["file", "stdin", "text"])
def test_data_comes_as_curl_takes_it(source, tmp_path, monkeypatch):
    path = tmp_path / "body.json"
    path.write_text(DATA)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(DATA.encode())))
    given = {"file": f"@{path}", "stdin": "@-", "text": DATA}[source]
    server = Server("protected")
    try:
        call_command(
            "check_idempotency", server.url, "-d", given, "--pairs", "1", stdout=io.StringIO()
        )
    finally:
        server.stop()
    assert server.endpoint.requests[0][3] == DATA.encode()


def test_the_help_says_what_the_exit_statuses_are_and_that_money_moves(capsys):
    with pytest.raises(SystemExit):
        execute_from_command_line(["manage.py", "check_idempotency", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "Exit status: 0 safe; 1 not safe; 2 bad option; 3 where that cannot be told" in said
    assert "money moves where the endpoint moves money; not for production" in said
