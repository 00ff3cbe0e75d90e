"""What comes from outside: a user who may only look, and script in what clients send."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.models import LogEntry
from playwright.sync_api import expect

from tests.factories import make_key, row

from .conftest import LIST

SCRIPT = "<script>window.pwned = alert(1)</script>"
IMAGE = "<img src=x onerror=window.pwned=alert(2)>"
CLOSED = "</pre></script><svg onload=window.pwned=alert(3)>"
KEY = "<svg/onload=window.pwned=alert(4)>"
LINK = '"><a href="javascript:alert(5)" onfocus=alert(6) autofocus>x</a>'

HOSTILE = {
    "key": KEY,
    "account": f"tenant:{SCRIPT}",
    "endpoint": f"POST {IMAGE}",
    "steps": json.dumps({SCRIPT: {"result": {"y": CLOSED}}, IMAGE: {}}),
}
HOSTILE_RESPONSE = {
    "response_headers": json.dumps([["X-A", LINK], [SCRIPT, IMAGE]]),
    "response_body": json.dumps({"x": CLOSED, IMAGE: [SCRIPT]}).encode(),
}
STATES: dict[str, dict[str, Any]] = {
    "complete": HOSTILE_RESPONSE,
    "expired": HOSTILE_RESPONSE,
    "stale": {"effects": "repeatable"},
    "unresolved": {},
}


@pytest.fixture
def rows(live_server):
    return [
        make_key(key="stale-1", stale=True),
        make_key(key="unknown-1", unresolved=True, steps='{"wire": {}}'),
        make_key(key="done-1", complete=True),
    ]


def by_hand(record):
    """Return what the confirm page's form would send for the row."""
    return {
        "_selected_action": str(record.pk),
        "seen": f"{record.pk}:{record.fencing_token}:0",
        "confirmed": "1",
        "reason": "because",
    }


def test_a_viewer_sees_no_action_and_no_response(meet, rows):
    viewer = meet("viewer")
    page = viewer.look()
    expect(page.get_by_text("stale-1")).to_be_visible()
    assert page.locator("#content input[type=checkbox], select[name=action]").count() == 0
    assert page.get_by_text("Add idempotency key").count() == 0
    viewer.keep("viewer-list")
    for record in rows:
        viewer.look(f"{LIST}{record.pk}/change/")
        assert page.locator("#content button, #content input, #content .deletelink").count() == 0
    expect(page.get_by_text("You may not see the response.")).to_be_visible()
    expect(page.get_by_text('"id": 7')).to_have_count(0)
    viewer.keep("viewer-key")


def test_what_a_viewer_posts_by_hand_changes_nothing(meet, rows):
    before = [row(record) for record in rows]
    viewer = meet("viewer")
    viewer.look()
    recorded = {"outcome": "record", "status": "201", "body": "{}"}
    for record in rows:
        confirmed = by_hand(record)
        viewer.post(LIST, action="release_stale_lock", **confirmed)
        viewer.post(LIST, action="settle_outcome", **confirmed, **recorded)
        viewer.post(LIST, action="settle_outcome", **confirmed, outcome="release")
        viewer.post(LIST, action="delete_selected", post="yes", **confirmed)
        viewer.post(f"{LIST}{record.pk}/change/", state="complete", key="other")
        assert viewer.post(f"{LIST}{record.pk}/delete/", post="yes") == 403
    assert viewer.post(f"{LIST}add/", key="new", account="a", endpoint="POST x/") == 403
    assert [row(record) for record in rows] == before
    assert LogEntry.objects.count() == 0
    assert viewer.forgive("403 (Forbidden)") == len(rows) + 1
    # The same from somebody who may, or the above would show nothing.
    boss = meet("boss")
    boss.look()
    boss.post(LIST, action="release_stale_lock", **by_hand(rows[0]))
    boss.post(LIST, action="settle_outcome", **by_hand(rows[1]), **recorded)
    assert row(rows[0]) is None
    assert row(rows[1])["response_status"] == 201


@pytest.mark.parametrize("state", STATES)
def test_b33_script_in_what_a_client_sent_stays_inert_on_every_page(meet, live_server, state):
    record = make_key(**{state: True}, **HOSTILE, **STATES[state])
    boss = meet("boss")

    def assert_inert():
        assert boss.page.evaluate("window.pwned") is None
        for markup in ("svg[onload]", "img[src=x]", "[onfocus]", "a[href^=javascript]"):
            assert boss.page.locator(markup).count() == 0

    pages = ["", f"?q={quote(KEY)}", f"{record.pk}/change/", f"{record.pk}/history/"]
    pages += [f"{record.pk}/delete/"] if state in ("complete", "expired") else []
    for path in pages:
        boss.look(f"{LIST}{path}")
        assert_inert()
    boss.look(f"{LIST}{record.pk}/change/")
    expect(boss.page.get_by_text(KEY).first).to_be_visible()
    boss.keep(f"script-{state}")
    for action in ("Release a stale lock", "Settle an unknown outcome"):
        boss.look()
        boss.choose(action, "svg/onload")
        expect(boss.page.get_by_text("of 1 selected key")).to_be_visible()
        assert_inert()


def test_b33_script_in_a_reason_stays_inert_in_the_history(meet, live_server):
    record = make_key(stale=True, key=KEY, account=f"tenant:{SCRIPT}", endpoint=f"POST {IMAGE}")
    boss = meet("boss")
    page = boss.look()
    boss.choose("Release a stale lock", "svg/onload")
    page.get_by_label("Reason").fill(f"{SCRIPT}{IMAGE}")
    page.get_by_role("button", name="Release a stale lock").click()
    expect(page.get_by_text("Done: 1 key.")).to_be_visible()
    for path in (f"{LIST}{record.pk}/history/", "/admin/"):
        boss.look(path)
        assert page.evaluate("window.pwned") is None
        assert page.locator("img[src=x]").count() == 0
    boss.look(f"{LIST}{record.pk}/history/")
    expect(page.get_by_text(f"Released the stale lock: {SCRIPT}{IMAGE}")).to_be_visible()


def test_b33_script_in_a_search_stays_inert(meet):
    boss = meet("boss")
    page = boss.look()
    page.locator("#searchbar").fill(LINK + SCRIPT)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No key and no account is exactly")).to_be_visible()
    expect(page.locator("#searchbar")).to_have_value(LINK + SCRIPT)
    assert page.evaluate("window.pwned") is None
    assert page.locator("[onfocus]").count() == 0
