from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from .crowd import Crowd


@pytest.fixture(scope="session")
def crowd(django_db_setup: None) -> Iterator[Crowd]:
    """The workers: their start takes longer than a race, so they stay for the next test."""
    crowd = Crowd(str(connection.settings_dict["NAME"]))
    yield crowd
    crowd.close()
