"""What PostgreSQL reads for each page, filter, search and command of a person or of cron.

`PLANS_ROWS=1000000` runs it at the size of a busy day; each query is then held to the same
limit.
"""

from __future__ import annotations

import io
import json
import os
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client

from idempotency_app.models import IdempotencyKey

pytestmark = [pytest.mark.postgresql_only, pytest.mark.django_db(transaction=True)]

ROWS = int(os.environ.get("PLANS_ROWS", "20000"))
BUFFERS = 2_000
TABLE = IdempotencyKey._meta.db_table
LIST = "/admin/idempotency_app/idempotencykey/"

# Nine of ten complete, one of ten expired and unreaped; one big account, one of 5,000 old rows
# or a quarter; a few hundred of what an operator looks for.
FILL = f"""
INSERT INTO {TABLE} (account, endpoint, key, fingerprint, effects, state, fencing_token,
    locked_at, locked_until, response_status, response_headers, response_body, steps,
    created_at, expires_at)
SELECT CASE WHEN n %% 10 = 0 THEN 'tenant:big' WHEN n < least(5000, %(rows)s / 4) THEN 'tenant:mid'
        ELSE 'tenant:' || n %% 997 END,
    'POST payments/', 'key-' || md5(n::text), repeat('0', 64), 'local', 'complete', n,
    at, NULL, 201, '[]', repeat('x', 600)::bytea, NULL, at, at + interval '24 hours'
FROM (SELECT n, now() - (%(rows)s - n) * interval '26.6 hours' / %(rows)s AS at
    FROM generate_series(1, %(rows)s) AS n) AS rows
"""  # noqa: S608  # The table's own name.
OPEN = f"""
UPDATE {TABLE} SET state = CASE WHEN id % 4 = 3 THEN 'released' ELSE 'in_progress' END,
    locked_until = now() + CASE WHEN id % 4 = 0 THEN 1 ELSE -1 END * interval '1 hour',
    effects = CASE WHEN id % 4 = 2 THEN 'unrepeatable' ELSE 'repeatable' END,
    steps = CASE WHEN id % 4 < 2 THEN NULL ELSE '{{}}' END,
    response_status = NULL, response_headers = NULL, response_body = NULL
WHERE id IN (SELECT id FROM {TABLE} ORDER BY md5(id::text) LIMIT 800)
"""  # noqa: S608


@pytest.fixture
def filled() -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"rows": ROWS})
        cursor.execute(OPEN)
        cursor.execute(f"VACUUM ANALYZE {TABLE}")


class Explained:
    """Explains, where it is sent, every statement on the keys' table."""

    def __init__(self) -> None:
        self.plans: list[tuple[str, str, int]] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if TABLE in sql and sql.split()[0] in ("SELECT", "DELETE", "UPDATE"):
            with transaction.atomic(), context["connection"].cursor() as cursor:
                cursor.cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
                plan = cursor.fetchone()[0][0]["Plan"]
                transaction.set_rollback(True)
            read = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            self.plans.append((sql, json.dumps(plan), read))
        return execute(sql, params, many, context)


def test_b61_no_page_and_no_command_reads_the_whole_table(filled):
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    some = IdempotencyKey.objects.exclude(locked_until=None).first()
    assert some
    explained = Explained()
    pages = [
        LIST,
        *(f"{LIST}?p={page}" for page in (2, 10)),
        *(
            f"{LIST}?state={state}"
            for state in ("in_flight", "stale", "unknown", "waiting", "complete", "expired")
        ),
        *(f"{LIST}?created={span}" for span in ("hour", "day", "week")),
        f"{LIST}?q={some.key}",
        *(f"{LIST}?q={term}" for term in ("nowhere", "tenant:big", "tenant:mid", "tenant:7")),
        f"{LIST}?state=stale&created=hour",
        *(f"{LIST}{some.pk}/{page}/" for page in ("change", "history")),
    ]
    with connection.execute_wrapper(explained):
        for page in pages:
            assert client.get(page).status_code == 200
        call_command("reap_idempotency_keys", "--dry-run", "--max-rows", "3000", "-v", "0")
        call_command("reap_idempotency_keys", "--max-rows", "2000", stdout=io.StringIO())
        for rows in ("in_flight", "stale", "waiting", "unresolved"):
            getattr(IdempotencyKey.objects, rows)().count()
        call_command("check", "--database", "default", stdout=io.StringIO())
    assert len(explained.plans) > 60
    scans = [sql for sql, plan, _ in explained.plans if '"Seq Scan"' in plan and TABLE in plan]
    greedy = [(read, sql) for sql, plan, read in explained.plans if read > limit(sql)]
    print(f"{len(explained.plans)} statements, at most {max(r for *_, r in explained.plans):,}")
    assert not scans, scans
    assert not greedy, greedy


def limit(sql: str) -> int:
    """Return how many buffers: a batch of the reaper writes a thousand rows in six indexes."""
    return BUFFERS if sql.startswith("SELECT") else 20 * BUFFERS
