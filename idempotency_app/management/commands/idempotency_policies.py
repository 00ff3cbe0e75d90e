"""Every route and what it promises."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand

from idempotency_app.policy import UNSET, Policy
from idempotency_app.routes import Route, routes

COLUMNS = ("request", "view", "key", "effects", "lock", "retention", "remember", "endpoint")
UNITS = (("h", 3_600), ("min", 60), ("s", 1))


class Command(BaseCommand):
    """List what each POST and PATCH of the project promises."""

    help = (
        "List every route of a REST framework view that takes POST or PATCH, or another method "
        "with keys, and what it promises; 'no key' where a retry runs again. For a reviewer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the form."""
        parser.add_argument("--json", action="store_true", help="a JSON list of objects")

    def handle(self, *args: Any, **options: Any) -> None:
        """Walk the URLconf and print."""
        rows = [row for route in routes() for row in _rows(route)]
        if options["json"]:
            self.stdout.write(json.dumps(rows))
        elif not rows:
            self.stdout.write("No REST framework view takes a POST or a PATCH.")
        else:
            self._table(rows)

    def _table(self, rows: list[dict[str, str]]) -> None:
        lines = [dict(zip(COLUMNS, COLUMNS, strict=True)), *rows]
        widths = {name: max(len(line[name]) for line in lines) for name in COLUMNS}
        for line in lines:
            text = "  ".join(line[name].ljust(widths[name]) for name in COLUMNS)
            self.stdout.write(text.rstrip())


def _rows(route: Route) -> list[dict[str, str]]:
    rows = []
    for method, action in route.methods.items():
        declared = route.policy(method)
        policy = declared.resolve() if declared else None
        has_key = policy is not None and method in policy.methods
        if not has_key and method not in ("POST", "PATCH"):
            continue
        name = route.name if action == method.lower() else f"{route.name}.{action}"
        row = {"request": f"{method} {route.template}", "view": name}
        if policy is None or not has_key:
            rows.append({**dict.fromkeys(COLUMNS, "-"), **row, "key": "no key"})
            continue
        silent = declared is not None and declared.effects is UNSET
        rows.append({**row, **_promise(policy, silent)})
    return rows


def _promise(policy: Policy, silent: bool) -> dict[str, str]:
    return {
        "key": "required" if policy.required else "optional",
        "effects": f"{policy.effects}{' (by default)' if silent else ''}",
        "lock": _duration(policy.lock_timeout),
        "retention": "for ever" if policy.retention is None else _duration(policy.retention),
        "remember": "-" if policy.remember is None else _duration(policy.remember),
        "endpoint": policy.endpoint or "-",
    }


def _duration(span: timedelta) -> str:
    """Return the span in the largest unit that divides it: `24 h`, `90 s`."""
    seconds = span.total_seconds()
    for unit, size in UNITS:
        if seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
