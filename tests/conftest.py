"""What every test may ask for, and which tests a run leaves out."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from django.db import connection

from tests.cases.support import Threads
from tests.effects.support import Network

# A test with one of these marks runs on these databases, by Django's name of the vendor.
RUNS_ON = {
    "row_locks": {"postgresql", "mysql"},
    "postgresql_only": {"postgresql"},
    "mariadb_only": {"mysql"},
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this database cannot show; a skip would hide it among real ones."""
    foreign = [mark for mark, vendors in RUNS_ON.items() if connection.vendor not in vendors]
    left_out = [item for item in items if any(map(item.get_closest_marker, foreign))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True, scope="session")
def refused_statements_are_logged() -> Iterator[None]:
    """Let captured queries have the text of an INSERT that met a duplicate, too.

    Django asks MySQL's driver for it, which has noted only statements that went well.
    """
    operations = type(connection.ops)
    noted = operations.last_executed_query

    def last_executed_query(self: Any, cursor: Any, sql: str, params: Any) -> str:
        return sql if cursor._executed is None else str(noted(self, cursor, sql, params))

    with pytest.MonkeyPatch.context() as patch:
        if connection.vendor == "mysql":
            patch.setattr(operations, "last_executed_query", last_executed_query)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure under IDEMPOTENCY_TESTS_STRICT=1, as CI has it."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and is_strict():
        report.outcome = "failed"
        report.longrepr = f"skipped under IDEMPOTENCY_TESTS_STRICT: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for a module that skips itself while it is imported."""
    report = yield
    if report.outcome == "skipped" and is_strict():
        report.outcome = "failed"
        report.longrepr = f"skipped under IDEMPOTENCY_TESTS_STRICT: {report.longrepr}"
    return report


def is_strict() -> bool:
    return os.environ.get("IDEMPOTENCY_TESTS_STRICT") == "1"


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads(max_workers=4) as pool:
        yield pool
