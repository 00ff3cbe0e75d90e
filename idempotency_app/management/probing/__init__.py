"""Ask an endpoint from outside whether a retry is safe: four questions over HTTP."""

from .changing import changed_body, is_same
from .exchange import Target
from .questions import Probe, probes

__all__ = ["Probe", "Target", "changed_body", "is_same", "probes"]
