"""Eight processes of four threads that do the same thing at the same moment."""

from __future__ import annotations

import multiprocessing
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

PROCESSES = 8
THREADS = 4
SIZE = PROCESSES * THREADS

# A worker that dies breaks the barrier for all; a test must not wait for it for ever.
PATIENCE_SECONDS = 60

Found = list[Any]


class Crowd:
    """Worker processes, each a Django of its own on the test's database."""

    def __init__(self, database: str) -> None:
        """Start the processes; they are ready before `run` lets the first thread go."""
        context = multiprocessing.get_context("spawn")
        self.barrier = context.Barrier(SIZE)
        self.lines = []
        self.processes = []
        for number in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve, args=(database, number, theirs, self.barrier), daemon=True
            )
            process.start()
            theirs.close()
            self.lines.append(ours)
            self.processes.append(process)

    def run(self, task: str, **arguments: Any) -> Found:
        """Let every thread run that function of `tasks`; return what they found, in one list."""
        for line in self.lines:
            line.send((task, arguments))
        return [one for line in self.lines for found in line.recv() for one in found]

    def close(self) -> None:
        """Send the processes home."""
        for line in self.lines:
            line.send(None)
        for process in self.processes:
            process.join(PATIENCE_SECONDS)
            process.close()
        for line in self.lines:
            line.close()


def serve(database: str, number: int, line: Any, barrier: Any) -> None:
    """Be one of the processes: run each task that comes in, until None comes."""
    # The settings are those of a new process, which is not in the test's database yet.
    import django
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = database
    django.setup()
    tasks = import_module("tests.concurrency.tasks")
    while order := line.recv():
        task, arguments = order
        line.send(run_threads(number, getattr(tasks, task), barrier, arguments))


def run_threads(
    number: int, task: Callable[..., Found], barrier: Any, arguments: dict[str, Any]
) -> list[Found]:
    """Run the task in each of this process's threads, and return what each found."""
    found: list[Found] = []

    def run(thread: int) -> None:
        from django.db import connections

        try:
            found.append(task(lambda: barrier.wait(PATIENCE_SECONDS), thread, **arguments))
        except Exception:
            barrier.abort()
            found.append([("error", traceback.format_exc())])
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=run, args=(number * THREADS + index,)) for index in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
