"""Metrics in Prometheus' form, extra `[prometheus]`.

Counters come from the signals, in each process; gauges are asked of the database when they are
scraped, by its clock, and each reads an index. A project serves them as it serves its
others; where only cron runs, `write_idempotency_metrics` writes the gauges to a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import router
from django.db.models import Min
from django.dispatch import Signal
from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ... import signals
from ...fields import DatabaseNow
from ...models import IdempotencyKey

OUTCOMES = Counter(
    "idempotency_outcomes", "What became of keys.", ["outcome", "endpoint"], registry=None
)
SECONDS = Histogram(
    "idempotency_work_seconds",
    "How long the work took, in seconds, whether recorded or released.",
    ["endpoint"],
    registry=None,
)
REAPED = Counter("idempotency_reaped", "Keys that the reaper has deleted.", registry=None)

STATES = ("in_flight", "stale", "unresolved")

EVENTS: dict[str, Signal] = {
    name: getattr(signals, name)
    for name in (
        *("claimed", "taken_over", "completed", "released", "lock_lost"),
        *("replayed", "conflicted", "mismatched", "settled"),
    )
}


class KeysCollector(Collector):
    """How many keys are in flight, stale and unresolved now, and how old the oldest is."""

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name the gauges without asking the database: registration is no scrape."""
        for state in STATES:
            yield from _gauges(state)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Ask the database; nothing is cached."""
        rows = IdempotencyKey.objects.using(router.db_for_write(IdempotencyKey))
        for state in STATES:
            found = getattr(rows, state)()
            yield from _gauges(state, found.count(), _age(found))


def _gauges(
    state: str, count: float | None = None, age: float | None = None
) -> Iterator[GaugeMetricFamily]:
    words = state.replace("_", " ")
    yield GaugeMetricFamily(f"idempotency_{state}_keys", f"Keys that are {words} now.", count)
    yield GaugeMetricFamily(
        f"idempotency_oldest_{state}_seconds",
        f"Age of the oldest key that is {words}, in seconds since its lock; 0 for none.",
        age,
    )


def _age(rows: Any) -> float:
    times = rows.aggregate(oldest=Min("locked_at"), now=Min(DatabaseNow()))
    if times["oldest"] is None:
        return 0.0
    age: float = (times["now"] - times["oldest"]).total_seconds()
    return max(0.0, age)


def connect() -> None:
    """Count from now on, and register with the default registry; called once a process."""
    for name, signal in EVENTS.items():
        signal.connect(_counting(name), weak=False)
    signals.reaped.connect(_count_reaped)
    for metric in (OUTCOMES, SECONDS, REAPED, KeysCollector()):
        REGISTRY.register(metric)


def _counting(event: str) -> Any:
    def count(*, endpoint: str, **details: Any) -> None:
        outcome = str(details.get("outcome", event)) if event == "conflicted" else event
        OUTCOMES.labels(outcome, endpoint).inc()
        if details.get("seconds") is not None:
            SECONDS.labels(endpoint).observe(details["seconds"])

    return count


def _count_reaped(*, deleted: int, **details: Any) -> None:
    REAPED.inc(deleted)
