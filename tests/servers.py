"""What the throw-away database servers share: `python -m tests.NAME -- COMMAND...`.

Each listens on 127.0.0.1 on a free port, is named to the command in DATABASE_URL, and forgets
everything when the command ends.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

START_SECONDS = 60  # A cold disk may need ten; half a second to two are usual.

Server = Callable[[], AbstractContextManager[Mapping[str, str]]]


def run_beside(server: Server, schemes: Sequence[str], arguments: Sequence[str]) -> int:
    """Run the command that follows `--` and return its exit status.

    Where DATABASE_URL names a database of one of the schemes, that one is used and no server
    is started.
    """
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print("Name the command to run: -- COMMAND...", file=sys.stderr)
        return 2
    if is_named(schemes):
        return run(command, {})
    # Until a command runs, SIGTERM has to unwind the stack like Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with server() as environment:
        return run(command, environment)


def is_named(schemes: Sequence[str]) -> bool:
    """Tell whether DATABASE_URL names a database of one of these kinds."""
    return urlsplit(os.environ.get("DATABASE_URL", "")).scheme in schemes


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command, pass SIGTERM and SIGINT on to it, and wait for its end."""
    with subprocess.Popen(command, env=os.environ | dict(environment)) as process:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: process.send_signal(number))
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Make a folder that every user may look into, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix=f"idempotency-{name}-") as path:
        Path(path).chmod(0o755)  # mkdtemp's 0700 is for secrets, and there are none here.
        yield Path(path)


def unprivileged(*users: str) -> dict[str, Any]:
    """Return the arguments that make `subprocess` drop root; empty where we are not root.

    The servers refuse to run as root. The first of the users that the machine has runs it.
    """
    if os.geteuid() != 0:
        return {}
    for name in users:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise SystemExit(f"The server does not run as root; make a user: {' or '.join(users)}.")


def make_data_folder(folder: Path, identity: Mapping[str, Any]) -> Path:
    """Return an empty folder that belongs to the server's user, and to nobody else."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    if identity:
        os.chown(data, identity["user"], identity["group"])
    return data


def make_data(command: Sequence[object], folder: Path, identity: Mapping[str, Any]) -> None:
    """Run the program that fills the data folder; exit with what it says where it fails."""
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **identity,
    ) as process:
        try:
            said = process.communicate()[0]
        except BaseException:
            # It has children of its own, which would write on while the folder is removed.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise SystemExit(f"The server's data could not be made:\n{said}")


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def serve(
    command: Sequence[object],
    *,
    ping: Sequence[object],
    stop: signal.Signals,
    log: Path,
    identity: Mapping[str, Any],
) -> Iterator[None]:
    """Run the server until the block ends; `ping` exits with 0 once it takes connections."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C is for the command; the server is stopped after it.
            start_new_session=True,
            **identity,
        )
    try:
        wait_until_ready(process, [str(part) for part in ping], log)
        yield
    finally:
        process.send_signal(stop)
        process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], ping: Sequence[str], log: Path) -> None:
    """Return when the server takes connections; exit with its log where it does not."""
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(ping, check=False, capture_output=True).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"The server did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)
