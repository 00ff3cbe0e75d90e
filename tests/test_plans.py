"""What PostgreSQL reads for each page, filter, search and command of a person or of cron.

`PLANS_ROWS=1000000` runs it at the size of a busy day; each query is then held to the same
limit.
"""

from __future__ import annotations

import io
import json
import os
import re
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client

from idempotency_app.models import IdempotencyKey

pytestmark = [pytest.mark.postgresql_only, pytest.mark.django_db(transaction=True)]

ROWS = int(os.environ.get("PLANS_ROWS", "50000"))
BUFFERS = 2_000
TABLE = IdempotencyKey._meta.db_table
LIST = "/admin/idempotency_app/idempotencykey/"

# Nearly all complete, one of ten expired and unreaped; a big account of every hour, one that is
# idle since its batch in the middle, and one that is old; a few hundred of what an operator
# looks for.
FILL = f"""
INSERT INTO {TABLE} (account, endpoint, key, fingerprint, effects, state, fencing_token,
    locked_at, locked_until, response_status, response_headers, response_body, steps,
    created_at, expires_at)
SELECT CASE WHEN n %% 2 = 1 AND n BETWEEN %(rows)s * 0.3 AND %(rows)s * 0.5 THEN 'tenant:batch'
        WHEN n %% 10 = 0 THEN 'tenant:big'
        WHEN n %% 20 = 1 AND n < %(rows)s / 10 THEN 'tenant:old'
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
STATES = ("", "in_flight", "stale", "unknown", "waiting", "complete", "expired")
CREATED = ("", "hour", "week")
TERMS = ("", "nowhere", "tenant:big", "tenant:batch", "tenant:old")


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


def test_b61_no_page_and_no_command_reads_the_whole_table(filled, tmp_path):
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    some = IdempotencyKey.objects.exclude(locked_until=None).first()
    assert some
    done = IdempotencyKey.objects.filter(locked_until=None).latest("pk")
    explained = Explained()
    pages = [
        *(f"{LIST}?p={page}" for page in (2, 10)),
        *(
            f"{LIST}?state={state}&created={span}&q={term}"
            for state, span, term in product(STATES, CREATED, (*TERMS, some.key))
        ),
        *(f"{LIST}{some.pk}/{page}/" for page in ("change", "history")),
        f"{LIST}{done.pk}/delete/",
    ]
    with connection.execute_wrapper(explained):
        for page in pages:
            assert client.get(page).status_code == 200
        for action, rows in (
            ("release_stale_lock", IdempotencyKey.objects.stale().filter(steps=None)),
            ("settle_outcome", IdempotencyKey.objects.unresolved()),
        ):
            assert b"Done: 1 key." in act(client, action, list(rows[:100]))
        delete = f"{LIST}{done.pk}/delete/"
        confirm(client, delete, {"post": "yes"}, client.get(delete))
        assert not IdempotencyKey.objects.filter(pk=done.pk).exists()
        call_command("write_idempotency_metrics", str(tmp_path / "keys.prom"))
        call_command("reap_idempotency_keys", "--dry-run", "--max-rows", "3000", "-v", "0")
        call_command("reap_idempotency_keys", "--max-rows", "2000", stdout=io.StringIO())
        for words in ("in_flight", "stale", "waiting", "unresolved"):
            getattr(IdempotencyKey.objects, words)().count()
        call_command("check", "--database", "default", stdout=io.StringIO())
    assert len(explained.plans) > 400
    scans = [sql for sql, plan, _ in explained.plans if '"Seq Scan"' in plan and TABLE in plan]
    greedy = [(read, sql) for sql, plan, read in explained.plans if read > limit(sql)]
    for read, text in sorted({(read, sql[-200:]) for sql, _, read in explained.plans})[-20:]:
        print(f"{read:7,} {text}")
    print(f"{len(explained.plans)} statements, at most {max(r for *_, r in explained.plans):,}")
    assert not scans, scans
    assert not greedy, greedy


def act(client: Client, action: str, rows: list[IdempotencyKey]) -> bytes:
    """Ask for the confirm page of the rows, and confirm the first."""
    asked = {"action": action, "_selected_action": [row.pk for row in rows]}
    first = {**asked, "_selected_action": [rows[0].pk], "confirmed": "1"}
    return confirm(client, LIST, first, client.post(LIST, asked))


def confirm(client: Client, path: str, asked: dict[str, Any], page: Any) -> bytes:
    """Send the page's form for the first row that it shows."""
    seen = re.findall(r'name="seen" value="([^"]+)"', page.content.decode())[:1]
    said = {"seen": seen, "reason": "dead", "outcome": "record", "status": "201"}
    return bytes(client.post(path, {**asked, **said}, follow=True).content)


def limit(sql: str) -> int:
    """Return how many buffers: a batch of the reaper writes a thousand rows in six indexes."""
    return BUFFERS if sql.startswith("SELECT") else 20 * BUFFERS
