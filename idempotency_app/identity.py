"""Whose key it is, and for what: the account and the endpoint."""

from __future__ import annotations

import hashlib
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from .exceptions import AccountRequired
from .policy import Policy

LONGEST = 255  # bytes in UTF-8, the width of the columns
ANONYMOUS = "anonymous:"
RESERVED = (ANONYMOUS, "consumer:")

SAYS_WHO = "What names the account (account=, IDEMPOTENCY_APP['ACCOUNT'] or the view) returned"


def account_of(request: Any, policy: Policy) -> str:
    """Return the account that the request's key belongs to.

    Raises AccountRequired where there is none and the policy does not share one, and
    ImproperlyConfigured where the project's callable, or a user, gives something unusable.
    """
    named = policy.account
    account = user_account(request.user) if named is None else named(request)
    if account is not None:
        return check_account(account)
    if policy.anonymous == "share":
        return ANONYMOUS
    raise AccountRequired


def user_account(user: Any) -> str | None:
    """Name the acting user, `app_label.model:pk`, and not the credential that it used.

    None for nobody, an anonymous user, and one without a primary key.
    """
    if user is None or not user.is_authenticated or getattr(user, "pk", None) is None:
        return None
    meta = getattr(user, "_meta", None)
    if meta is None:
        # A user that is no model, such as one read from a token.
        return f"{type(user).__module__}.{type(user).__qualname__}:{user.pk}"
    return f"{meta.concrete_model._meta.label_lower}:{user.pk}"


def check_account(account: object) -> str:
    """Return the account; raises ImproperlyConfigured unless it can be one. It is never cut."""
    if not isinstance(account, str):
        raise ImproperlyConfigured(f"{SAYS_WHO} {type(account).__name__}, not a str or None.")
    if not account.isprintable():
        raise ImproperlyConfigured(f"{SAYS_WHO} characters that cannot be printed.")
    if not 1 <= len(account.encode()) <= LONGEST:
        raise ImproperlyConfigured(f"{SAYS_WHO} {len(account.encode())} bytes, not 1 to {LONGEST}.")
    if account.startswith(RESERVED):
        raise ImproperlyConfigured(
            f"{SAYS_WHO} {account!r}; {' and '.join(RESERVED)} are ours. Begin it with a word of "
            "your own, such as `tenant:`."
        )
    return account


def endpoint_of(request: Any, view: Any) -> str:
    """Return method and route, e.g. `POST payments/<int:pk>/refund/`.

    Without a resolver match, as with a request factory, the view's dotted name stands for
    the route; also where another view has called this one with a request of its own route.
    """
    match = request.resolver_match
    routed = getattr(getattr(match, "func", None), "cls", None)
    if match is not None and (routed is None or isinstance(view, routed)):
        return fitted(f"{request.method} {match.route}")
    name = f"{type(view).__module__}.{type(view).__qualname__}"
    action = getattr(view, "action", None)
    return fitted(f"{request.method} {name}.{action}" if action else f"{request.method} {name}")


def fitted(endpoint: str) -> str:
    """Cut an endpoint that is too long for its column; it then ends in its SHA-256."""
    whole = endpoint.encode()
    if len(whole) <= LONGEST:
        return endpoint
    digest = hashlib.sha256(whole).hexdigest()
    head = whole[: LONGEST - len(digest) - 1].decode(errors="ignore")
    return f"{head}~{digest}"
