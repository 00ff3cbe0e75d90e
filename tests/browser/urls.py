"""The admin, and one endpoint whose worker is killed in its first run, after the wire has gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, path

from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import make_view
from tests.effects.support import Network, charging, raising

POLICY = Idempotency(
    effects=Effects.UNREPEATABLE, effects_in_steps=True, account=lambda request: "tenant:acme"
)


def content_security_policy(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Forbid inline script and style; the browser reports what it refuses as an error."""

    def middleware(request: Any) -> Any:
        response = get_response(request)
        response.headers["Content-Security-Policy"] = "default-src 'self'"
        return response

    return middleware


class Wires:
    """The other side, and the endpoint in front of it, as new."""

    def __init__(self) -> None:
        self.network = Network()
        work = charging(self.network, raising(SystemExit()), "in")
        self.view = make_view(work, policy=POLICY)


# One for each test: a fixture makes it anew.
wires = Wires()


def wire(request: Any) -> Any:
    return wires.view.as_view()(request)


wire.csrf_exempt = True  # type: ignore[attr-defined]  # As APIView's own.

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("wires/", wire),
    # Each browser asks for one, by itself.
    path("favicon.ico", lambda request: HttpResponse(status=204)),
]
