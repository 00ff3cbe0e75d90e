"""How the demo is served: what people see is real concurrency."""

import os
import time
from typing import Any

bind = f"127.0.0.1:{os.environ.get('PORT') or 8000}"
wsgi_app = "demo_project.wsgi:application"

# Two processes, so that nothing in one's memory can pass for a lock; eight threads each.
workers = 2
worker_class = "gthread"
threads = 8

# Seconds without a heartbeat until a worker is killed. A thread that sleeps does not stop it.
timeout = 30
# Seconds that running requests get when the demo is stopped.
graceful_timeout = 3

# An interface to a running server, through a socket in the working directory.
control_socket_disable = True

loglevel = os.environ.get("DEMO_LOG_LEVEL", "info")
accesslog = "-"
access_log_format = "%(m)s %(U)s %(s)s in %(M)s ms"


def when_ready(server: Any) -> None:
    """Say what the start has cost, where `make demo` has told when it began."""
    if started := os.environ.get("DEMO_STARTED"):
        downloaded = os.environ.get("DEMO_DOWNLOADED") or "nothing"
        seconds = time.time() - int(started)
        # Flushed, or each worker that is forked now says it again into a pipe.
        print(f"Downloaded: {downloaded}. Listening after {seconds:.0f} s.", flush=True)
