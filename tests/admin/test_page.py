"""The page of a key: what happened, what a further request gets, and when."""

from __future__ import annotations

import pytest
from django.contrib.admin import AdminSite
from django.db import connection
from django.test.utils import CaptureQueriesContext

from idempotency_app.admin import IdempotencyKeyAdmin
from idempotency_app.models import IdempotencyKey
from tests.factories import OTHER_FINGERPRINT, ago, claim, make_key

from .test_pages import LIST, STATES, TABLE, log_in, page, text

pytestmark = pytest.mark.django_db


def test_b61_the_page_of_a_key_asks_for_its_row_once():
    support = log_in("support", "view", "release", "settle", "view_response")
    record = make_key(complete=True)
    with CaptureQueriesContext(connection) as captured:
        page(support, record)
    assert len(captured) <= 8
    assert (
        len([each for each in captured if f'FROM "{TABLE}"' in each["sql"].replace("`", '"')]) == 1
    )


@pytest.mark.parametrize("words", STATES)
def test_the_page_opens_with_one_sentence_of_what_a_further_request_gets(admin_client, words):
    got = page(admin_client, make_key(**STATES[words]))
    expected = {
        "in flight": "409 in-progress",
        "stale lock": "takes over, and runs the work",
        "outcome unknown": "409 outcome-unknown until somebody settles it here",
        "waiting for a retry": "runs what follows its finished steps",
        "complete": "gets the recorded response, 201",
        "expired": "is a new one, and runs",
        "response expired, key remembered": "409 key-expired",
    }
    assert expected[words] in got.split("<h2>Request</h2>")[0]


def test_a_stale_lock_that_has_expired_with_nothing_begun_is_as_good_as_new(admin_client):
    record = make_key(stale=True, expires_at=ago(hours=1))
    got = page(admin_client, record).split("<h2>Request</h2>")[0]
    assert "A further request is a new one, and runs." in got
    assert claim(record, fingerprint=OTHER_FINGERPRINT).outcome == "claimed"


@pytest.mark.parametrize(
    "values",
    [
        {"unresolved": True},
        {"released": True},
        {"stale": True, "effects": "repeatable", "steps": "{}"},
    ],
)
def test_an_open_question_does_not_expire(admin_client, values):
    record = make_key(**values, expires_at=ago(days=2))
    assert "not while unresolved" in text(admin_client)
    assert "not while unresolved" in page(admin_client, record)


def test_the_timeline_has_relative_times_and_whole_stamps(admin_client):
    record = make_key(
        remembered=True, created_at=ago(days=2), locked_at=ago(days=2), expires_at=ago(hours=3)
    )
    got = page(admin_client, record).replace("&#x2B;", "+").replace("\xa0", " ")
    stamp = record.created_at.isoformat(sep=" ", timespec="seconds")
    assert f'<time datetime="{stamp}" title="{stamp}">2 days ago</time>' in got
    assert f">{stamp}</span>" in got
    assert f'title="{record.expires_at.isoformat(sep=" ", timespec="seconds")}">3 hours ago' in got
    assert "Remembered until" in got
    assert "in 4 weeks" in got


def test_a_key_that_is_kept_for_ever_says_so(admin_client):
    record = make_key(complete=True, expires_at=None)
    assert "<dt>Expires</dt><dd>never</dd>" in page(admin_client, record)
    assert ">never<" in text(admin_client)


def test_a_second_admin_site_keeps_to_its_own_addresses(rf, admin_user):
    site = AdminSite(name="second")
    record = make_key(complete=True)
    request = rf.get("/")
    request.user = admin_user
    IdempotencyKeyAdmin(IdempotencyKey, site).change_view(request, str(record.pk))
    assert request.current_app == "second"


def test_steps_show_their_downstream_key(admin_client):
    from idempotency_app.attempts import Attempt
    from idempotency_app.policy import Idempotency

    record = make_key(released=True, steps='{"charge": {"result": "ch_1"}}')
    expected = Attempt(Idempotency().resolve(), record).downstream_key("charge")
    assert expected in page(admin_client, record)


def test_a_key_that_is_gone_leads_back_with_a_message(admin_client):
    assert admin_client.get(f"{LIST}99999/change/").status_code == 302
