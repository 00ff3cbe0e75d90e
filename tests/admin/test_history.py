"""The history: what was done to a key, by whom and why, also after its row is gone."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry

from idempotency_app.models import IdempotencyKey
from tests.factories import age, claim, make_key, row

from .acting import NOT_HAPPENED, RECORD, RELEASE, SETTLE, ask, confirm, history
from .test_pages import LIST, log_in, page, text

pytestmark = pytest.mark.django_db


def address(record):
    return f"{LIST}{record.pk}/history/"


def test_the_history_is_there_after_the_row_is_gone(support):
    record = make_key(stale=True)
    done = confirm(support, RELEASE, ask(support, RELEASE, record), reason="worker 3 was killed")
    assert f'href="{address(record)}"' in done
    got = text(support, address(record))
    assert "released, deleted or reaped" in got
    assert "<td>support</td>" in got
    assert "worker 3 was killed" in got
    assert f"POST orders/, auth.user:7, key {record.key}" in got
    assert LogEntry.objects.get().action_flag == DELETION


def test_also_where_the_reaper_took_the_row(support):
    record = make_key(unresolved=True)
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    assert LogEntry.objects.get().action_flag == CHANGE
    IdempotencyKey.objects.update(expires_at=record.created_at)
    assert IdempotencyKey.objects.reap() == 1
    got = text(support, address(record))
    assert "released, deleted or reaped" in got
    assert "seen at the bank" in got


def test_while_the_row_is_there_it_is_on_djangos_page_and_on_the_keys_own(support):
    record = make_key(unresolved=True)
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    for got in (text(support, address(record)), page(support, record)):
        assert "Settled: recorded 201: seen at the bank" in got
        assert "released, deleted or reaped" not in got


def test_it_needs_the_permission_to_view(support):
    record = make_key(stale=True)
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="dead")
    assert "dead" in text(log_in("viewer", "view"), address(record))
    assert log_in("nobody", "release").get(address(record)).status_code == 403


@pytest.mark.parametrize("pk", ["99999", "abc", "9" * 30, "1%00", "%00", "-1", "١"])
def test_of_what_never_was_there_is_no_history(support, pk):
    response = support.get(f"{LIST}{pk}/history/")
    assert (response.status_code, response.headers["Location"]) == (302, "/admin/")


def test_another_models_entries_are_not_shown(support, admin_user):
    record = make_key(stale=True)
    pk = record.pk
    record.release()
    LogEntry.objects.log_actions(admin_user.pk, [type(admin_user)(pk=pk)], CHANGE, "of a user")
    assert support.get(f"{LIST}{pk}/history/").status_code == 302


@pytest.fixture
def second():
    return log_in("second", "view", "settle")


@pytest.fixture
def seen_by_both(support, second):
    """What two people are shown of one open question."""
    record = make_key(unresolved=True, steps="{}")
    return ask(support, SETTLE, record), ask(second, SETTLE, record)


def test_of_two_people_one_wins_and_the_other_is_told_what_happened(support, second, seen_by_both):
    confirm(support, SETTLE, seen_by_both[0], **RECORD)
    got = confirm(second, SETTLE, seen_by_both[1], **NOT_HAPPENED)
    assert "Nothing was changed: it is complete now. support, 0 minutes ago: Settled: recor" in got
    assert IdempotencyKey.objects.get().response_status == 201
    assert len(history()) == 1


def test_the_other_way_round_the_second_is_told_that_the_key_is_gone(support, second, seen_by_both):
    confirm(support, SETTLE, seen_by_both[0], **NOT_HAPPENED)
    got = confirm(second, SETTLE, seen_by_both[1], **RECORD)
    assert "the key is gone. support, 0 minutes ago: Settled: it did not happen, released:" in got
    assert not IdempotencyKey.objects.exists()


def test_the_second_is_told_also_after_a_mistake_in_the_form(support):
    record = make_key(unresolved=True, steps="{}")
    second = log_in("second", "view", "settle")
    again = confirm(second, SETTLE, ask(second, SETTLE, record), **{**RECORD, "reason": ""})
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    got = confirm(second, SETTLE, again, **NOT_HAPPENED)
    assert "it is complete now. support, 0 minutes ago: Settled" in got


def test_what_was_done_before_the_page_was_shown_is_not_called_meanwhile(support):
    record = make_key(stale=True, effects="repeatable", steps="{}")
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="an old story")
    claim(record)
    age(record, seconds=61)
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="another old story")
    shown = ask(support, SETTLE, record)
    assert claim(record).won
    got = confirm(support, SETTLE, shown, **NOT_HAPPENED)
    assert "it is in flight now. A further request has taken it over." in got
    assert "old story" not in got


def test_a_change_without_its_history_is_undone(support, monkeypatch):
    """They are one transaction where they are in one database."""
    record = make_key(stale=True)
    before = row(record)
    shown = ask(support, RELEASE, record)

    def refuse(self, *args, **kwargs):
        raise RuntimeError("The log is full.")

    monkeypatch.setattr(LogEntry, "save", refuse)
    with pytest.raises(RuntimeError, match="The log is full"):
        confirm(support, RELEASE, shown, reason="dead")
    assert row(record) == before


class KeysElsewhere:
    """Keys are in a database of their own; the log is in the default one."""

    def db_for_read(self, model, **hints):
        return "other" if model._meta.app_label == "idempotency_app" else None

    db_for_write = db_for_read


@pytest.mark.django_db(databases=["default", "other"])
def test_keys_in_a_database_of_their_own_have_their_history_too(support, settings):
    settings.DATABASE_ROUTERS = [KeysElsewhere()]
    record = make_key(stale=True)
    other = make_key(unresolved=True)
    assert IdempotencyKey.objects.using("other").count() == 2
    confirm(support, RELEASE, ask(support, RELEASE, record), reason="dead")
    confirm(support, SETTLE, ask(support, SETTLE, other), **RECORD)
    assert IdempotencyKey.objects.using("other").get().response_status == 201
    assert LogEntry.objects.using("default").count() == 2
    assert "dead" in text(support, address(record))


class ReadsFromReplica:
    def db_for_read(self, model, **hints):
        in_question = model._meta.label in ("admin.LogEntry", "idempotency_app.IdempotencyKey")
        return "replica" if in_question else None

    def db_for_write(self, model, **hints):
        return "default"


def test_a_replica_that_lags_hides_nothing_from_the_second(support, settings):
    second = log_in("second", "view", "settle")
    settings.DATABASE_ROUTERS = [ReadsFromReplica()]
    record = make_key(unresolved=True, steps="{}")
    seen_by_both = ask(support, SETTLE, record), ask(second, SETTLE, record)
    confirm(support, SETTLE, seen_by_both[0], **RECORD)
    got = confirm(second, SETTLE, seen_by_both[1], **NOT_HAPPENED)
    assert "it is complete now. support, 0 minutes ago: Settled" in got


def test_without_time_zones_the_second_is_told_the_same(support, settings):
    settings.USE_TZ = False
    record = make_key(unresolved=True, steps="{}")
    second = log_in("second", "view", "settle")
    seen_by_both = ask(support, SETTLE, record), ask(second, SETTLE, record)
    confirm(support, SETTLE, seen_by_both[0], **RECORD)
    got = confirm(second, SETTLE, seen_by_both[1], **NOT_HAPPENED)
    assert "support, 0 minutes ago: Settled" in got
