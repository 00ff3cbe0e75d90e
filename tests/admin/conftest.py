from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from tests.cases.support import Threads
from tests.effects.support import Network

from .test_pages import log_in

pytest.register_assert_rewrite("tests.admin.acting")


@pytest.fixture
def support() -> Client:
    return log_in("support", "view", "release", "settle", "view_response")


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads(max_workers=4) as pool:
        yield pool
