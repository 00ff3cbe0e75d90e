"""How the demo starts and ends: two servers that live and die together."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]
import pytest

from .live import (
    ROOT,
    demo_process,
    environment,
    kill_family,
    two_free_ports,
    wait_for,
    wait_until_ready,
)

END_SECONDS = 15
EMPTY = {"requests": 0, "charges": 0, "wires": 0, "messages": 0}

# Two servers like the demo's, that need no database.
PAIR = """
import sys
from pathlib import Path
from demo_project.processes import Ended, servers
folder = Path(sys.argv[1])
try:
    with servers(folder) as running:
        for name in ("network", "demo"):
            running.start(name, folder / f"{name}.py", {})
        running.wait()
except Ended as error:
    sys.exit(str(error))
"""
CONFIG = """
bind = "127.0.0.1:0"
wsgi_app = "empty:application"
worker_class = "gthread"
control_socket_disable = True
"""


@pytest.fixture(scope="module")
def var(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("var")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "empty.py").write_text("def application(environ, start_response): ...")
    for name in ("network", "demo"):
        (tmp_path / f"{name}.py").write_text(CONFIG)
    with subprocess.Popen(
        [sys.executable, "-c", PAIR, str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as pair:
        try:
            wait_for(lambda: len(family(pair.pid)) == 4)
            yield pair
        finally:
            kill_family(pair)


def family(pid: int) -> list[psutil.Process]:
    """Return every process below this one."""
    found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    return found


def are_gone(processes: list[psutil.Process]) -> bool:
    return all(is_gone(process) for process in processes)


def is_gone(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_addresses_are_printed_and_answer_and_a_signal_ends_both(
    var: Path, tmp_path: Path, number: signal.Signals
) -> None:
    port, log = two_free_ports(), tmp_path / "log"
    network = f"http://127.0.0.1:{port + 1}/counts/?tenant=acme"
    with demo_process(port, var, log) as demo:
        wait_until_ready(demo, port, log)
        assert httpx.get(network).json() == EMPTY
        assert network in log.read_text()
        assert f"http://127.0.0.1:{port}/api/" in log.read_text()
        started = family(demo.pid)
        assert len(started) == 2 + 2 + 1  # Servers, workers of the demo and of the network.
        demo.send_signal(number)
        assert demo.wait(END_SECONDS) == 0
        assert are_gone(started)


@pytest.mark.parametrize(("which", "name"), [(0, "network"), (1, "demo")])
def test_where_one_is_killed_the_other_is_ended(pair, which: int, name: str) -> None:
    started = family(pair.pid)
    servers = sorted(psutil.Process(pair.pid).children(), key=lambda child: child.pid)
    servers[which].kill()
    assert pair.wait(END_SECONDS) == 1
    assert f"The {name} has ended" in pair.stderr.read()
    wait_for(lambda: are_gone(started))


def test_where_the_parent_is_killed_both_end(pair) -> None:
    started = family(pair.pid)
    pair.kill()
    wait_for(lambda: are_gone(started))


@pytest.mark.parametrize("offset", [0, 1])
def test_a_port_that_is_taken_is_told_before_anything_is_emptied(
    tmp_path: Path, offset: int
) -> None:
    port = two_free_ports()
    with socket.create_server(("127.0.0.1", port + offset)):
        demo = subprocess.run(
            [sys.executable, "manage.py", "run_demo"],
            cwd=ROOT,
            env=environment(port, tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
    assert demo.returncode == 1
    assert f"Port {port + offset} cannot be used" in demo.stderr
    assert not list(tmp_path.glob("*.sqlite3"))
