"""What a view class declares: its policy, and the mistakes that can be told at import."""

from __future__ import annotations

import inspect
from typing import Any, cast

from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from .policy import UNSET, Idempotency, Policy

HANDLERS = (
    *("get", "post", "put", "patch", "delete"),
    *("list", "create", "retrieve", "update", "partial_update", "destroy"),
)


def declared_policy(view: Any) -> Idempotency | None:
    """Return the policy that the view declares for this request; None switches it off.

    `as_view(idempotency=...)`, or the action's own, is laid over the class's.
    """
    layers: list[Idempotency | None] = [type(view).idempotency]
    # Read from the action itself too, since only a router passes it to `as_view`.
    for place in (_action_kwargs(view), vars(view)):
        if "idempotency" in place:
            layers.append(place["idempotency"])
    policy = layers.pop()
    for outer in reversed(layers):
        if policy is None:
            return None
        if outer is not None:
            policy = policy.over(outer)
    return policy


def endpoint_name(view: Any, policy: Policy) -> str | None:
    """Return the endpoint's stable name, None where the policy gives none.

    An action that has only its class's name gets one of its own, `name:action`: another
    action is another operation.
    """
    action = getattr(view, "action", None)
    if policy.endpoint is None or not isinstance(view, ViewSetMixin) or action in (None, *HANDLERS):
        return policy.endpoint
    own = [place.get("idempotency") for place in (_action_kwargs(view), vars(view))]
    has_own = any(declared and declared.endpoint not in (UNSET, None) for declared in own)
    return policy.endpoint if has_own else f"{policy.endpoint}:{action}"


def _action_kwargs(view: Any) -> dict[str, Any]:
    """Return what `@action` was given; also for a method added with `@name.mapping.patch`."""
    name = getattr(view, "action", None)
    # DRF's own handlers are no actions; what `as_view` got holds the action's kwargs already.
    is_action = isinstance(view, ViewSetMixin) and name and name not in HANDLERS
    if not is_action or name is None or "idempotency" in vars(view):
        return {}
    kwargs = getattr(getattr(view, name, None), "kwargs", None)
    if kwargs is None:
        mapped = (extra for extra in view.get_extra_actions() if name in extra.mapping.values())
        kwargs = next((extra.kwargs for extra in mapped), {})
    return cast("dict[str, Any]", kwargs)


def check_bases(cls: type, mixins: tuple[type, ...]) -> None:
    """Refuse bases that put DRF before one of the mixins, which would then never be called.

    Raises TypeError that shows the line as it should be.
    """
    order = cls.__mro__
    drf = [order.index(base) for base in (APIView, ViewSetMixin) if base in order]
    if all(order.index(mixin) < position for mixin in mixins for position in drf):
        return
    ours = [base for base in cls.__bases__ if issubclass(base, mixins)]
    others = [base for base in cls.__bases__ if base not in ours]
    line = ", ".join(base.__name__ for base in ours + others)
    raise TypeError(
        f"{ours[0].__name__} has to stand before the view classes of REST framework:\n\n"
        f"    class {cls.__name__}({line}):"
    )


def check_handlers(cls: type) -> None:
    """Refuse handlers that are coroutine functions; raises TypeError that names them."""
    actions = {name for name, value in vars(cls).items() if hasattr(value, "mapping")}
    for name in (*HANDLERS, *sorted(actions)):
        if inspect.iscoroutinefunction(getattr(cls, name, None)):
            raise TypeError(f"{cls.__name__}.{name} is async. {ASYNC_UNSUPPORTED}")


def check_result(view: Any, result: Any) -> Any:
    """Return what a handler returned; raises TypeError where that is a coroutine.

    `@api_view` hides an async function until it is called.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(f"{type(view).__name__} is async. {ASYNC_UNSUPPORTED}")
    return result


ASYNC_UNSUPPORTED = (
    "REST framework runs handlers as plain functions, and so does IdempotencyMixin: "
    "write the handler with `def`."
)
