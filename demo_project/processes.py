"""Child processes that live and die together, and with this one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# A server that is told to end gives running requests three seconds.
END_SECONDS = 6
START_SECONDS = 60

STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Ended(Exception):
    """A server has ended by itself, or could not begin; says which and why."""


def check_free(host: str, port: int) -> None:
    """Raise Ended where somebody else listens there already."""
    try:
        socket.create_server((host, port)).close()
    except (OSError, OverflowError) as error:
        raise Ended(f"Port {port} cannot be used, set another with PORT: {error}.") from error


class Servers:
    """The gunicorns of one run."""

    def __init__(self, folder: Path) -> None:
        """Take the folder to start them in."""
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, config: Path, environment: Mapping[str, str]) -> None:
        """Start one with its configuration file, and variables beside our own."""
        self._running[name] = subprocess.Popen(  # noqa: S603  # A fixed argument list.
            [sys.executable, "-m", "gunicorn", "--config", str(config)],
            cwd=self.folder,
            env={**os.environ, **environment},
            preexec_fn=_begin,
        )

    def wait_until_listening(self, host: str, port: int) -> None:
        """Return when something listens there; raises Ended where a server has ended."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
                return
            time.sleep(0.05)
        raise Ended(f"Nothing listens on {host}:{port}.")

    def wait(self) -> None:
        """Wait for ever; raises Ended where a server has ended."""
        while True:
            self.check()
            time.sleep(0.2)

    def check(self) -> None:
        """Raise Ended where a server has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise Ended(f"The {name} has ended (status {process.returncode}); so it all ends.")

    def stop(self) -> None:
        """End all of them, and return when they have."""
        for process in self._running.values():
            process.terminate()
        deadline = time.monotonic() + END_SECONDS
        for process in self._running.values():
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Yield the servers of one run; all are ended with the block, and by Ctrl-C or SIGTERM."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(0)

    for number in STOPS:
        signal.signal(number, stop)
    running = Servers(folder)
    try:
        yield running
    finally:
        # Whoever is impatient must not leave one behind.
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        running.stop()


def _begin() -> None:
    """Prepare a server's process, before it becomes gunicorn."""
    # Ctrl-C is for the parent, which then ends its servers in good order.
    os.setpgid(0, 0)
    if sys.platform == "linux":
        # And where the parent is killed without a chance to do that, the kernel does it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
