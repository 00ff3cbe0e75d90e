"""What the commands read from the command line in the same way."""

from __future__ import annotations

from argparse import ArgumentTypeError


def count(text: str) -> int:
    """Return a whole number of at least 1. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
