"""What an operator may record as the response, and how a mistake is told."""

from __future__ import annotations

import pytest

from idempotency_app.models import IdempotencyKey
from tests.factories import claim, make_key, row

from .acting import RECORD, SETTLE, ask, confirm, history

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"id": 7}', "application/json"),
        (' "text" ', "application/json"),
        ("sent on Monday\r\nby hand", "text/plain; charset=utf-8"),
        ("{'id': 7}", "text/plain; charset=utf-8"),
        ("NaN", "text/plain; charset=utf-8"),
        ("[" * 100_000, "text/plain; charset=utf-8"),
        ("", "text/plain; charset=utf-8"),
        ("é <b>", "text/plain; charset=utf-8"),
    ],
)
def test_the_body_is_json_where_it_parses_and_text_otherwise(support, body, kind):
    record = make_key(unresolved=True)
    confirm(support, SETTLE, ask(support, SETTLE, record), **{**RECORD, "body": body})
    settled = claim(record).record
    assert settled.body == body.replace("\r\n", "\n").encode()
    assert settled.headers == [("Content-Type", kind)]


def test_one_response_is_recorded_for_one_key_at_a_time(support):
    records = [make_key(unresolved=True, steps="{}") for _ in range(2)]
    shown = ask(support, SETTLE, *records)
    assert "A response is recorded for one key at a time" in shown
    assert 'value="record"' not in shown
    assert 'name="status"' not in shown
    got = confirm(support, SETTLE, shown, **RECORD)
    assert "Record a response for one key at a time." in got
    assert not IdempotencyKey.objects.filter(state="complete").exists()
    assert history() == []


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("status", "", "Say which status"),
        ("status", "99", "greater than or equal to 200"),
        ("status", "600", "less than or equal to 599"),
        ("status", "created", "Enter a whole number"),
        ("outcome", "", "This field is required."),
        ("outcome", "both", "not one of the available choices"),
        ("body", "x" * (1024 * 1024 + 1), "at most 1,048,576 bytes"),
        ("body", "é" * (512 * 1024 + 1), "at most 1,048,576 bytes"),
        ("body", "a\x00b", "Null characters are not allowed"),
    ],
)
def test_what_cannot_be_recorded_is_refused_beside_its_field(support, field, value, says):
    record = make_key(unresolved=True, steps="{}")
    got = confirm(support, SETTLE, ask(support, SETTLE, record), **{**RECORD, field: value})
    error = got.split(f'id="id_{field}_error"')[1].split("</ul>")[0]
    assert says in error
    assert row(record)["state"] == "in_progress"
    assert history() == []


@pytest.mark.parametrize("status", ["204", "205", "304"])
def test_a_status_without_a_body_gets_none(support, status):
    record = make_key(unresolved=True)
    shown = ask(support, SETTLE, record)
    got = confirm(support, SETTLE, shown, **{**RECORD, "status": status})
    assert f"A response with {status} has no body." in got
    confirm(support, SETTLE, got, **{**RECORD, "status": status, "body": ""})
    assert claim(record).record.response_status == int(status)
