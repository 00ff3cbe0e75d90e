"""The reaper as cron meets it: its line, its options and its exit status."""

from __future__ import annotations

import io
import json
import os
import re
import signal

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from idempotency_app import signals
from idempotency_app.models import IdempotencyKey
from tests.factories import ago, make_key

pytestmark = pytest.mark.django_db


def reap(*args: str) -> str:
    out = io.StringIO()
    call_command("reap_idempotency_keys", *args, stdout=out)
    return re.sub(r"\d+\.\d s", "0.0 s", out.getvalue())


def expire(number: int) -> None:
    for hours in range(number):
        make_key(expired=True, expires_at=ago(hours=hours + 1))


def test_it_deletes_what_has_expired_and_says_how_many_in_how_many_batches():
    expire(1)
    kept = make_key(complete=True)
    assert reap() == "Deleted 1 expired key in 1 batch, 0.0 s.\n"
    assert list(IdempotencyKey.objects.all()) == [kept]


def test_more_rows_than_a_batch_go_in_batches():
    expire(3)
    assert reap("--batch-size", "2") == "Deleted 3 expired keys in 2 batches, 0.0 s.\n"


def test_nothing_to_do_is_said_too():
    assert reap() == "Deleted 0 expired keys in 0 batches, 0.0 s.\n"


def test_it_names_what_is_unresolved_and_leaves_it():
    make_key(unresolved=True, endpoint="POST payments/", expires_at=ago(days=1))
    assert reap() == (
        "Deleted 0 expired keys in 0 batches, 0.0 s. 1 unresolved: POST payments/, see the admin.\n"
    )
    assert IdempotencyKey.objects.count() == 1


def test_of_many_unresolved_it_names_the_three_oldest():
    for _ in range(4):
        make_key(unresolved=True)
    assert "4 unresolved: POST orders/, POST orders/, POST orders/, …, see the admin." in reap()


def test_s26_it_says_which_responses_of_remembered_keys_were_dropped():
    make_key(remembered=True)
    assert reap() == (
        "Deleted 0 expired keys and dropped 1 response of remembered keys in 1 batch, 0.0 s.\n"
    )


def test_a_dry_run_says_would_and_deletes_nothing():
    expire(2)
    assert reap("--dry-run") == "Would delete 2 expired keys in 1 batch, 0.0 s.\n"
    assert IdempotencyKey.objects.count() == 2


def test_json_is_one_object():
    expire(1)
    make_key(unresolved=True, endpoint="POST wires/")
    got = json.loads(reap("--json"))
    assert got.pop("seconds") >= 0
    assert got == {
        "deleted": 1,
        "dropped": 0,
        "batches": 1,
        "unresolved": 1,
        "endpoints": ["POST wires/"],
        "dry_run": False,
        "terminated": False,
    }


def test_verbosity_zero_is_silent():
    expire(1)
    assert reap("-v", "0") == ""
    assert not IdempotencyKey.objects.exists()


def test_on_a_terminal_one_line_counts_up():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    expire(2)
    out = Terminal()
    call_command("reap_idempotency_keys", "--batch-size", "1", stdout=out)
    assert out.getvalue().startswith("\r1\r")
    assert out.getvalue().count("\n") == 1


def test_fail_on_unresolved_exits_with_3_after_the_line():
    make_key(unresolved=True)
    with pytest.raises(SystemExit) as exit_:
        reap("--fail-on-unresolved")
    assert exit_.value.code == 3


def test_fail_on_unresolved_exits_with_0_where_none_is():
    make_key(stale=True)
    assert reap("--fail-on-unresolved").startswith("Deleted 0 ")


def test_sigterm_ends_it_after_the_batch_with_the_partial_summary():
    expire(3)
    out = io.StringIO()

    def terminate(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if sql.startswith("DELETE"):
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    with connection.execute_wrapper(terminate), pytest.raises(SystemExit) as exit_:
        call_command("reap_idempotency_keys", "--batch-size", "1", stdout=out)
    assert exit_.value.code == 143
    assert out.getvalue().startswith("Deleted 1 expired key in 1 batch, ")
    assert "Stopped by SIGTERM before the end." in out.getvalue()
    assert IdempotencyKey.objects.count() == 2
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_limits_older_than_and_include_unresolved_reach_the_verb():
    expire(3)
    make_key(unresolved=True, expires_at=ago(days=5))
    assert reap("--max-rows", "1").startswith("Deleted 1 ")
    assert reap("--older-than", "4 00:00:00").startswith("Deleted 0 ")
    assert reap("--older-than", "P4D", "--include-unresolved").startswith("Deleted 1 ")
    assert reap("--max-seconds", "0", "--batch-size", "1", "--sleep", "0").startswith("Deleted 1 ")


@pytest.mark.parametrize(
    "option",
    [
        *(("--batch-size", size) for size in ("0", "-1", "many")),
        *(("--max-rows", rows) for rows in ("0", "1.5")),
        *(("--sleep", seconds) for seconds in ("-1", "nan", "inf", "x")),
        *(("--older-than", span) for span in ("-1 00:00:00", "soon", "999999 00:00:00")),
    ],
)
def test_a_bad_option_is_refused_by_name(option):
    expire(1)
    with pytest.raises(CommandError, match=option[0]):
        reap(*option)
    assert IdempotencyKey.objects.count() == 1


@pytest.mark.django_db(databases=["default", "other"])
def test_the_database_can_be_named():
    record = make_key(expired=True)
    record.save(using="other", force_insert=True)
    assert reap("--database", "other").startswith("Deleted 1 ")
    assert IdempotencyKey.objects.using("default").count() == 1


def test_what_was_deleted_is_told_also_where_it_was_stopped():
    expire(2)
    told: list[int] = []

    def note(deleted: int, **details: object) -> None:
        told.append(deleted)

    signals.reaped.connect(note)
    try:
        reap("--max-rows", "1")
    finally:
        signals.reaped.disconnect(note)
    assert told == [1]
