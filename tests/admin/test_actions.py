"""What a person may do to keys: release, settle, delete; who may, and of two, who wins."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from idempotency_app.models import IdempotencyKey
from tests.factories import ago, claim, make_key, row

from .test_pages import LIST, log_in

pytestmark = pytest.mark.django_db

RELEASE, SETTLE = "release_stale_lock", "settle_outcome"
RECORD = {"outcome": "record", "status": "201", "body": '{"id": 7}', "reason": "seen at the bank"}
NOT_HAPPENED = {"outcome": "release", "reason": "the bank knows nothing of it"}


@pytest.fixture
def support() -> Client:
    return log_in("support", "view", "release", "settle", "view_response")


def ask(client: Client, action: str, *records: IdempotencyKey) -> str:
    """Select the rows, and return the confirm page."""
    selected = [str(record.pk) for record in records]
    posted = {"action": action, "_selected_action": selected}
    response = client.post(LIST, posted)
    assert response.status_code == 200
    return response.content.decode()


def confirm(client: Client, action: str, shown: str, **fields: str) -> str:
    """Fill the confirm page in, and return what follows."""
    seen = re.findall(r'name="seen" value="([^"]+)"', shown)
    selected = [each.split(":")[0] for each in seen]
    posted = {"action": action, "_selected_action": selected, "seen": seen, "confirmed": "1"}
    response = client.post(LIST, {**posted, **fields}, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def history() -> list[str]:
    return [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]


def test_a_stale_lock_is_released_with_a_reason_that_goes_into_the_history(support):
    record = make_key(stale=True, key="k" * 60)
    shown = ask(support, RELEASE, record, make_key(), make_key(complete=True))
    assert "1 of 3 selected keys qualifies." in shown
    assert "a further request runs the work" in shown
    assert "Done: 1 key." in confirm(support, RELEASE, shown, reason="worker 3 was killed")
    assert row(record) is None
    assert history() == [
        f"Released the stale lock: worker 3 was killed (POST orders/, auth.user:7, key {'k' * 40})"
    ]


def test_a_stale_lock_with_a_step_waits_for_a_retry(support):
    record = make_key(stale=True, effects="repeatable", steps='{"charge": {}}')
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="dead")
    assert row(record)["state"] == "released"


@pytest.mark.parametrize("action", [RELEASE, SETTLE])
def test_without_a_reason_nothing_is_changed(support, action):
    record = make_key(**({"stale": True} if action == RELEASE else {"unresolved": True}))
    got = confirm(support, action, ask(support, action, record), outcome="release", reason=" ")
    assert "This field is required." in got
    assert row(record)
    assert history() == []


def test_s12_a_recorded_outcome_is_what_the_next_retry_gets(support):
    record = make_key(unresolved=True)
    assert claim(record).outcome == "outcome_unknown"
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    again = claim(record)
    assert again.outcome == "replay"
    assert (again.record.response_status, again.record.body) == (201, b'{"id": 7}')
    assert again.record.headers == [("Content-Type", "application/json")]
    assert history() == [
        f"Settled: recorded 201: seen at the bank (POST orders/, auth.user:7, key {record.key})"
    ]


def test_s12_released_because_it_did_not_happen_the_next_retry_runs(support):
    record = make_key(unresolved=True, steps="{}")
    confirm(support, SETTLE, ask(support, SETTLE, record), **NOT_HAPPENED)
    assert claim(record).outcome == "claimed"
    assert history()[0].startswith("Settled: it did not happen, released: ")


def test_s24_an_outcome_recorded_on_day_three_is_kept_for_a_full_retention(support):
    record = make_key(unresolved=True, expires_at=ago(days=2))
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    settled = IdempotencyKey.objects.get()
    assert settled.expires_at > settled.created_at + timedelta(hours=23)
    assert claim(record).outcome == "replay"


def test_what_has_a_finished_step_is_not_settled_as_not_happened(support):
    record = make_key(unresolved=True, steps='{"wire": {"result": 1}}')
    shown = ask(support, SETTLE, record)
    assert "a step has finished, so it did happen" in shown
    assert "Nothing was changed" in confirm(support, SETTLE, shown, **NOT_HAPPENED)
    assert row(record)


def test_one_response_is_recorded_for_one_key_at_a_time(support):
    records = [make_key(unresolved=True) for _ in range(2)]
    got = confirm(support, SETTLE, ask(support, SETTLE, *records), **RECORD)
    assert "one key at a time" in got
    assert not IdempotencyKey.objects.filter(state="complete").exists()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("status", "", "Say which status"),
        ("status", "99", "greater than or equal to 200"),
        ("status", "600", "less than or equal to 599"),
        ("outcome", "", "This field is required."),
        ("outcome", "both", "not one of the available choices"),
        ("body", "x" * (1024 * 1024 + 1), "at most 1,048,576 bytes"),
    ],
)
def test_what_cannot_be_recorded_is_refused_beside_its_field(support, field, value, says):
    record = make_key(unresolved=True)
    got = confirm(support, SETTLE, ask(support, SETTLE, record), **{**RECORD, field: value})
    assert says in got
    assert row(record)["state"] == "in_progress"


def test_of_two_people_one_wins_and_the_other_is_told_what_happened(support):
    record = make_key(unresolved=True, steps="{}")
    second = log_in("second", "view", "settle")
    seen_by_both = ask(support, SETTLE, record), ask(second, SETTLE, record)
    confirm(support, SETTLE, seen_by_both[0], **RECORD)
    got = confirm(second, SETTLE, seen_by_both[1], **NOT_HAPPENED)
    assert "Nothing was changed: it is complete now. support, 0\xa0minutes ago: Settled" in got
    assert IdempotencyKey.objects.get().response_status == 201


def test_a_retry_that_took_over_after_the_page_was_shown_keeps_its_lock(support):
    record = make_key(stale=True)
    shown = ask(support, RELEASE, record)
    assert claim(record).won
    assert "Nothing was changed" in confirm(support, RELEASE, shown, reason="dead")
    assert row(record)
    assert history() == []


@pytest.mark.parametrize("action", [RELEASE, SETTLE])
def test_a_crafted_post_of_a_view_only_account_does_nothing(action):
    state = {"stale": True} if action == RELEASE else {"unresolved": True}
    record = make_key(**state)
    viewer = log_in("viewer", "view")
    assert 'name="action"' not in viewer.get(LIST).content.decode()
    posted = {
        "action": action,
        "_selected_action": [str(record.pk)],
        "seen": [f"{record.pk}:{record.fencing_token}"],
        "confirmed": "1",
        **RECORD,
    }
    viewer.post(LIST, posted)
    assert row(record)["fencing_token"] == record.fencing_token
    assert viewer.get(f"{LIST}{record.pk}/delete/").status_code == 403
    assert viewer.post(f"{LIST}{record.pk}/delete/", {"post": "yes"}).status_code == 403
    assert row(record)


def test_each_action_needs_its_own_permission():
    record = make_key(unresolved=True)
    releaser = log_in("releaser", "view", "release")
    page = releaser.get(LIST).content.decode()
    assert RELEASE in page
    assert SETTLE not in page
    releaser.post(LIST, {"action": SETTLE, "_selected_action": [str(record.pk)]})
    assert row(record)["state"] == "in_progress"


@pytest.mark.parametrize("seen", [["x"], ["1"], ["1:x"], []])
def test_a_confirm_form_that_names_no_row_changes_nothing(support, seen):
    record = make_key(stale=True)
    posted = {"action": RELEASE, "_selected_action": [str(record.pk)], "seen": seen}
    support.post(LIST, {**posted, "confirmed": "1", "reason": "because"})
    assert row(record)


def test_a_closed_row_is_deleted_where_that_is_granted_and_the_page_says_what_follows():
    record = make_key(complete=True)
    cleaner = log_in("cleaner", "view", "delete")
    got = cleaner.get(f"{LIST}{record.pk}/delete/").content.decode()
    assert "a further request with it runs the work again" in got
    cleaner.post(f"{LIST}{record.pk}/delete/", {"post": "yes"})
    assert row(record) is None


@pytest.mark.parametrize("state", [{}, {"unresolved": True}, {"released": True}])
def test_a_live_lock_and_an_open_question_are_not_deleted(admin_client, state):
    record = make_key(**state)
    assert admin_client.post(f"{LIST}{record.pk}/delete/", {"post": "yes"}).status_code == 403
    assert "delete_selected" not in admin_client.get(LIST).content.decode()
    posted = {"action": "delete_selected", "_selected_action": [str(record.pk)], "post": "yes"}
    admin_client.post(LIST, posted)
    assert row(record)


def test_the_history_is_there_after_the_row_is_gone(support):
    record = make_key(stale=True)
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="worker 3 was killed")
    got = support.get(f"{LIST}{record.pk}/history/").content.decode()
    assert "worker 3 was killed" in got
    assert "released, deleted or reaped" in got


def test_the_page_of_a_key_offers_what_may_be_done_to_it_now(support):
    offered = {
        name: f'value="{name}"' in support.get(f"{LIST}{record.pk}/change/").content.decode()
        for name, record in (
            (RELEASE, make_key(stale=True)),
            (SETTLE, make_key(unresolved=True)),
        )
    }
    assert offered == {RELEASE: True, SETTLE: True}
    quiet = support.get(f"{LIST}{make_key().pk}/change/").content.decode()
    assert 'name="action"' not in quiet


def test_the_page_of_a_key_shows_its_history(support):
    record = make_key(unresolved=True)
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    assert "seen at the bank" in support.get(f"{LIST}{record.pk}/change/").content.decode()


def test_script_in_a_key_is_inert_on_the_confirm_page(support):
    record = make_key(stale=True, key="<script>alert(1)</script>", account="<script>alert(2)")
    assert "<script>alert" not in ask(support, RELEASE, record)
