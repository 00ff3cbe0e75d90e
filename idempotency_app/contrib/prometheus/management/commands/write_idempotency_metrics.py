"""The gauges as a text file, for node_exporter's textfile collector."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from prometheus_client import CollectorRegistry, write_to_textfile

from idempotency_app.contrib.prometheus.metrics import KeysCollector


class Command(BaseCommand):
    """Write the gauges to a file that is replaced whole."""

    help = (
        "Write how many idempotency keys are in flight, stale and unresolved to a file that "
        "ends in .prom, for node_exporter's textfile collector. For cron, say every minute."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file's path."""
        parser.add_argument("path", help="for example /var/lib/node_exporter/idempotency.prom")

    def handle(self, *args: Any, path: str, **options: Any) -> None:
        """Ask the database and write; the old file stays until the new one is whole."""
        registry = CollectorRegistry()
        registry.register(KeysCollector())
        write_to_textfile(path, registry)
