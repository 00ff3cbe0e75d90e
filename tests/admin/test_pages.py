"""The admin as a person sees it: the list, its filters and its search, and the page of a key."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from idempotency_app.admin import paging
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
    "query",
    [
        {},
        {"p": "2"},
        {"state": "complete"},
        {"state": "stale", "created": "hour"},
        {"_facets": "True"},
        {"q": "k-found"},
        {"q": "tenant:found"},
        {"q": "both"},
        {"q": "nothing"},
    ],
)
def test_b61_a_page_asks_little_whatever_the_row_count(query):
    support = log_in("support", "view", "release", "settle", "view_response")
    for _ in range(120):
        make_key(complete=True)
    make_key(key="k-found")
    make_key(account="tenant:found")
    make_key(key="both")
    make_key(account="both")
    with CaptureQueriesContext(connection) as captured:
        text(support, **query)
    assert len(captured) <= 8
    asked = [each["sql"] for each in captured if TABLE in each["sql"]]
    assert not any("COUNT(*)" in sql.upper() for sql in asked)
    assert not any("response_body" in sql or "response_headers" in sql for sql in asked)
    assert not any("LIKE" in sql.upper().split() for sql in asked)


def test_more_than_is_listed_is_said_and_not_counted(admin_client, monkeypatch):
    monkeypatch.setattr(paging, "LISTED", 110)
    for _ in range(111):
        make_key(complete=True)
    got = text(admin_client)
    assert "More than 110 keys; the first 110 are listed." in got
    assert "110 results" not in got
    assert "p=2" in text(admin_client, all="")
    assert text(admin_client, p="2").count('class="field-short_key"') == 10
    assert admin_client.get(LIST, {"p": "3"}).status_code == 302


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


def test_without_time_zones_the_pages_are_the_same(admin_client, settings):
    settings.USE_TZ = False
    record = make_key(stale=True)
    assert "stale lock" in text(admin_client)
    assert "<li>1 stale, the oldest 1\xa0minute</li>" in text(admin_client)
    assert "takes over" in page(admin_client, record)
