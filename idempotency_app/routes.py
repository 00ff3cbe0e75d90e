"""Every route that a REST framework view answers, and the policy that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.views import APIView

from .declarations import HANDLERS, declared_policy
from .mixins import ClaimMixin
from .policy import Idempotency

WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Route:
    """One route: its template, its methods with their actions, and what it declares."""

    template: str
    methods: dict[str, str]
    """The handler's name by method: `{"POST": "create"}`."""
    callback: Any
    view: type[APIView]

    @property
    def is_keyed(self) -> bool:
        """Whether the view has the mixin."""
        return issubclass(self.view, ClaimMixin)

    @property
    def name(self) -> str:
        """The view's class, as a person names it."""
        return self.view.__name__

    def policy(self, method: str) -> Idempotency | None:
        """Return what is declared for the method; None where keys are off, or never were on."""
        if not self.is_keyed:
            return None
        view: Any = self.view(**getattr(self.callback, "initkwargs", {}))
        view.action = self.methods[method]
        return declared_policy(view)


def routes() -> Iterator[Route]:
    """Yield the routes of the project's URLconf, in its order."""
    yield from _under(get_resolver(), "")


def _under(resolver: URLResolver, prefix: str) -> Iterator[Route]:
    for entry in resolver.url_patterns:
        template = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _under(entry, template)
        elif isinstance(entry, URLPattern):
            view = getattr(entry.callback, "cls", None)
            if isinstance(view, type) and issubclass(view, APIView):
                yield Route(template, _methods(entry.callback, view), entry.callback, view)


def _methods(callback: Any, view: type[APIView]) -> dict[str, str]:
    actions = getattr(callback, "actions", None)
    if actions:
        return {method.upper(): name for method, name in actions.items() if method != "head"}
    return {
        name.upper(): name for name in HANDLERS if name.upper() in WRITES and hasattr(view, name)
    }
