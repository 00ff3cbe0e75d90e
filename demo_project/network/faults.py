"""The same faults as in front of the demo, placed where the network has its own moments."""

from __future__ import annotations

import time
from typing import Any

from ..faults import Faults


class NetworkFaults(Faults):
    """What one call asks the network to do wrong.

    It is slow after its commit, so that on SQLite a slow call makes no other one wait.
    """

    def after_effect(self) -> None:
        """Stand where the money has moved and nothing is committed yet, but for a wire."""
        self.reach("after-effect", "after")

    def after_save(self, environ: dict[str, Any]) -> None:
        """Stand where everything is committed and no byte has been sent."""
        time.sleep(self.delay)
        super().after_save(environ)
