"""Run a command beside a throw-away MariaDB: `python -m tests.mariadb -- pytest -q`.

The server is Debian's `mariadb-server`, with a data folder of its own that has nothing to do
with the machine's. It is named to the command in DATABASE_URL. Where DATABASE_URL already names
a MariaDB or MySQL, that one is used and none is started.

With `--if-installed` before the `--`, a machine that lacks what it takes is told so in a line,
and the command is left out, unless IDEMPOTENCY_TESTS_REQUIRE has the word mariadb.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .servers import (
    free_port,
    is_named,
    make_data,
    make_data_folder,
    run_beside,
    serve,
    temporary_folder,
    unprivileged,
)

SCHEMES = ("mysql", "mysql2")
IF_INSTALLED = "--if-installed"

# Debian keeps the server where only root's PATH leads.
SERVER_FOLDERS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))

# The machine's own option files say nothing here.
NO_DEFAULTS = "--no-defaults"

# Nothing has to survive a power cut.
SERVER_OPTIONS = {
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-flush-method": "nosync",
    "innodb-doublewrite": "0",
    "innodb-fast-shutdown": "2",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "max-connections": "200",
    # Seconds. A test that waits for a lock as long as this has failed; the default is 50.
    "innodb-lock-wait-timeout": "20",
    "character-set-server": "utf8mb4",
    # No test may pass because the session's time zone happens to be UTC.
    "default-time-zone": "+05:30",
    "skip-name-resolve": "1",
    # Relative to the data folder: a long TMPDIR would not fit into a socket's address.
    "socket": "mariadb.sock",
}

FIRST_STATEMENTS = "CREATE DATABASE idempotency;\n"


def main(arguments: Sequence[str]) -> int:
    """Run the command, or say why it is left out; return the exit status."""
    optional = arguments[:1] == [IF_INSTALLED]
    if reason := lacking():
        required = "mariadb" in os.environ.get("IDEMPOTENCY_TESTS_REQUIRE", "").split()
        if required or not optional:
            raise SystemExit(f"MariaDB cannot run: {reason}")
        print(f"MariaDB is LEFT OUT: {reason}", flush=True)
        return 0
    return run_beside(server, SCHEMES, arguments[1:] if optional else arguments)


def lacking() -> str | None:
    """Return what this machine lacks, and how to get it; None where it has everything."""
    if find_spec("MySQLdb") is None:
        return "there is no mysqlclient: pip install -r requirements-mariadb.txt"
    if not is_named(SCHEMES):
        for program in ("mariadbd", "mariadb-install-db", "mariadb-admin"):
            if find(program) is None:
                return f"there is no {program}: apt-get install mariadb-server"
    return None


def find(program: str) -> str | None:
    """Return the path of one of the server's programs."""
    return shutil.which(program, path=SERVER_FOLDERS)


@contextlib.contextmanager
def server() -> Iterator[dict[str, str]]:
    """Start a server, yield the environment that names it, and remove it all at the end."""
    with temporary_folder("mariadb") as folder:
        identity = unprivileged("mysql", "nobody")
        data = init(folder, identity)
        port = free_port()
        options = [f"--{name}={value}" for name, value in SERVER_OPTIONS.items()]
        address = ("--protocol=tcp", "--host=127.0.0.1", f"--port={port}", "--user=root")
        with serve(
            [find("mariadbd"), NO_DEFAULTS, f"--datadir={data}", f"--tmpdir={data}", *options]
            + ["--bind-address=127.0.0.1", f"--port={port}"],
            ping=[find("mariadb-admin"), NO_DEFAULTS, *address, "ping"],
            stop=signal.SIGTERM,
            log=folder / "mariadb.log",
            identity=identity,
        ):
            yield {"DATABASE_URL": f"mysql://root@127.0.0.1:{port}/idempotency"}


def init(folder: Path, identity: Mapping[str, Any]) -> Path:
    """Make an empty server whose root needs no password, and return its folder."""
    data = make_data_folder(folder, identity)
    extra = folder / "first.sql"
    extra.write_text(FIRST_STATEMENTS)
    make_data(
        [find("mariadb-install-db"), NO_DEFAULTS, f"--datadir={data}", f"--tmpdir={data}"]
        + ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        + ["--innodb-flush-method=nosync", "--innodb-log-file-size=32M", f"--extra-file={extra}"],
        folder,
        identity,
    )
    return data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
