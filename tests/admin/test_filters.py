"""The filters: fixed choices in an indexed order, and no other look into the columns."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import ago, make_key

from .test_pages import LIST, STATES, log_in, text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ("in_flight", {"in flight"}),
        ("stale", {"stale lock", "outcome unknown"}),
        ("unknown", {"outcome unknown"}),
        ("waiting", {"waiting for a retry"}),
        ("complete", {"complete", "expired", "response expired, key remembered"}),
        ("expired", {"expired", "response expired, key remembered"}),
    ],
)
def test_each_filter_finds_its_states(admin_client, choice, found):
    for words, values in STATES.items():
        make_key(key=words.replace(" ", "-").replace(",", ""), **values)
    got = text(admin_client, state=choice)
    assert {words for words in STATES if f">{words}</span>" in got} == found


def test_a_filter_puts_first_what_has_waited_longest_and_the_list_what_is_new(admin_client):
    for hours in (2, 9, 5):
        make_key(key=f"since-{hours}", stale=True, locked_until=ago(hours=hours))
    keys = re.compile(r'title="since-(\d)"')
    assert keys.findall(text(admin_client, state="stale")) == ["9", "5", "2"]
    assert keys.findall(text(admin_client)) == ["5", "9", "2"]


def test_the_created_filter_leaves_out_what_is_older(admin_client):
    make_key(key="old-one", complete=True, created_at=ago(hours=2))
    make_key(key="new-one", complete=True, created_at=ago(minutes=2))
    got = text(admin_client, created="hour")
    assert "new-one" in got
    assert "old-one" not in got


@pytest.mark.parametrize(
    "lookup",
    [
        {"response_headers__contains": "orders"},
        {"response_body__contains": "id"},
        {"steps__isnull": "1"},
        {"fencing_token__gt": "5"},
        {"key__startswith": "k"},
        {"state__exact": "complete"},
        {"account": "auth.user:7"},
    ],
)
def test_no_address_asks_a_column_that_the_filters_do_not(lookup):
    """One that did would tell what it may not show, a letter at a time, and read every row."""
    make_key(complete=True)
    for client in (log_in("viewer", "view"), log_in("support", "view", "view_response")):
        with CaptureQueriesContext(connection) as captured:
            assert client.get(LIST, lookup).status_code == 400
        assert not any("LIKE" in each["sql"].upper() for each in captured)


@pytest.mark.parametrize("order", ["1", "3", "-3", "4", "-4.3"])
def test_no_address_sorts_by_a_column(admin_client, order):
    for account in ("b", "c", "a"):
        make_key(account=account, complete=True)
    with CaptureQueriesContext(connection) as captured:
        got = text(admin_client, o=order)
    assert re.findall(r'field-account">(\w)<', got) == ["a", "c", "b"]
    ordered = [each["sql"].split("ORDER BY")[-1] for each in captured if "situation" in each["sql"]]
    assert ordered
    assert not any("account" in columns for columns in ordered)


@pytest.mark.parametrize("query", [{"state": "nonsense"}, {"created": "'--"}])
def test_a_choice_that_does_not_exist_is_none(admin_client, query):
    make_key(key="k-there")
    assert "k-there" in text(admin_client, **query)


def test_expired_keys_are_not_asked_when_they_were_created(admin_client):
    make_key(key="k-gone", expired=True, created_at=ago(days=2))
    got = text(admin_client, state="expired", created="hour")
    assert "k-gone" in got
    assert "Past hour" not in got
    assert "Past hour" in text(admin_client, state="stale", created="hour")
