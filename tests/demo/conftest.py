"""The served demo as a fixture."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from .live import LiveDemo, connected, served


@pytest.fixture(scope="session")
def demo_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "demo.log"


@pytest.fixture(scope="session")
def served_demo(
    tmp_path_factory: pytest.TempPathFactory, demo_log: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[LiveDemo]:
    # One server for all stories: each has its own keys, and counts what it adds.
    with django_db_blocker.unblock():
        demo = served(tmp_path_factory.mktemp("var"), demo_log)
        live = demo.__enter__()
    try:
        yield live
    finally:
        with django_db_blocker.unblock():
            demo.__exit__(None, None, None)


@pytest.fixture
def live_demo(
    served_demo: LiveDemo, demo_log: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[LiveDemo]:
    """The demo with two worker processes of eight threads; a failure shows its log."""
    begun = demo_log.stat().st_size
    with django_db_blocker.unblock(), connected(served_demo.database):
        yield served_demo
    print(demo_log.read_bytes()[begun:].decode(errors="replace"))


@pytest.fixture
def key() -> str:
    return str(uuid.uuid4())
