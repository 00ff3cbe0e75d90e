"""What is wrong with the views that the URLconf leads to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from rest_framework.permissions import SAFE_METHODS

from ..conf import app_settings
from ..models import IdempotencyKey
from ..policy import UNSET, Effects, Idempotency
from ..routes import Route, routes
from .messages import error, warning
from .settings import against_each_other


def keyed() -> list[tuple[Route, str, Any]]:
    """Return each route, method and policy of views with the mixin; none without a URLconf."""
    try:
        found = [route for route in routes() if route.is_keyed]
        return [
            (route, method, route.policy(method)) for route in found for method in route.methods
        ]
    except Exception:
        # Django's own check tells what is wrong with a URLconf; a check must not raise.
        return []


def check_policies(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """E004 to E006, E011, W001 to W004 of each view."""
    messages: dict[str, checks.CheckMessage] = {}
    for route, method, policy in keyed():
        for message in _of_policy(route, method, policy):
            messages.setdefault(f"{message.id}{message.msg}", message)
    return list(messages.values())


def _of_policy(route: Route, method: str, policy: Any) -> Iterator[checks.CheckMessage]:
    if policy is None:
        return
    if not isinstance(policy, Idempotency):
        text = f"{route.name}: idempotency is {policy!r}."
        yield error(11, text, "Write Idempotency(...), or None to switch it off.", route.view)
        return
    try:
        resolved = policy.resolve()
    except (ImproperlyConfigured, ImportError):
        return  # A setting is wrong, which has a check of its own.
    if safe := sorted(set(resolved.methods) & set(SAFE_METHODS)):
        text = f"{route.name}: keys on {', '.join(safe)}, which is safe and needs none."
        yield error(6, text, "Leave it out of `methods`.", route.view)
    if method not in resolved.methods:
        return
    if policy.effects is UNSET and app_settings.EFFECTS is None:
        text = f"{route.name} does not say where its effects live."
        hint = "Write effects=Effects.LOCAL, REPEATABLE or UNREPEATABLE into its policy."
        yield warning(3, text, hint, route.view)
    own = (policy.lock_timeout, policy.retention, policy.remember)
    if any(value is not UNSET for value in own):
        durations = (resolved.lock_timeout, resolved.retention, resolved.remember)
        yield from against_each_other(route.name, *durations, obj=route.view)
    if policy.anonymous == "share":
        text = f"{route.name}: anonymous callers can get each other's replays."
        yield warning(4, text, "Fine where a replay shows nothing private; silence it.", route.view)


def check_endpoints(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """W010: two views share one endpoint name, and so their operations."""
    owners: dict[str, type] = {}
    messages: dict[str, checks.CheckMessage] = {}
    for route, _, policy in keyed():
        name = policy.endpoint if isinstance(policy, Idempotency) else None
        if not isinstance(name, str):
            continue
        owner = owners.setdefault(name, route.view)
        if owner is not route.view:
            text = f"{owner.__name__} and {route.name} share the endpoint name {name!r}."
            hint = "One key on both is one operation. Give each its own name."
            messages.setdefault(text, warning(10, text, hint, route.view))
    return list(messages.values())


def check_transactions(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """E008: the opt-out of ATOMIC_REQUESTS is lost, so the claim commits after the work."""
    alias = router.db_for_write(IdempotencyKey)
    if not connections[alias].settings_dict["ATOMIC_REQUESTS"]:
        return []
    messages: dict[str, checks.CheckMessage] = {}
    for route, _, policy in keyed():
        opted_out = getattr(route.callback, "_non_atomic_requests", ())
        if policy is not None and alias not in opted_out:
            text = f"{route.name}: its claims commit only after the work, under ATOMIC_REQUESTS."
            hint = (
                "Let as_view() return what super().as_view() does, or wrap it with functools.wraps."
            )
            messages.setdefault(text, error(8, text, hint, route.view))
    return list(messages.values())


def declares_local(policy: Any) -> bool:
    """Tell whether the policy's work writes rows in the keys' own database."""
    if not isinstance(policy, Idempotency):
        return False
    effects = app_settings.EFFECTS if policy.effects is UNSET else policy.effects
    return effects in (None, Effects.LOCAL)
