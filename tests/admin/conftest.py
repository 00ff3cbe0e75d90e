from __future__ import annotations

import pytest
from django.test import Client

from .test_pages import log_in

pytest.register_assert_rewrite("tests.admin.acting")


@pytest.fixture
def support() -> Client:
    return log_in("support", "view", "release", "settle", "view_response")
