"""How the network is served: beside the demo, on the next port, from its own database."""

import os
from typing import Any

from demo_project.network import address

bind = f"{address.HOST}:{address.port()}"
wsgi_app = "demo_project.network.wsgi:application"

workers = 1
worker_class = "gthread"
# As many as the demo has in both of its processes, so that no call waits for a thread.
threads = 16

timeout = 30
graceful_timeout = 3
control_socket_disable = True
proc_name = "network"

loglevel = os.environ.get("DEMO_LOG_LEVEL", "info")
accesslog = "-"
access_log_format = "network: %(m)s %(U)s %(s)s in %(M)s ms"


def on_starting(server: Any) -> None:
    """Make the database once, before the port is open and before any worker is there."""
    from demo_project.network.install import prepare

    prepare()
