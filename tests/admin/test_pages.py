"""The admin as a person sees it: the list, its filters and its search, and the page of a key."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from idempotency_app.models import IdempotencyKey
from tests.factories import ago, ahead, make_key

pytestmark = pytest.mark.django_db

LIST = "/admin/idempotency_app/idempotencykey/"
TABLE = "idempotency_app_idempotencykey"
SCRIPT = '<script>alert("x")</script>'
STATES: dict[str, dict[str, Any]] = {
    "in flight": {},
    "stale lock": {"stale": True},
    "outcome unknown": {"unresolved": True},
    "waiting for a retry": {"released": True},
    "complete": {"complete": True},
    "expired": {"expired": True},
    "response expired, key remembered": {"remembered": True},
}


def log_in(name: str, *permissions: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    codenames = [f"{each}_idempotencykey" for each in permissions]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, path: str = LIST, **query: str) -> str:
    response = client.get(path, query)
    assert response.status_code == 200
    return response.content.decode()


def page(client: Client, record: IdempotencyKey) -> str:
    return text(client, f"{LIST}{record.pk}/change/")


@pytest.mark.parametrize("words", STATES)
def test_the_list_says_the_state_in_words(admin_client, words):
    make_key(**STATES[words])
    assert f">{words}</span>" in text(admin_client)


def test_the_list_has_six_columns_and_cuts_the_key(admin_client):
    make_key(complete=True, key="k" * 60, endpoint="POST payments/")
    got = text(admin_client)
    assert got.count('<th scope="col" class="column-') == 6
    assert f'title="{"k" * 60}">{"k" * 40}…<' in got
    assert "POST payments/ → 201" in got


def test_times_are_relative_and_the_stamp_is_in_the_title(admin_client):
    record = make_key(complete=True, created_at=ago(hours=3), expires_at=ahead(hours=5, minutes=1))
    got = text(admin_client)
    stamp = record.created_at.isoformat(sep=" ", timespec="seconds")
    assert f'title="{stamp}"'.replace("+", "+") in got.replace("&#x2B;", "+")
    assert "3\xa0hours<" in got
    assert "in 5\xa0hours" in got


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


@pytest.mark.parametrize("term", ["key-7", ' "key-7"\n', "“key-7”", "\u200bkey-7"])
def test_a_key_is_found_as_it_was_pasted(admin_client, term):
    make_key(key="key-7", endpoint="POST found/")
    make_key(key="key-70", endpoint="POST other/")
    got = text(admin_client, q=term)
    assert "POST found/" in got
    assert "POST other/" not in got


def test_an_account_is_found_whole_and_a_key_of_that_name_hides_nothing(admin_client):
    make_key(account="tenant:acme", endpoint="POST acme/")
    make_key(account="tenant:acme2", endpoint="POST acme2/")
    assert "POST acme2/" not in text(admin_client, q="tenant:acme")
    make_key(key="tenant:acme", account="tenant:evil", endpoint="POST evil/")
    got = text(admin_client, q="tenant:acme")
    assert "POST acme/" in got
    assert "POST evil/" in got


def test_empty_lists_say_why(admin_client):
    assert "There are no keys yet" in text(admin_client)
    assert "No key is in this filter." in text(admin_client, state="stale")
    assert "No key and no account is exactly “nope”." in text(admin_client, q="nope")
    assert "No key and no account" in text(admin_client, q="n" * 300)


def test_the_line_above_the_list_counts_what_to_look_into(admin_client):
    make_key()
    make_key(stale=True, locked_at=ago(hours=2))
    make_key(unresolved=True)
    make_key(expired=True)
    got = text(admin_client)
    assert "<li>1 in flight, the oldest 0\xa0minutes</li>" in got
    assert "<li>2 stale, the oldest 2\xa0hours</li>" in got
    assert "<li>1 unresolved, the oldest 1\xa0minute</li>" in got
    assert "<li>the oldest key to reap expired 1\xa0hour ago</li>" in got


def test_b61_a_page_asks_little_whatever_the_row_count(admin_client):
    for _ in range(120):
        make_key(complete=True)
    for query in ({}, {"p": "2"}, {"state": "complete"}, {"_facets": "True"}, {"q": "k-7"}):
        with CaptureQueriesContext(
            connection,
        ) as captured:
            text(admin_client, **query)
        asked = [
            each["sql"] for each in captured if "idempotency_app_idempotencykey" in each["sql"]
        ]
        assert len(captured) <= 8 + ("q" in query)
        assert not any("COUNT(" in sql.upper() for sql in asked)
        listing = [sql for sql in asked if "situation" in sql]
        assert listing
        assert not any("response_body" in sql or "response_headers" in sql for sql in listing)
        assert not any("LIKE" in sql.upper().split() for sql in asked)


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


def test_script_is_inert_everywhere(admin_client):
    record = make_key(
        complete=True,
        key=SCRIPT,
        account=SCRIPT,
        endpoint=SCRIPT,
        steps='{"%s": {"result": "%s"}}' % (("<script>alert(1)</script>",) * 2),
        response_headers='[["Location", "<script>alert(1)</script>"]]',
        response_body=SCRIPT.encode(),
    )
    for got in (text(admin_client), page(admin_client, record), text(admin_client, q=SCRIPT)):
        assert "<script>alert" not in got


def test_steps_show_their_downstream_key(admin_client):
    from idempotency_app.attempts import Attempt
    from idempotency_app.policy import Idempotency

    record = make_key(released=True, steps='{"charge": {"result": "ch_1"}}')
    expected = Attempt(Idempotency().resolve(), record).downstream_key("charge")
    assert expected in page(admin_client, record)


def test_nothing_is_added_or_changed_also_by_a_crafted_post(admin_client):
    record = make_key(complete=True)
    before = IdempotencyKey.objects.values().get()
    assert admin_client.get(f"{LIST}add/").status_code == 403
    admin_client.post(f"{LIST}{record.pk}/change/", {"state": "released"})
    assert admin_client.post(f"{LIST}add/", {"key": "x"}).status_code == 403
    assert IdempotencyKey.objects.values().get() == before


def test_without_the_view_permission_there_is_no_page():
    record = make_key()
    client = log_in("nobody")
    assert client.get(LIST).status_code == 403
    assert client.get(f"{LIST}{record.pk}/change/").status_code == 403


def test_a_key_that_is_gone_leads_back_with_a_message(admin_client):
    assert admin_client.get(f"{LIST}99999/change/").status_code == 302


def test_without_time_zones_the_pages_are_the_same(admin_client, settings):
    settings.USE_TZ = False
    record = make_key(stale=True)
    assert "stale lock" in text(admin_client)
    assert "takes over" in page(admin_client, record)
