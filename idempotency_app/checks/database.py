"""What is wrong with the keys' database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core import checks
from django.db import DatabaseError, connections, router

from ..fields import DatabaseNow
from ..models import IdempotencyKey
from .messages import error, warning
from .views import declares_local, keyed

# The reaper is for every hour; two days are a weekend on which cron did not run.
UNREAPED = timedelta(days=2)
SCOPE = ["account", "endpoint", "key"]


def check_sqlite(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """W005: SQLite transactions that read and then write fail at once."""
    connection = connections[router.db_for_write(IdempotencyKey)]
    options = connection.settings_dict.get("OPTIONS", {})
    if connection.vendor != "sqlite" or options.get("transaction_mode") == "IMMEDIATE":
        return []
    text = "The keys' SQLite database does not begin its transactions with IMMEDIATE."
    hint = 'Without it, "database is locked" comes at once. Set OPTIONS["transaction_mode"].'
    return [warning(5, text, hint)]


def check_aliases(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """E009: the project's transactions are on another database than the keys."""
    alias = router.db_for_write(IdempotencyKey)
    others = [
        name
        for name in connections
        if name != alias and connections[name].settings_dict["ATOMIC_REQUESTS"]
    ]
    if not others or not any(declares_local(policy) for _, _, policy in keyed()):
        return []
    text = f"ATOMIC_REQUESTS is on for {', '.join(others)}, and the keys are in {alias}."
    hint = (
        "LOCAL work is rolled back with the keys' database only. Route the keys to where it writes."
    )
    return [error(9, text, hint)]


def _checked(databases: Any) -> str | None:
    """Return the keys' alias, where it is asked for and its table is there."""
    alias = router.db_for_write(IdempotencyKey)
    if alias not in (databases or ()):
        return None
    tables = connections[alias].introspection.table_names()
    return alias if IdempotencyKey._meta.db_table in tables else None


def check_constraint(
    app_configs: Any, databases: Any = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E007: nothing keeps two requests from owning one key."""
    alias = _checked(databases)
    if alias is None:
        return []
    connection, table = connections[alias], IdempotencyKey._meta.db_table
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, table).values()
    if any(each["unique"] and each["columns"] == SCOPE for each in found):
        return []
    text = f"{table} has no unique constraint on (account, endpoint, key)."
    return [error(7, text, "Without it a request runs twice. Restore it; see `sqlmigrate`.")]


def check_reaper(
    app_configs: Any, databases: Any = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """W007: keys expired long ago are still there."""
    alias = _checked(databases)
    if alias is None:
        return []
    rows = IdempotencyKey.objects.using(alias).expired()
    try:
        late = rows.filter(expires_at__lte=DatabaseNow() - UNREAPED).exists()
    except DatabaseError:  # Not migrated to the end.
        return []
    if not late:
        return []
    text = "Keys that expired more than two days ago are still there."
    return [warning(7, text, "Run `manage.py reap_idempotency_keys` from cron, say every hour.")]
