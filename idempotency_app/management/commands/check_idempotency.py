"""The smoke test to run against staging."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError

from idempotency_app.management.probing import Probe, Target, probes

BAD_OPTION = 2
UNKNOWN = 3
SECRET = ("authorization", "cookie", "x-api-key")


class Command(BaseCommand):
    """Ask an endpoint from outside whether a retry is safe."""

    help = (
        "Send a request to an endpoint several times, and say whether a retry is safe: whether it "
        "replays, refuses other data under the same key, and runs one of two simultaneous "
        "requests. For staging: each run does the work, at least twice, with the data given. "
        "Exit status: 0 safe; 1 not safe; 2 bad option; 3 where that cannot be told."
    )
    requires_system_checks = []  # noqa: RUF012  # It looks at another server, not at this one.

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the request, as curl does."""
        add = parser.add_argument
        add("url", help="address of the endpoint, http:// or https://")
        add("--data", default="{}", help="the body; @FILE reads a file, @- standard input")
        add("--field", help="name of the JSON field to change (default: the first number or text)")
        add("--changed-data", help="the other body, where it is no JSON object; @FILE too")
        add("-H", "--header", action="append", default=[], help="'Name: value', repeatable")
        add("-X", "--method", default="POST", help="default POST")
        add("--pairs", type=_pairs, default=3, help="simultaneous pairs to send (default 3)")
        add("--timeout", type=float, default=30.0, help="seconds to wait for an answer")
        add("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask, say what was sent and seen, and exit."""
        target = _target(options)
        if not options["json"]:
            shown = ", ".join(f"{name}: {_shown(name, it)}" for name, it in target.headers.items())
            self.stdout.write(f"{target.method} {target.url} ({shown}); this does the work.")
        asked = []
        for probe in probes(target, options["pairs"]):
            asked.append(probe)
            if not options["json"]:
                self._tell(probe)
        status, sentence = _verdict(asked)
        if options["json"]:
            result = {"url": target.url, "verdict": sentence, "probes": [asdict(p) for p in asked]}
            self.stdout.write(json.dumps(result))
        else:
            self.stdout.write(sentence)
        if status:
            sys.exit(status)

    def _tell(self, probe: Probe) -> None:
        word = {True: "ok", False: "FAILED", None: "unclear"}[probe.ok]
        self.stdout.write(f"{word:8}{probe.sent}: {probe.saw}. {probe.meaning}")


def _verdict(asked: list[Probe]) -> tuple[int, str]:
    failed = [probe for probe in asked if probe.ok is False]
    if failed:
        return 1, f"Not safe to retry: {failed[0].meaning}"
    unclear = [probe for probe in asked if probe.ok is None]
    if unclear:
        return UNKNOWN, f"Cannot tell: {unclear[0].meaning}"
    return 0, "Safe to retry, as far as this can be seen from outside."


def _target(options: dict[str, Any]) -> Target:
    if urlsplit(options["url"]).scheme not in ("http", "https"):
        raise CommandError("The URL begins with http:// or https://.", returncode=BAD_OPTION)
    body = _read(options["data"])
    changed = options["changed_data"]
    other = _change(body, options["field"]) if changed is None else _read(changed)
    if other == body:
        raise CommandError("The other body is the same as the first.", returncode=BAD_OPTION)
    headers = {"Content-Type": "application/json", **_headers(options["header"])}
    return Target(
        options["url"], options["method"].upper(), body, other, headers, options["timeout"]
    )


def _headers(lines: list[str]) -> dict[str, str]:
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not line.isprintable():
            text = "A header is written 'Name: value'."
            raise CommandError(text, returncode=BAD_OPTION)
        # As HTTP compares names, so that a given Content-Type replaces the default.
        headers[name.strip().title()] = value.strip()
    return headers


def _read(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode()
    if text == "@-":
        return sys.stdin.buffer.read()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise CommandError(f"Cannot read {text[1:]}: {error}", returncode=BAD_OPTION) from error


def _change(body: bytes, name: str | None) -> bytes:
    """Return the JSON object with one field changed, by the smallest change that shows."""
    try:
        data = json.loads(body)
    except ValueError:
        data = None
    if not isinstance(data, dict) or not data:
        text = "The data is no JSON object with fields: give the other body by --changed-data."
        raise CommandError(text, returncode=BAD_OPTION)
    plain = [each for each, value in data.items() if type(value) in (int, float, str)]
    chosen = name or next((n for n in plain if type(data[n]) is not str), plain[0] if plain else "")
    if chosen not in plain:
        text = f"There is no field {chosen!r} with a number or a text: name one by --field."
        raise CommandError(text, returncode=BAD_OPTION)
    value = data[chosen]
    return json.dumps({**data, chosen: value + ("x" if isinstance(value, str) else 1)}).encode()


def _shown(name: str, value: str) -> str:
    return "…" if name.lower() in SECRET else value


def _pairs(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
