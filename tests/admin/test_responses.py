"""What is shown of a recorded response: to whom, without its secrets, and never as markup."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.utils.html import escape

from idempotency_app import sealing
from tests.factories import claim, make_key

from .test_pages import LIST, log_in, page, text

pytestmark = pytest.mark.django_db

DEEP = 100_000  # brackets, more than Python's parser takes


def test_the_response_needs_its_own_permission():
    record = make_key(complete=True, response_body=b'{"id": 4711}')
    assert "4711" not in page(log_in("viewer", "view"), record)
    assert "4711" in page(log_in("support", "view", "view_response"), record)


def test_the_response_is_redacted_at_any_depth(admin_client, settings):
    settings.IDEMPOTENCY_APP = {"REDACT_FIELDS": ["CVC"]}
    got = page(
        admin_client,
        make_key(complete=True, response_body=b'{"card": [{"cvc": "737", "last4": "4242"}]}'),
    )
    assert "737" not in got
    assert "4242" in got


def test_a_form_is_redacted_too(admin_client):
    got = page(admin_client, make_key(complete=True, response_body=b"password=hunter2&user=ada"))
    assert "hunter2" not in got
    assert "user=ada" in got


def test_bytes_are_counted_and_long_text_is_cut(admin_client):
    assert "3 bytes, not text." in page(
        admin_client, make_key(complete=True, response_body=b"\xff\xfe\x00")
    )
    got = page(admin_client, make_key(complete=True, response_body=b"a" * 20_000))
    assert "[20,000 bytes in all]" in got
    assert "a" * 10_001 not in got


def shown(client: Any, body: bytes) -> str:
    return page(client, make_key(complete=True, response_body=body)).split("<pre>")[1]


@pytest.mark.parametrize(
    "body",
    [
        b"card[cvc]=s3cret&ok=1",
        b"card.cvc=s3cret&ok=1",
        b"ok=1\r\npassword=s3cret",
        b"client%5Fsecret=s3cret&ok=1",
        b'{"ok": 1, "clientSecret": "s3cret"}',
        b'{"ok": 1, "Client-Secret": {"deep": ["s3cret"]}}',
        b'\xef\xbb\xbf{"ok": 1, "password": "s3cret"}',
        '{"ok": 1, "password": "s3cret"}'.encode("utf-16"),
    ],
)
def test_a_secret_field_is_redacted_however_it_is_spelt(admin_client, body):
    got = shown(admin_client, body)
    assert "s3cret" not in got
    assert "[redacted]" in got
    assert "ok" in got


@pytest.mark.parametrize(
    "body",
    [
        b'{"password": "s3cret"}\n{"password": "s3cret"}',
        b'{"password": "s3cret", "n": 1' + b"0" * 5000 + b"}",
        b'{"password": "s3cret", ',
        b'{"password": "s3cret", "deep": ' + b"[" * DEEP + b"]" * DEEP + b"}",
        '{"password": "s3cret"'.encode("utf-16-le"),
    ],
)
def test_what_looks_like_json_and_cannot_be_redacted_is_not_shown(admin_client, body):
    got = shown(admin_client, body)
    assert "s3cret" not in got
    assert f"{len(body):,} bytes" in got


def test_a_form_keeps_the_rest_as_it_was(admin_client):
    got = shown(admin_client, b"a=%C3%A9+1&password=x&b=")
    assert "a=%C3%A9+1&amp;password=[redacted]&amp;b=</pre>" in got


def test_headers_are_redacted_by_name_and_so_are_fields_of_an_address(admin_client):
    headers = [["X-Ok", "fine"], ["Api-Key", "s3cret"], ["Location", "/a/?next=1&token=s3cret"]]
    record = make_key(complete=True, response_headers=json.dumps(headers))
    got = page(admin_client, record)
    assert "s3cret" not in got
    assert "<dd>fine</dd>" in got
    assert "<dd>/a/?next=1&amp;token=[redacted]</dd>" in got


@pytest.mark.parametrize("body", [b'{"a": "\\ud800"}', b'"\\ud800"', b"", b"null", b'"text"'])
def test_a_body_of_any_characters_is_a_page(admin_client, body):
    record = make_key(
        complete=True,
        response_body=body,
        response_headers='[["X-Odd", "\\ud800"]]',
        steps='{"\\ud800": {"result": "\\ud800"}}',
    )
    assert page(admin_client, record)


def test_text_with_a_nul_is_not_text(admin_client):
    assert "3 bytes, not text." in shown(admin_client, b"a\0b")


def test_without_the_permission_the_payload_does_not_reach_the_template():
    record = make_key(complete=True, steps='{"charge": {"result": {"id": "ch_9"}}}')
    context = log_in("viewer", "view").get(f"{LIST}{record.pk}/change/").context
    assert (context["body"], context["headers"]) == ("", [])
    assert [step["result"] for step in context["steps"]] == [""]


def test_an_empty_body_and_one_that_was_not_kept_are_told_apart(admin_client):
    assert "Empty." in shown(admin_client, b"")
    record = make_key(complete=True, response_body=None)
    got = page(admin_client, record)
    assert "Not kept." in got
    assert "A further request gets 409 response-not-kept." in got


def test_results_of_steps_need_the_permission_and_are_redacted():
    record = make_key(released=True, steps='{"charge": {"result": {"id": "ch_9", "pin": "s3c"}}}')
    viewer = page(log_in("viewer", "view"), record)
    assert "charge" in viewer
    assert "ch_9" not in viewer
    support = page(log_in("support", "view", "view_response"), record)
    assert "ch_9" in support
    assert "s3c" not in support


@pytest.fixture
def sealed(settings: Any) -> dict[str, Any]:
    """What was encrypted with a key that is gone."""
    settings.IDEMPOTENCY_APP = {"ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
    values = {
        "response_headers": sealing.seal_text("[]"),
        "response_body": sealing.seal_body(b"hello"),
        "steps": sealing.seal_text('{"charge": {"result": 1}}'),
    }
    settings.IDEMPOTENCY_APP = {"ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
    return values


def test_a_response_whose_key_is_gone_is_said_to_be_and_what_a_request_gets(admin_client, sealed):
    got = page(admin_client, make_key(complete=True, **sealed))
    assert "A further request gets 409 response-not-kept." in got
    assert "the recorded response, 201" not in got
    assert got.count("Encrypted with a key that is gone.") == 2


@pytest.mark.parametrize("state", ["stale", "released"])
def test_steps_whose_key_is_gone_are_held_and_the_page_says_so(admin_client, sealed, state):
    record = make_key(**{state: True, "effects": "repeatable", "steps": sealed["steps"]})
    assert claim(record).outcome == "outcome_unknown"
    assert "409 outcome-unknown" in page(admin_client, record).split("<h2>Request</h2>")[0]


def test_b33_script_in_a_stored_body_is_text(admin_client):
    """The list, the page, the page for deleting it and the search, as the report has them."""
    values = {
        "key": "<svg/onload=1>",
        "response_body": b'{"x":"</script><img src=x onerror=alert(1)>"}',
        "response_headers": '[["X-A", "<b>1</b>"]]',
    }
    record = make_key(complete=True, **values)
    of_record = page(admin_client, record)
    pages = [text(admin_client), of_record, text(admin_client, q="<svg/onload=1>")]
    pages += [text(admin_client, f"{LIST}{record.pk}/{each}/") for each in ("delete", "history")]
    for got in pages:
        for markup in ("<img src=x", "<svg/onload", "<b>1</b>"):
            assert markup not in got
    assert escape("<img src=x onerror=alert(1)>") in of_record
    assert escape("<b>1</b>") in of_record
