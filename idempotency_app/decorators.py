"""The decorator for function views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.views import APIView

from .mixins import ClaimMixin, IdempotencyMixin
from .policy import Idempotency


def idempotent(policy: Idempotency | None = None, **fields: Any) -> Callable[[Any], Any]:
    """Make an `@api_view` safe to retry; stands directly above it.

    Takes a policy, or the fields of one: `@idempotent(required=True, effects=Effects.LOCAL)`.
    Raises TypeError where it stands anywhere else.
    """
    if callable(policy):
        raise TypeError("Call the decorator: @idempotent() or @idempotent(required=True).")
    if policy is not None and fields:
        raise TypeError("@idempotent takes a policy or the fields of one, not both.")
    declared = Idempotency(**fields) if policy is None else policy

    def decorate(view: Any) -> Any:
        base = getattr(view, "cls", None)
        if base is None or not issubclass(base, APIView):
            raise TypeError("@idempotent has to stand above @api_view: move it up.")
        if hasattr(getattr(view, "__wrapped__", None), "__wrapped__"):
            # `as_view` wraps once, in csrf_exempt; a second layer is somebody's decorator, and
            # the view that is made anew here, from the class, would be without it.
            raise TypeError("@idempotent has to stand directly above @api_view: move it down.")
        bases = (base,) if issubclass(base, ClaimMixin) else (IdempotencyMixin, base)
        names = {"idempotency": declared, "__module__": base.__module__, "__doc__": base.__doc__}
        cls: Any = type(base.__name__, bases, names)
        return cls.as_view(**view.initkwargs)

    return decorate
