"""The statements of the claim protocol: all raw SQL, and where the databases differ.

Each statement runs alone, in autocommit, but for `complete` in LOCAL work. Every one that
changes a row names the fencing token that it saw, and repeats the condition that it relies
on, so that of two that race one changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True)
class Dialect:
    """What a database calls its clock (UTC, at the statement's start) and a duration."""

    now: str
    after: str
    """The clock plus a parameter that `duration` gives; NULL where that is None."""
    seconds: str
    """The seconds from {start} to {end}, as a number."""
    moved: str
    """{column} moved as far as {end} is from the time in the column {was}."""
    duration: Callable[[timedelta], object]


# Earlier than any row, and a date that each database takes.
BEGINNING = "1000-01-01 00:00:00"

DIALECTS = {
    "postgresql": Dialect(
        now="statement_timestamp()",
        after="statement_timestamp() + make_interval(secs => %({name})s)",
        seconds="extract(epoch from {end} - {start})",
        moved="{column} + ({end} - {was})",
        duration=lambda span: span.total_seconds(),
    ),
    "sqlite": Dialect(
        now="strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')",
        after="strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %({name})s)",
        seconds="(julianday({end}) - julianday({start})) * 86400",
        moved="strftime('%%Y-%%m-%%d %%H:%%M:%%f', julianday({column})"
        " + julianday({end}) - julianday({was}))",
        duration=lambda span: f"{span.total_seconds():+.3f} seconds",
    ),
    "mysql": Dialect(
        now="UTC_TIMESTAMP(6)",
        after="UTC_TIMESTAMP(6) + INTERVAL %({name})s MICROSECOND",
        seconds="TIMESTAMPDIFF(MICROSECOND, {start}, {end}) / 1000000",
        moved="{column} + INTERVAL TIMESTAMPDIFF(MICROSECOND, {was}, {end}) MICROSECOND",
        duration=lambda span: span // timedelta(microseconds=1),
    ),
}

# Nobody is at work: the key was given back, or its worker has probably died.
LAPSED = "(state = 'released' OR (state = 'in_progress' AND locked_until <= {now}))"

# Expired, and nothing is open or remembered: the key is as good as new, for any request.
FORGOTTEN = """(expires_at <= {now} AND (
    (state = 'complete' AND (remember_until IS NULL OR remember_until <= {now}))
    OR (steps IS NULL AND {lapsed})))"""

# The same request may go on; not where an outside effect has begun that the row or the view
# calls unrepeatable.
RESUMABLE = """(fingerprint = %(fingerprint)s AND {lapsed}
    AND (steps IS NULL OR (effects <> 'unrepeatable' AND %(effects)s <> 'unrepeatable')))"""

INSERT = """INSERT INTO {table} (account, endpoint, {key}, fingerprint, effects, state,
    fencing_token, locked_at, locked_until, steps, created_at, expires_at, remember_until)
    VALUES (%(account)s, %(endpoint)s, %(key)s, %(fingerprint)s, %(effects)s, 'in_progress',
    %(token)s, {now}, {lock_end}, %(steps)s, {now}, {expiry}, {remembered}) {or_nothing}"""

# ON CONFLICT DO UPDATE would lock the row for every replay. MySQL and MariaDB have no such
# clause that is safe (INSERT IGNORE cuts values to fit), so there a duplicate is an error.
OR_NOTHING = "ON CONFLICT (account, endpoint, {key}) DO NOTHING RETURNING id"

LOOK = """SELECT {columns},
    expires_at <= {now} AS is_expired,
    state = 'in_progress' AND locked_until > {now} AS is_live,
    {forgotten} AS is_forgotten,
    {resumable} AS is_resumable,
    {ran_for} AS ran_for,
    {lock_left} AS lock_left
    FROM {table} WHERE account = %(account)s AND endpoint = %(endpoint)s AND {key} = %(key)s"""

RESET = """UPDATE {table} SET fingerprint = %(fingerprint)s, effects = %(effects)s,
    state = 'in_progress', fencing_token = %(token)s, locked_at = {now},
    locked_until = {lock_end}, response_status = NULL, response_headers = NULL,
    response_body = NULL, steps = %(steps)s, created_at = {now}, expires_at = {expiry},
    remember_until = {remembered}
    WHERE id = %(id)s AND fencing_token = %(seen_token)s AND {forgotten}"""

TAKE_OVER = """UPDATE {table} SET effects = %(effects)s, state = 'in_progress',
    fencing_token = %(token)s, locked_at = {now}, locked_until = {lock_end},
    steps = COALESCE(steps, %(steps)s), expires_at = {expiry}, remember_until = {remembered}
    WHERE id = %(id)s AND fencing_token = %(seen_token)s AND {resumable}"""

# The fence. `complete` does not look at the clock: a slow owner that nobody has taken over
# may still save.
OWNED = "WHERE id = %(id)s AND fencing_token = %(token)s AND state = 'in_progress'"

COMPLETE = """UPDATE {table} SET state = 'complete', locked_until = NULL,
    response_status = %(status)s, response_headers = %(headers)s,
    response_body = %(body)s {owned}"""

DELETE = "DELETE FROM {table} {owned} AND steps IS NULL"

FORGET = "DELETE FROM {table} {owned}"

# A new token: who has seen the row before its last steps were saved must not take it over.
LEAVE = """UPDATE {table} SET state = 'released', locked_until = {now},
    fencing_token = %(new_token)s {owned}"""

# What others are moved by comes last: MySQL reads the new value in what follows.
RENEW = """UPDATE {table} SET expires_at = {expires_at_moved},
    remember_until = {remember_until_moved}, locked_until = {lock_end} {owned}"""

SAVE_STEPS = """UPDATE {table} SET steps = %(steps)s, expires_at = {expires_at_moved},
    remember_until = {remember_until_moved}, locked_until = {lock_end} {owned}"""

# What nobody owns, and nobody knows the end of: an operator may settle it.
UNRESOLVED = """WHERE id = %(id)s AND fencing_token = %(token)s AND steps IS NOT NULL
    AND {lapsed}"""

# Or the failure that was recorded of work which must not be repeated, once it had begun.
SETTLEABLE = """WHERE id = %(id)s AND fencing_token = %(token)s AND steps IS NOT NULL
    AND ({lapsed} OR (state = 'complete' AND effects = 'unrepeatable'
        AND response_status >= 500))"""

# A key that is remembered is so for as long after its response as before.
SETTLE = """UPDATE {table} SET state = 'complete', locked_until = NULL,
    fencing_token = %(new_token)s, response_status = %(status)s,
    response_headers = %(headers)s, response_body = %(body)s,
    remember_until = {remember_until_settled}, expires_at = {expiry} {settleable}"""

DISMISS = "DELETE FROM {table} {unresolved}"

# For an operator who gives back what a dead worker holds; never an effect that must not be
# repeated. `delete` and `leave`, where the lock is stale.
STALE = "{owned} AND locked_until <= {now}"
DELETE_STALE = "DELETE FROM {table} {stale} AND steps IS NULL"
LEAVE_STALE = """UPDATE {table} SET state = 'released', locked_until = {now},
    fencing_token = %(new_token)s {stale} AND steps IS NOT NULL AND effects <> 'unrepeatable'"""

# What nobody works on and nothing is open of: an operator may delete it.
DISCARD = """DELETE FROM {table} WHERE id = %(id)s AND fencing_token = %(token)s
    AND (state = 'complete' OR (steps IS NULL AND {lapsed}))"""

# The reaper goes along the index on expires_at, a window of at most `limit` rows at a time, so
# that what it has to leave is passed once and not before each batch.
HORIZON = """SELECT max(expires_at) FROM (SELECT expires_at FROM {table}
    WHERE expires_at > %(after)s AND expires_at <= {until}
    ORDER BY expires_at LIMIT %(limit)s) AS ahead"""

WINDOW = "expires_at > %(after)s AND expires_at <= %(horizon)s"

# Judged where the row is deleted: one that a claim revives meanwhile stays.
REAPABLE = """{window} AND (
    (state = 'complete' AND (remember_until IS NULL OR remember_until <= {until}))
    OR ((steps IS NULL OR %(include_unresolved)s) AND {lapsed}))"""

# The response has expired, and the key is remembered.
DROPPABLE = "{window} AND state = 'complete' AND remember_until > {until}"

# From then on it expires when it is no longer remembered, out of the reaper's way.
DROP_RESPONSE = """UPDATE {table} SET response_status = NULL, response_headers = NULL,
    response_body = NULL, expires_at = remember_until, remember_until = NULL"""

REAP = "DELETE FROM {table}"

# A batch of what is reapable or droppable.
BATCH = {
    "postgresql": """{verb} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table}
        WHERE {condition} ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))""",
    "sqlite": """{verb} WHERE {condition} AND id IN (SELECT id FROM {table}
        WHERE {condition} ORDER BY expires_at LIMIT %(limit)s)""",
    "mysql": "{verb} WHERE {condition} ORDER BY expires_at LIMIT %(limit)s",
}

COUNT = "SELECT count(*) FROM {table} WHERE {condition}"


@dataclass(frozen=True)
class Statements:
    """The texts for one database and table, with their identifiers quoted."""

    insert: str
    look: str
    reset: str
    take_over: str
    complete: str
    delete: str
    forget: str
    leave: str
    renew: str
    save_steps: str
    settle: str
    dismiss: str
    delete_stale: str
    leave_stale: str
    discard: str
    horizon: str
    reap: str
    drop_response: str
    count_reapable: str
    count_droppable: str


_built: dict[tuple[str, str], Statements] = {}


def statements(connection: Any, model: Any) -> Statements:
    """Return the statements for the model's table on this connection's database."""
    built = _built.get((connection.vendor, model._meta.db_table))
    return built or _build(connection.vendor, connection.ops.quote_name, model._meta)


def _build(vendor: str, quote: Callable[[str], str], meta: Any) -> Statements:
    dialect = DIALECTS[vendor]
    # `key` is a reserved word in MySQL; the other names are plain words on every database.
    words = {"table": quote(meta.db_table), "key": quote("key"), "now": dialect.now}
    words["lapsed"] = LAPSED.format_map(words)
    words |= {
        name: dialect.after.format(name=name)
        for name in ("lock_end", "expiry", "remembered", "until")
    }
    words |= {
        f"{column}_moved": dialect.moved.format(
            column=column, end=words["lock_end"], was="locked_until"
        )
        for column in ("expires_at", "remember_until")
    }
    words["remember_until_settled"] = dialect.moved.format(
        column="remember_until", end=words["expiry"], was="expires_at"
    )
    words |= {
        "columns": ", ".join(quote(field.column) for field in meta.concrete_fields),
        "ran_for": dialect.seconds.format(start="locked_at", end=dialect.now),
        "lock_left": dialect.seconds.format(start=dialect.now, end="locked_until"),
        "owned": OWNED,
        "stale": STALE.format(owned=OWNED, now=dialect.now),
        "window": WINDOW,
        "unresolved": UNRESOLVED.format_map(words),
        "settleable": SETTLEABLE.format_map(words),
        "forgotten": FORGOTTEN.format_map(words),
        "resumable": RESUMABLE.format_map(words),
        "or_nothing": "" if vendor == "mysql" else OR_NOTHING.format_map(words),
    }
    owner = (COMPLETE, DELETE, FORGET, LEAVE, RENEW, SAVE_STEPS)
    operator = (SETTLE, DISMISS, DELETE_STALE, LEAVE_STALE, DISCARD)
    texts = (INSERT, LOOK, RESET, TAKE_OVER, *owner, *operator, HORIZON)
    built = [text.format_map(words) for text in texts]
    _built[vendor, meta.db_table] = Statements(*built, *_reaper(vendor, words))
    return _built[vendor, meta.db_table]


def _reaper(vendor: str, words: dict[str, str]) -> list[str]:
    conditions = [text.format_map(words) for text in (REAPABLE, DROPPABLE)]
    verbs = [text.format_map(words) for text in (REAP, DROP_RESPONSE)]
    batches = [
        BATCH[vendor].format(**words, verb=verb, condition=condition)
        for verb, condition in zip(verbs, conditions, strict=True)
    ]
    return batches + [COUNT.format(**words, condition=condition) for condition in conditions]


def durations(
    connection: Any,
    lock_timeout: timedelta,
    retention: timedelta | None = None,
    remember: timedelta | None = None,
) -> dict[str, object]:
    """Return the parameters lock_end, expiry and remembered, each counted from now."""
    encode = DIALECTS[connection.vendor].duration
    expiry = None if retention is None else lock_timeout + retention
    remembered = None if expiry is None or remember is None else expiry + remember
    return {
        "lock_end": encode(lock_timeout),
        "expiry": None if expiry is None else encode(expiry),
        "remembered": None if remembered is None else encode(remembered),
    }
