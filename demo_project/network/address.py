"""Where the network listens: on the port after the demo's own."""

import os

HOST = "127.0.0.1"


def port() -> int:
    """Return the network's port."""
    # An empty variable is how make passes one that nobody set.
    return int(os.environ.get("PORT") or 8000) + 1


def url() -> str:
    """Return the network's address, without a slash at its end."""
    return f"http://{HOST}:{port()}"
