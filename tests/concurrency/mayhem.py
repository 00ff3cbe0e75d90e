"""Eighteen workers that send requests, fail, sleep past their locks and are killed.

A worker that is killed can tell nothing any more, so what happens is noted in a file, to which
each line is appended in one go.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

PROCESSES = 6
THREADS = 3
KEYS = [f"key-{number}" for number in range(60)]

# By us, beside the workers that kill themselves: each that comes anew asks for every key, so
# that on a busy machine they would never end.
MOST_KILLS = 8

# A run that hangs has failed; none takes that long.
PATIENCE_SECONDS = 90


class Journal:
    """What happened, line by line: a word, the key, and whatever belongs to it."""

    def __init__(self, path: str) -> None:
        """Take the path of the file, which every process appends to."""
        self.path = path

    def note(self, *words: object) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
        os.close(file)


def read(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def run_mayhem(database: str, effects: str, journal: Path, seed: int) -> list[list[str]]:
    """Let the workers bring all keys to their end, replacing those that are killed."""
    # A process of its own forks the workers, which is quick, and has no threads to lose.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.concurrency.rioters"])
    deadline = time.monotonic() + PATIENCE_SECONDS
    numbers = iter(range(10_000))

    def start() -> Any:
        arguments = (database, effects, str(journal), seed * 10_000 + next(numbers))
        process = context.Process(target=riot, args=arguments)
        process.start()
        return process

    processes = [start() for _ in range(PROCESSES)]
    dice = random.Random(seed)
    kills_left = MOST_KILLS
    try:
        while processes:
            wait([process.sentinel for process in processes], timeout=0.1 + dice.random() / 5)
            assert time.monotonic() < deadline
            if kills_left and dice.random() < 0.5:
                kills_left -= 1
                # Wherever its threads are: in a statement, in a COMMIT, in the effect.
                Journal(str(journal)).note("killed", "-")
                dice.choice(processes).kill()
            processes = list(survivors(processes, start))
    finally:
        for process in processes:
            process.kill()
            process.join()
    return read(journal)


def survivors(processes: list[Any], start: Any) -> Iterator[Any]:
    for process in processes:
        if process.is_alive():
            yield process
        else:
            process.join()
            if process.exitcode == -signal.SIGKILL:
                yield start()
            process.close()


def riot(database: str, effects: str, journal: str, seed: int) -> None:
    """Be one of the processes, until every key has its answer."""
    from . import rioters

    rioters.run(database, effects, Journal(journal), seed, THREADS)
