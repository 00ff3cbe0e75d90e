"""How a person acts in the admin: selects rows, reads the confirm page, fills it in."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from idempotency_app.models import IdempotencyKey

from .test_pages import LIST

RELEASE, SETTLE = "release_stale_lock", "settle_outcome"
RECORD = {"outcome": "record", "status": "201", "body": '{"id": 7}', "reason": "seen at the bank"}
NOT_HAPPENED = {"outcome": "release", "reason": "the bank knows nothing of it"}

# What each is for.
FOR: dict[str, dict[str, Any]] = {
    RELEASE: {"stale": True},
    SETTLE: {"unresolved": True, "steps": "{}"},
}
each_action = pytest.mark.parametrize("action", FOR)


def ask(client: Client, action: str, *records: IdempotencyKey, to: str = LIST) -> str:
    """Select the rows, and return the confirm page."""
    selected = [str(record.pk) for record in records]
    response = client.post(to, {"action": action, "_selected_action": selected})
    assert response.status_code == 200
    return response.content.decode()


def fields_of(action: str, shown: str, **fields: str) -> dict[str, Any]:
    """Return what the confirm page posts when it is filled in so."""
    seen = re.findall(r'name="seen" value="([^"]+)"', shown)
    selected = [each.split(":")[0] for each in seen]
    hidden = {"action": action, "_selected_action": selected, "seen": seen, "confirmed": "1"}
    return {**hidden, **fields}


def confirm(client: Client, action: str, shown: str, **fields: str) -> str:
    """Fill the confirm page in, and return what follows."""
    response = client.post(LIST, fields_of(action, shown, **fields), follow=True)
    assert response.status_code == 200
    return plain(response.content.decode())


def plain(text: str) -> str:
    return text.replace("\xa0", " ")


def history() -> list[str]:
    return [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
