"""The smoke test to run against staging."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.core.management.base import BaseCommand, CommandError

from idempotency_app.management.arguments import count
from idempotency_app.management.probing import Probe, Target, changed_body, is_same, probes

UNSAFE, BAD_OPTION, UNKNOWN = 1, 2, 3
LONGEST_WAIT = 86_400  # seconds: a day; a socket takes no number that is much larger
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")  # RFC 9110, section 9.2.1
# What the command sets by itself: the key is the question, the others frame the body.
OWN = ("Idempotency-Key", "Content-Length", "Transfer-Encoding", "Connection")


class Command(BaseCommand):
    """Ask an endpoint from outside whether a retry is safe; for a reviewer, before a release."""

    help = (
        "Send a request to an endpoint several times, and say whether a retry is safe: whether it "
        "replays, refuses other data under the same key, and runs one of two simultaneous "
        "requests. For staging: each run does the work with the data given, once for each pair "
        "and twice more, so money moves where the endpoint moves money; not for production. "
        "Exit status: 0 safe; 1 not safe; 2 bad option; 3 where that cannot be told, as where "
        "the first request fails or nobody answers."
    )
    requires_system_checks = []  # noqa: RUF012  # It looks at another server, not at this one.

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the request, as curl does."""
        add = parser.add_argument
        add("url", help="address of the endpoint, http:// or https://; redirects are not followed")
        add("-d", "--data", default="{}", help="the body; @FILE reads a file, @- standard input")
        add("--field", help="the JSON field to change, dotted (default: first number, else text)")
        add("--changed-data", help="the other body, where it is no JSON object; @FILE too")
        add("-H", "--header", action="append", default=[], help="'Name: value', repeatable")
        add("-X", "--method", default="POST", help="default POST")
        add("--pairs", type=count, default=3, help="simultaneous pairs to send (default 3)")
        add("--timeout", type=_seconds, default=30.0, help="seconds to wait (default 30)")
        add("--json", action="store_true", help="one JSON object in place of the lines")

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask, say what was sent and seen, and exit."""
        target = _target(options)
        # Also before the one JSON object somebody has to be able to read what happens now.
        out = self.stderr if options["json"] else self.stdout
        out.write(_announced(target, options["pairs"]), lambda text: text)
        out.flush()
        asked = []
        for probe in probes(target, options["pairs"]):
            asked.append(probe)
            if not options["json"]:
                self._tell(probe)
        status, sentence = _verdict(asked)
        if options["json"]:
            shown = {"url": _shown(target.url), "status": status, "verdict": sentence}
            self.stdout.write(json.dumps({**shown, "probes": [asdict(each) for each in asked]}))
        else:
            self.stdout.write(sentence)
        if status:
            sys.exit(status)

    def _tell(self, probe: Probe) -> None:
        word = {True: "ok", False: "FAILED", None: "unclear"}[probe.ok]
        self.stdout.write(f"{word:8}{probe.sent}: {probe.saw}. {probe.meaning}")
        self.stdout.flush()


def _announced(target: Target, pairs: int) -> str:
    # Credentials come under many names, so only what is known to be none is shown.
    headers = ", ".join(
        f"{name}: {value if name.startswith(('Content-', 'Accept')) else '…'}"
        for name, value in target.headers.items()
    )
    return (
        f"{target.method} {_shown(target.url)} ({headers}), {len(target.body)} bytes. "
        f"This does the work {pairs + 2} times or more: where it is production, money moves."
    )


def _shown(url: str) -> str:
    """Return the address without its query, where credentials may stand."""
    parts = urlsplit(url)
    return parts._replace(query="…" if parts.query else "", fragment="").geturl()


def _verdict(asked: list[Probe]) -> tuple[int, str]:
    for probe in asked:
        if probe.ok is False:
            return UNSAFE, f"Not safe to retry: {probe.meaning}"
    for probe in asked:
        if probe.ok is None:
            return UNKNOWN, f"Cannot tell: {probe.meaning}"
    return 0, "Safe to retry, as far as this can be seen from outside."


def _target(options: dict[str, Any]) -> Target:
    _check_address(options["url"])
    method = options["method"].upper()
    if not TOKEN.fullmatch(method) or method in SAFE_METHODS:
        raise _bad(f"{method} is no method that does work.")
    if options["field"] and options["changed_data"] is not None:
        raise _bad("Give --field or --changed-data, not both.")
    body = _read(options["data"])
    if options["changed_data"] is not None:
        changed = _read(options["changed_data"])
    else:
        try:
            changed = changed_body(body, options["field"])
        except ValueError as error:
            raise _bad(str(error)) from error
    if is_same(body, changed):
        raise _bad("The other body says the same as the first.")
    headers = {"Content-Type": "application/json", **_headers(options["header"])}
    return Target(options["url"], method, body, changed, headers, options["timeout"])


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # A port that is none, or half of an IPv6 address.
        parts, is_whole = SplitResult("", "", "", "", ""), False
    if not is_whole or parts.scheme not in ("http", "https") or not url.isprintable():
        raise _bad("The URL has to be whole, and begin with http:// or https://.")
    if "@" in parts.netloc:
        raise _bad("Give credentials by -H 'Authorization: …', not in the URL.")


def _headers(lines: list[str]) -> dict[str, str]:
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        # As HTTP compares names, so that a given Content-Type replaces the default.
        name = name.strip().title()
        if not colon or not TOKEN.fullmatch(name) or not (line.isascii() and line.isprintable()):
            raise _bad("A header is written 'Name: value', in ASCII.")
        if name in OWN:
            raise _bad(f"The command sets {name} by itself.")
        headers[name] = value.strip()
    return headers


def _read(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode()
    if text == "@-":
        return sys.stdin.buffer.read()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise _bad(f"Cannot read {text[1:]}: {error.strerror}.") from error


def _bad(text: str) -> CommandError:
    return CommandError(text, returncode=BAD_OPTION)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= LONGEST_WAIT:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0, at most a day")
    return seconds
