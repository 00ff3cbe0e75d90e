"""The reaper's doorway: options, one call, one honest line."""

from __future__ import annotations

import json
import signal
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils.dateparse import parse_duration

from idempotency_app.management.arguments import count
from idempotency_app.models import IdempotencyKey

UNRESOLVED = 3
TERMINATED = 128 + signal.SIGTERM
OPTIONS = (
    *("batch_size", "sleep", "max_rows", "max_seconds"),
    *("older_than", "include_unresolved", "dry_run"),
)


class Command(BaseCommand):
    """Delete expired keys; cron runs it, as often as the table should be short."""

    help = (
        "Delete expired idempotency keys, and the expired responses of keys that are remembered, "
        "in short batches; never a live lock, and never an unresolved key unless told to. For "
        "cron, say every hour; safe beside traffic and beside itself. No answer depends on it. "
        "Exit status: 0 done, 1 error, 2 bad option, 3 with --fail-on-unresolved where a key is "
        "unresolved, 143 on SIGTERM, which ends it after the batch."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take how much, how fast, what, and how to tell it."""
        add = parser.add_argument
        add("--batch-size", type=count, default=1000, help="rows a transaction (default 1000)")
        add("--sleep", type=_seconds, default=0.0, help="seconds between batches (default 0)")
        add("--max-rows", type=count, help="end after so many rows")
        add("--max-seconds", type=_seconds, help="end after the batch that passes so many seconds")
        add(
            "--older-than",
            type=_duration,
            default=timedelta(0),
            metavar="DURATION",
            help="only what expired at least so long ago: '2 00:00:00' or 'P2D' is two days",
        )
        add(
            "--include-unresolved",
            action="store_true",
            help="also expired keys of which nobody knows how they ended; a retry then runs again",
        )
        add("--database", help="alias; default: where the router writes keys")
        add("--dry-run", action="store_true", help="count, and change nothing")
        add("--json", action="store_true", help="one JSON object in place of the line")
        add(
            "--fail-on-unresolved",
            action="store_true",
            help="exit with 3 where a key is unresolved, so that cron's mail tells it",
        )

    def handle(self, *args: Any, database: str | None, **options: Any) -> None:
        """Reap until done or told to stop, say what went, and what is left for a person."""
        rows = IdempotencyKey.objects.using(database) if database else IdempotencyKey.objects.all()
        started = time.monotonic()
        deleted = dropped = batches = 0
        with _until_terminated() as terminated:
            for batch in rows.reap_in_batches(**{name: options[name] for name in OPTIONS}):
                deleted, dropped = deleted + batch.deleted, dropped + batch.dropped
                batches += bool(batch.deleted or batch.dropped)
                self._count(deleted + dropped, options)
                if terminated:
                    break
        summary = {
            "deleted": deleted,
            "dropped": dropped,
            "batches": batches,
            "seconds": round(time.monotonic() - started, 1),
            **_unresolved(rows),
            "dry_run": options["dry_run"],
            "terminated": bool(terminated),
        }
        self._tell(summary, options)
        if terminated:
            sys.exit(TERMINATED)
        if options["fail_on_unresolved"] and summary["unresolved"]:
            sys.exit(UNRESOLVED)

    def _count(self, done: int, options: dict[str, Any]) -> None:
        """Rewrite one line while somebody watches."""
        if options["verbosity"] and not options["json"] and self.stdout.isatty():
            self.stdout.write(f"\r{done:,}", ending="")
            self.stdout.flush()

    def _tell(self, summary: dict[str, Any], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(summary))
        elif options["verbosity"]:
            start = "\r" if self.stdout.isatty() else ""
            self.stdout.write(start + _sentence(summary))


def _sentence(summary: dict[str, Any]) -> str:
    verbs = ("Would delete", "would drop") if summary["dry_run"] else ("Deleted", "dropped")
    told = f"{verbs[0]} {_many(summary['deleted'], 'expired key')}"
    if summary["dropped"]:
        told += f" and {verbs[1]} {_many(summary['dropped'], 'response')} of remembered keys"
    batches = _many(summary["batches"], "batch", "batches")
    told += f" in {batches}, {summary['seconds']:.1f} s."
    if summary["terminated"]:
        told += " Stopped by SIGTERM before the end."
    if summary["unresolved"]:
        more = ", …" if summary["unresolved"] > len(summary["endpoints"]) else ""
        told += f" {summary['unresolved']:,} unresolved: {', '.join(summary['endpoints'])}{more}"
        told += ", see the admin."
    return told


def _many(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _unresolved(rows: Any) -> dict[str, Any]:
    """Return how many keys are unresolved, and the endpoints of the three oldest."""
    found = rows.unresolved()
    oldest = found.order_by("locked_until").values_list("endpoint", flat=True)[:3]
    return {"unresolved": found.count(), "endpoints": list(oldest)}


@contextmanager
def _until_terminated() -> Iterator[list[int]]:
    """Note SIGTERM in a list in place of dying of it, so that the batch is ended first."""
    received: list[int] = []
    try:
        before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    except ValueError:  # Called from a thread, which gets no signals.
        yield received
        return
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds of at least 0")
    return seconds


def _duration(text: str) -> timedelta:
    span = parse_duration(text)
    if span is None or not timedelta(0) <= span <= timedelta(days=36_525):
        raise ArgumentTypeError(f"{text!r} is not a duration such as '2 00:00:00' or 'P2D'")
    return span
