"""The reaper's doorway: options, one call, one honest line."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand

from idempotency_app.models import IdempotencyKey


class Command(BaseCommand):
    """Delete expired keys; cron runs it, as often as the table should be short."""

    help = (
        "Delete expired idempotency keys that are no longer remembered, in short batches; never "
        "a live lock or an unresolved key. For cron, say every hour; safe beside traffic and "
        "beside itself. No answer depends on it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the size of a batch, and the database."""
        parser.add_argument(
            "--batch-size", type=_positive, default=1000, help="rows a transaction (default 1000)"
        )
        parser.add_argument("--database", help="alias; default: where the router writes keys")

    def handle(self, *args: Any, batch_size: int, database: str | None, **options: Any) -> None:
        """Reap, and say how many went and how long it took."""
        started = time.monotonic()
        rows = IdempotencyKey.objects.using(database) if database else IdempotencyKey.objects.all()
        deleted = rows.reap(batch_size=batch_size)
        seconds = time.monotonic() - started
        self.stdout.write(f"Deleted {deleted:,} expired keys in {seconds:.1f} s.")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
