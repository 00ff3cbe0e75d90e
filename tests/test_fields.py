"""Text that is compared byte for byte, and times that mean the same under every setting."""

from __future__ import annotations

import datetime
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.db import connection, connections
from django.utils import timezone

from idempotency_app.fields import DatabaseNow, ExactCharField
from idempotency_app.models import ClaimOutcome, IdempotencyKey

from .factories import age, ago, ahead, claim, make_key, row

ALIKE = ["Key-A", "key-a", "KEY-A", "Kéy-A", "Ke\u0301y-A", "Key-A ", " Key-A", "Ｋey-A"]
UTC = datetime.timezone.utc
SAO_PAULO = "America/Sao_Paulo"


@pytest.mark.django_db
@pytest.mark.parametrize("column", ["account", "endpoint", "key"])
def test_text_that_a_collation_calls_equal_makes_different_keys(column):
    owners: dict[str, int] = {}
    for text in ALIKE:
        names: dict[str, Any] = {column: text}
        made = claim(**names)
        assert made.outcome is ClaimOutcome.CLAIMED
        owners[text] = made.record.pk
    for text, pk in owners.items():
        assert IdempotencyKey.objects.get(**{column: text}).pk == pk


MARIADB = SimpleNamespace(vendor="mysql", data_types={"CharField": "varchar(%(max_length)s)"})


def test_mysql_and_mariadb_compare_bytes():
    field = ExactCharField(max_length=255)
    assert field.db_type(MARIADB) == "varbinary(255)"
    assert field.get_db_prep_value("Kéy", MARIADB) == "Kéy".encode()
    assert field.from_db_value("Kéy".encode(), None, MARIADB) == "Kéy"
    assert field.get_db_prep_value(None, MARIADB) is None


@pytest.mark.django_db
@pytest.mark.parametrize("shift", [-300, 300, -86400 * 400, 86400 * 400])
def test_b11_the_hosts_clock_decides_nothing(shift):
    live = make_key(locked_until=ahead(seconds=30))
    lapsed = make_key(locked_until=ago(seconds=5))
    kept, forgotten = make_key(complete=True), make_key(expired=True)
    with time_machine.travel(datetime.datetime.now(UTC) + timedelta(seconds=shift)):
        outcomes = [claim(record).outcome for record in (live, lapsed, kept, forgotten)]
        new = claim().record
        assert IdempotencyKey.objects.in_flight().count() == 4
        assert (IdempotencyKey.objects.stale().count(), IdempotencyKey.objects.reap()) == (0, 0)
    assert [str(outcome) for outcome in outcomes] == [
        "in_progress",
        "taken_over",
        "replay",
        "claimed",
    ]
    assert abs(new.created_at - timezone.now()) < timedelta(minutes=2)


def live_through_the_states() -> None:
    """Claim, conflict, takeover, replay, reset, reap: once each, with their times read back."""
    record = claim().record
    assert_is_now(record.created_at)
    assert_is_now(record.locked_until - timedelta(seconds=60))
    assert_is_now(record.expires_at - timedelta(seconds=60, hours=24))
    assert claim().outcome is ClaimOutcome.IN_PROGRESS
    age(record, seconds=61)
    owner = claim()
    assert owner.outcome is ClaimOutcome.TAKEN_OVER
    owner.record.renew(timedelta(seconds=120))
    assert_is_now(row(record)["locked_until"] - timedelta(seconds=120))
    owner.record.complete(status=201, headers=[], body=b"{}")
    replay = claim()
    assert replay.outcome is ClaimOutcome.REPLAY
    assert_is_now(replay.record.locked_at)
    assert_is_now(replay.record.expires_at - timedelta(seconds=120, hours=24))
    age(record, hours=23)
    assert (claim().outcome, IdempotencyKey.objects.reap()) == (ClaimOutcome.REPLAY, 0)
    age(record, hours=2)
    assert IdempotencyKey.objects.reap() == 1
    assert claim().outcome is ClaimOutcome.CLAIMED


def assert_is_now(moment: datetime.datetime) -> None:
    """Wide enough for a slow machine, and narrower than any time zone's offset."""
    now = timezone.now()  # Naive, and local, under USE_TZ = False.
    assert timezone.is_naive(moment) == timezone.is_naive(now)
    assert abs(moment - now) < timedelta(minutes=5)


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", SAO_PAULO, "Asia/Kolkata"])
@pytest.mark.parametrize("use_tz", [True, False])
def test_b11_naive_and_aware_projects_live_through_the_same(settings, use_tz, zone):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, zone
    live_through_the_states()


@pytest.fixture
def database_time_zone(transactional_db, monkeypatch):
    """Let DATABASES say that the database keeps its local times, as an old one does."""
    monkeypatch.setitem(connection.settings_dict, "TIME_ZONE", SAO_PAULO)
    forget_connection()
    yield
    monkeypatch.undo()
    forget_connection()


def forget_connection() -> None:
    connection.close()
    for name in ("timezone", "timezone_name"):
        vars(connections["default"]).pop(name, None)


def test_a_databases_own_time_zone_moves_no_time_of_ours(database_time_zone):
    assert connection.timezone_name == SAO_PAULO
    live_through_the_states()


@pytest.mark.django_db
@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("hours", [-3, 0, 5.5])
def test_a_time_that_python_writes_is_compared_with_the_databases_clock(settings, use_tz, hours):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, SAO_PAULO
    there = timezone.now()
    if use_tz:
        there = there.astimezone(datetime.timezone(timedelta(hours=hours)))
    before = make_key(locked_until=there - timedelta(minutes=5))
    after = make_key(locked_until=there + timedelta(minutes=5))
    assert before.locked_until == there - timedelta(minutes=5)
    assert list(IdempotencyKey.objects.stale()) == [before]
    assert list(IdempotencyKey.objects.in_flight()) == [after]
    assert list(IdempotencyKey.objects.filter(locked_until__lt=there)) == [before]


@pytest.mark.django_db
@pytest.mark.parametrize("microsecond", [0, 1000, 999999])
def test_a_time_is_read_as_it_was_written(microsecond):
    moment = datetime.datetime(2026, 10, 25, 0, 59, 59, microsecond, tzinfo=UTC)
    assert make_key(created_at=moment).created_at == moment


@pytest.mark.django_db
def test_an_empty_time_stays_empty():
    assert make_key(expires_at=None).expires_at is None


@pytest.mark.django_db
def test_the_databases_clock_moves_within_a_transaction():
    # Else a lock that lapses while a caller's block is open would never be stale in it.
    read = {make_key(created_at=DatabaseNow()).created_at for _ in range(20)}
    claimed = {claim(key=f"k{number}").record.created_at for number in range(20)}
    assert len(read) > 1
    assert len(claimed) > 1
