"""Deleting: only where it is granted, one closed key at a time."""

from __future__ import annotations

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.models import User
from django.contrib.messages.storage.cookie import CookieStorage
from django.http import QueryDict
from django.test import Client

from idempotency_app.admin import IdempotencyKeyAdmin
from idempotency_app.models import IdempotencyKey
from tests.factories import age, ago, ahead, claim, make_key, row

from .acting import fields_of, history, plain
from .test_pages import LIST, log_in, page, text

pytestmark = pytest.mark.django_db

CLOSED = [
    {"complete": True},
    {"expired": True},
    {"remembered": True},
    {"complete": True, "effects": "unrepeatable", "steps": "{}"},
    {"stale": True},
    {"stale": True, "expires_at": ago(hours=1)},
]
OPEN = [
    {},
    {"expires_at": ago(hours=1)},
    {"unresolved": True},
    {"unresolved": True, "expires_at": ago(days=2)},
    {"released": True},
    {"stale": True, "effects": "repeatable", "steps": "{}"},
]


@pytest.fixture
def cleaner() -> Client:
    return log_in("cleaner", "view", "delete")


def address(record):
    return f"{LIST}{record.pk}/delete/"


def delete(client, record, shown, **fields):
    posted = {**fields_of("", shown), "reason": "a test key", "post": "yes", **fields}
    response = client.post(address(record), posted, follow=True)
    assert response.status_code == 200
    return plain(response.content.decode())


def crafted(record):
    return f'name="seen" value="{record.pk}:{record.fencing_token}:0"'


@pytest.mark.parametrize("state", CLOSED)
def test_a_closed_key_is_deleted_and_the_page_says_what_follows(cleaner, state):
    record = make_key(**state)
    assert address(record) in page(cleaner, record)
    shown = text(cleaner, address(record))
    assert "a further request with it runs the work again" in shown
    assert "Done: 1 key." in delete(cleaner, record, shown)
    assert row(record) is None
    assert history() == [f"Deleted: a test key (POST orders/, auth.user:7, key {record.key})"]
    assert LogEntry.objects.get().action_flag == DELETION


@pytest.mark.parametrize("state", OPEN)
def test_a_live_lock_and_an_open_question_are_not_deleted(cleaner, state):
    record = make_key(**state)
    before = row(record)
    assert address(record) not in page(cleaner, record)
    assert cleaner.get(address(record)).status_code == 403
    assert cleaner.post(address(record), {"post": "yes"}).status_code == 403
    assert "Nothing was changed" in delete(cleaner, record, crafted(record))
    assert row(record) == before
    assert history() == []


@pytest.mark.parametrize("reason", ["", "  "])
def test_without_a_reason_nothing_is_deleted(cleaner, reason):
    record = make_key(complete=True)
    shown = text(cleaner, address(record))
    assert "This field is required." in delete(cleaner, record, shown, reason=reason)
    assert row(record)


def test_a_key_that_a_request_has_claimed_meanwhile_is_not_deleted(cleaner):
    record = make_key(expired=True)
    shown = text(cleaner, address(record))
    assert claim(record).won
    got = delete(cleaner, record, shown)
    assert "Nothing was changed: it is in flight now. A further request has taken it over." in got
    assert row(record)["state"] == "in_progress"


def test_a_response_that_was_recorded_after_the_page_was_shown_is_not_deleted(cleaner):
    record = make_key(expired=True)
    shown = text(cleaner, address(record))
    claim(record).record.complete(status=201, headers=[], body=b"{}")
    assert "it is complete now. Its work has ended, with 201." in delete(cleaner, record, shown)
    assert row(record)["state"] == "complete"


def test_of_two_people_the_second_is_told_who_deleted_it(cleaner):
    record = make_key(complete=True)
    second = log_in("second", "view", "delete")
    shown = text(cleaner, address(record)), text(second, address(record))
    delete(cleaner, record, shown[0])
    got = delete(second, record, shown[1])
    assert "the key is gone. cleaner, 0 minutes ago: Deleted: a test key" in got
    assert len(history()) == 1


def test_the_page_of_one_key_deletes_no_other(cleaner):
    record, other = make_key(complete=True), make_key(complete=True)
    delete(cleaner, record, crafted(other))
    assert row(record)
    assert row(other)


@pytest.mark.parametrize("permissions", [["view"], ["view", "release", "settle", "change", "add"]])
def test_without_the_permission_nothing_is_deleted(permissions):
    record = make_key(complete=True)
    client = log_in("someone", *permissions)
    assert address(record) not in page(client, record)
    assert client.get(address(record)).status_code == 403
    posted = {**fields_of("", crafted(record)), "reason": "because", "post": "yes"}
    assert client.post(address(record), posted).status_code == 403
    assert row(record)


class NotOfGlobex(IdempotencyKeyAdmin):
    """A project's own admin, which lets some rows only be deleted."""

    def has_delete_permission(self, request, obj=None):
        may = super().has_delete_permission(request, obj)
        return may and (obj is None or obj.account != "tenant:globex")


@pytest.mark.parametrize("account", ["tenant:acme", "tenant:globex"])
def test_a_projects_own_permission_for_a_row_counts(rf, admin_user, account):
    record = make_key(complete=True, account=account)
    request = rf.post("/")
    request.POST = QueryDict(f"seen={record.pk}:{record.fencing_token}:0&reason=x")
    request.user, request._messages = admin_user, CookieStorage(request)
    NotOfGlobex(IdempotencyKey, AdminSite()).delete_view(request, str(record.pk))
    assert (row(record) is None) == (account == "tenant:acme")


@pytest.mark.parametrize("state", [*CLOSED[:1], *OPEN])
def test_nobody_deletes_in_bulk(admin_client, state):
    record = make_key(**state)
    before = row(record)
    assert "delete_selected" not in text(admin_client)
    posted = {"action": "delete_selected", "_selected_action": [str(record.pk)], "post": "yes"}
    got = admin_client.post(LIST, {**posted, "select_across": "1"}, follow=True)
    assert "No action selected." in got.content.decode()
    assert row(record) == before


def test_a_post_from_another_site_deletes_nothing():
    record = make_key(complete=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("boss"))
    posted = {**fields_of("", crafted(record)), "reason": "because"}
    assert client.post(address(record), posted).status_code == 403
    assert row(record)


def test_a_key_that_is_gone_or_was_never_there_leads_back(cleaner):
    for pk in ("99999", "abc", "9" * 30):
        assert cleaner.get(f"{LIST}{pk}/delete/").status_code == 302


def test_a_remembered_key_is_as_good_as_new_after_it(cleaner):
    record = make_key(remembered=True, remember_until=ahead(days=3))
    assert claim(record).outcome == "key_expired"
    delete(cleaner, record, text(cleaner, address(record)))
    assert claim(record).outcome == "claimed"


def test_a_lock_that_was_renewed_after_the_page_was_shown_stays(cleaner):
    record = make_key()
    age(record, seconds=61)
    shown = text(cleaner, address(record))
    age(record, seconds=-61)
    assert "Its worker is alive." in delete(cleaner, record, shown)
    assert row(record)
