"""The actions: who may, what the confirm page says, and what a crafted POST does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.contrib.messages.storage.cookie import CookieStorage
from django.http import QueryDict
from django.test import Client

from idempotency_app.admin import IdempotencyKeyAdmin
from idempotency_app.models import IdempotencyKey
from tests.factories import make_key, row

from .acting import FOR, RECORD, RELEASE, SETTLE, confirm, each_action, fields_of, history
from .test_pages import LIST, log_in, page, text

pytestmark = pytest.mark.django_db


@each_action
def test_a_crafted_post_of_a_view_only_account_does_nothing(action):
    record = make_key(**FOR[action])
    before = row(record)
    viewer = log_in("viewer", "view", "view_response")
    assert 'name="action"' not in text(viewer)
    assert 'name="action"' not in page(viewer, record)
    posted = {
        "action": action,
        "_selected_action": [str(record.pk)],
        "seen": [f"{record.pk}:{record.fencing_token}:0"],
        "confirmed": "1",
        **RECORD,
    }
    addresses = [LIST, *(f"{LIST}{record.pk}/{view}/" for view in ("change", "delete", "history"))]
    for address in addresses:
        viewer.post(address, posted)
        viewer.post(address, {**posted, "outcome": "release", "post": "yes"})
    assert row(record) == before
    assert history() == []


@each_action
def test_a_stranger_and_a_customer_are_led_to_the_login(action):
    record = make_key(**FOR[action])
    before = row(record)
    customer = Client()
    customer.force_login(User.objects.create_user("customer"))
    shown = f'name="seen" value="{record.pk}:{record.fencing_token}:0"'
    for client in (Client(), customer):
        response = client.post(LIST, fields_of(action, shown, **RECORD))
        assert response.status_code == 302
        assert "/login/" in response.headers["Location"]
    assert row(record) == before


@each_action
def test_each_action_needs_its_own_permission(action):
    mine, other = ("release", SETTLE) if action == RELEASE else ("settle", RELEASE)
    client = log_in("half", "view", mine, "delete", "change", "add")
    listed = text(client)
    assert f'value="{action}"' in listed
    assert f'value="{other}"' not in listed
    record = make_key(**FOR[other])
    before = row(record)
    shown = f'name="seen" value="{record.pk}:{record.fencing_token}:0"'
    assert "No action selected" in confirm(client, other, shown, **RECORD)
    assert row(record) == before
    assert f'value="{other}"' not in page(client, record)


@each_action
def test_a_permission_to_act_without_one_to_look_is_none(action):
    record = make_key(**FOR[action])
    client = log_in("blind", "release", "settle", "delete")
    shown = f'name="seen" value="{record.pk}:{record.fencing_token}:0"'
    assert client.post(LIST, fields_of(action, shown, **RECORD)).status_code == 403
    assert row(record)["fencing_token"] == record.fencing_token


@each_action
def test_a_post_from_another_site_is_refused(action):
    record = make_key(**FOR[action])
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("boss"))
    shown = f'name="seen" value="{record.pk}:{record.fencing_token}:0"'
    assert client.post(LIST, fields_of(action, shown, **RECORD)).status_code == 403
    assert row(record)["fencing_token"] == record.fencing_token


@each_action
@pytest.mark.parametrize("seen", [["x"], ["1"], ["1:x:0"], ["1:2:3:4"], ["9" * 30 + ":1:0"], []])
def test_a_confirm_form_that_names_no_row_changes_nothing(support, action, seen):
    record = make_key(**FOR[action])
    before = row(record)
    posted = {"action": action, "_selected_action": [str(record.pk)], "seen": seen}
    posted |= {"confirmed": "1", "outcome": "release", "reason": "because"}
    response = support.post(LIST, posted, follow=True)
    assert "Nothing was changed" in response.content.decode()
    assert row(record) == before


def test_the_page_of_a_key_offers_what_may_be_done_to_it_now(support):
    states: list[dict[str, Any]] = [
        {"stale": True},
        {"unresolved": True},
        {"released": True},
        {"stale": True, "effects": "repeatable", "steps": "{}"},
        {},
        {"complete": True},
    ]
    offered = [
        re.findall(r'name="action" value="(\w+)"', page(support, make_key(**state)))
        for state in states
    ]
    assert offered == [[RELEASE], [SETTLE], [SETTLE], [RELEASE, SETTLE], [], []]


class OfOneTenant(IdempotencyKeyAdmin):
    """A project's own admin, which shows some rows only."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(account="tenant:acme")


def test_a_project_that_shows_fewer_rows_also_acts_on_no_others(rf, admin_user):
    record = make_key(stale=True, account="tenant:globex")
    request = rf.post("/")
    request.POST = QueryDict(f"seen={record.pk}:{record.fencing_token}:0&confirmed=1&reason=x")
    request.user, request._messages = admin_user, CookieStorage(request)
    site = OfOneTenant(IdempotencyKey, AdminSite())
    site.release_stale_lock(request, IdempotencyKey.objects.none())
    assert row(record)
    assert [str(each) for each in request._messages] == [
        "Nothing was changed: the key is gone. Its work has ended without a response to keep, or "
        "it was reaped."
    ]
