"""What support does in the admin, from the log-in to what the client's retry then gets."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import expect

from idempotency_app.models import IdempotencyKey
from tests.browser import urls
from tests.cases.support import BODY, ViewClient, age
from tests.factories import make_key, row

from .conftest import LIST


@pytest.fixture
def wires(monkeypatch):
    monkeypatch.setattr(urls, "wires", urls.Wires())
    return urls.wires


@pytest.fixture
def send(wires, live_server):
    """Send the wire under its key again, as its client does."""

    def send():
        headers = {"Idempotency-Key": "wire-1"}
        response = httpx.post(f"{live_server.url}/wires/", json=BODY, headers=headers, timeout=20)
        return response.status_code, response.headers.get("Idempotent-Replayed"), response.content

    return send


@pytest.fixture
def lost_wire(live_server, wires):
    """The key of a wire whose worker was killed when the wire had gone."""
    with pytest.raises(SystemExit):
        ViewClient(wires.view, route="wires/").send("wire-1", to="/wires/")
    age(61)
    return IdempotencyKey.objects.get()


def test_support_logs_in_filters_searches_and_opens_a_key(meet):
    make_key(key="stale-1", stale=True)
    record = make_key(key="done-1", complete=True, endpoint="POST payments/", account="tenant:acme")
    support = meet("support")
    page = support.page
    page.get_by_role("link", name="View", exact=True).click()
    expect(page.get_by_text("1 stale, the oldest")).to_be_visible()
    expect(page.get_by_text("POST payments/ → 201")).to_be_visible()
    support.keep("list")
    page.get_by_role("link", name="Stale lock").click()
    expect(page.get_by_text("1 key", exact=True)).to_be_visible()
    expect(page.get_by_text("done-1")).to_have_count(0)
    support.keep("list-filtered")
    support.look()
    page.locator("#searchbar").fill(' "done-1"')
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("stale-1")).to_have_count(0)
    page.get_by_role("link", name="done-1").click()
    expect(page.get_by_text("The request is done.")).to_be_visible()
    expect(page.get_by_text('"id": 7')).to_be_visible()
    assert f"{LIST}{record.pk}/change/" in page.url
    support.keep("key")


def test_s22_a_stale_lock_is_released_and_its_history_stays(meet):
    record = make_key(key="stale-1", stale=True)
    make_key(key="live-1")
    support = meet("support")
    page = support.look(f"{LIST}?state=stale")
    support.choose("Release a stale lock", "stale-1")
    expect(page.get_by_text("1 of 1 selected key qualifies.")).to_be_visible()
    support.keep("release")
    page.get_by_label("Reason").fill("worker 3 was killed")
    page.get_by_role("button", name="Release a stale lock").click()
    expect(page.get_by_text("Done: 1 key.")).to_be_visible()
    assert row(record) is None
    support.look(f"{LIST}{record.pk}/history/")
    expect(page.get_by_text("Released the stale lock: worker 3 was killed")).to_be_visible()
    support.keep("history-of-a-key-that-is-gone")


def test_s12_a_recorded_outcome_is_what_the_next_retry_gets(meet, lost_wire, send, wires):
    support = meet("support")
    page = support.look(f"{LIST}?state=unknown")
    page.get_by_role("link", name="wire-1").click()
    expect(page.get_by_text("nobody knows how it ended")).to_be_visible()
    support.keep("key-unknown")
    page.get_by_role("button", name="Settle the outcome").click()
    support.keep("settle")
    page.get_by_label("It happened").check()
    page.get_by_label("HTTP status").fill("201")
    page.get_by_label("Body of the response").fill('{"id":  7}')
    page.get_by_label("Reason").fill("seen at the bank")
    page.get_by_role("button", name="Settle an outcome").click()
    expect(page.get_by_text("Done: 1 key.")).to_be_visible()
    assert send() == (201, "true", b'{"id":  7}')
    assert len(wires.network.asked) == 1
    support.look(f"{LIST}{lost_wire.pk}/change/")
    expect(page.get_by_text("Settled: recorded 201: seen at the bank")).to_be_visible()
    support.keep("key-settled")


def test_s24_an_outcome_that_did_not_happen_is_released_and_the_retry_runs(
    meet, lost_wire, send, wires
):
    support = meet("support")
    page = support.look(f"{LIST}{lost_wire.pk}/change/")
    page.get_by_role("button", name="Settle the outcome").click()
    page.get_by_label("It did not happen").check()
    page.get_by_label("Reason").fill("the bank knows nothing of it")
    page.get_by_role("button", name="Settle an outcome").click()
    expect(page.get_by_text("Done: 1 key.")).to_be_visible()
    status, replayed, _ = send()
    assert (status, replayed) == (201, None)
    assert len(wires.network.asked) == 2


def test_a_mistake_in_the_form_is_told_beside_its_field_and_changes_nothing(meet):
    record = make_key(key="wire-1", unresolved=True)
    before = row(record)
    support = meet("support")
    page = support.look(f"{LIST}{record.pk}/change/")
    page.get_by_role("button", name="Settle the outcome").click()
    page.get_by_label("It happened").check()
    page.get_by_label("Reason").fill("seen at the bank")
    page.get_by_role("button", name="Settle an outcome").click()
    expect(page.get_by_text("Say which status the next retry gets.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("seen at the bank")
    support.keep("settle-with-a-mistake")
    assert row(record) == before


def test_of_two_people_at_once_the_second_is_told_what_the_first_did(meet):
    record = make_key(key="wire-1", unresolved=True, steps='{"wire": {}}')
    support, boss = meet("support"), meet("boss")
    for person in (support, boss):
        person.look(f"{LIST}?state=unknown")
        person.choose("Settle an unknown outcome", "wire-1")
    support.page.get_by_label("It happened").check()
    support.page.get_by_label("HTTP status").fill("201")
    support.page.get_by_label("Reason").fill("seen at the bank")
    support.page.get_by_role("button", name="Settle an outcome").click()
    expect(support.page.get_by_text("Done: 1 key.")).to_be_visible()
    boss.page.get_by_label("It did not happen").check()
    boss.page.get_by_label("Reason").fill("the bank knows nothing of it")
    boss.page.get_by_role("button", name="Settle an outcome").click()
    expect(boss.page.get_by_text("Nothing was changed: it is complete now.")).to_be_visible()
    told = boss.page.get_by_text("support, 0\xa0minutes ago: Settled: recorded 201")
    expect(told).to_be_visible()
    boss.keep("told-what-happened-meanwhile")
    assert row(record)["response_status"] == 201
