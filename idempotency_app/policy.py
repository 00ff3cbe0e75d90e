"""What a view promises about its keys: where its effects live, how long, for whom."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, Final, Literal

from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.utils.module_loading import import_string

from .conf import app_settings


class Effects(models.TextChoices):
    """Where the effects of a view's work live; it decides what a dead worker means."""

    LOCAL = "local", "rows in the same database"
    """Work and response are saved in one transaction; what failed is rolled back."""

    REPEATABLE = "repeatable", "outside, and safe to repeat"
    """The other side gets our downstream key, so that a step may be sent twice."""

    UNREPEATABLE = "unrepeatable", "outside, and not safe to repeat"
    """Once the effect has begun, only an operator can say what a retry gets."""


class Unset(Enum):
    """The type of UNSET, which is told apart from None: `retention=None` is for ever."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET

# The databases' and Python's years end at 9999; a sum of three of these stays far below.
LONGEST = timedelta(days=36_525)
Account = Callable[[Any], str | None]
Anonymous = Literal["reject", "share"]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A complete policy: what holds for one request. See `Idempotency` for the fields."""

    required: bool
    methods: frozenset[str]
    effects: Effects
    lock_timeout: timedelta
    retention: timedelta | None
    remember: timedelta | None
    account: Account | None
    anonymous: Anonymous
    endpoint: str | None
    effects_in_steps: bool
    record_statuses: frozenset[int]
    release_on: tuple[type[Exception], ...]
    max_response_bytes: int


@dataclass(frozen=True, kw_only=True)
class Idempotency:
    """Declare a view's policy; what is left out comes from the class, then the settings.

    An action's policy is laid over its class's, so that it never weakens it by silence.
    """

    required: bool | Unset = UNSET
    """Refuse a request without a key (400 `key-missing`)."""
    methods: Collection[str] | Unset = UNSET
    """The methods on which the header counts; POST and PATCH where left out."""
    effects: Effects | Unset = UNSET
    """Where the effects of the work live; `Effects.LOCAL` where nobody says."""
    lock_timeout: timedelta | Unset = UNSET
    """How long a claim holds; it has to outlast the slowest request."""
    retention: timedelta | None | Unset = UNSET
    """How long a response is kept after the lock's end. None: for ever."""
    remember: timedelta | None | Unset = UNSET
    """How long the key outlives its response, answering 409 `key-expired`. None: not."""
    account: Account | None | Unset = UNSET
    """A callable of the request that names the account. None: the authenticated user."""
    anonymous: Anonymous | Unset = UNSET
    """`"reject"` a key without an account, or `"share"` one account among all such."""
    endpoint: str | None | Unset = UNSET
    """A stable name in place of method and route, which a deploy may change."""
    effects_in_steps: bool | Unset = UNSET
    """Promise that `UNREPEATABLE` work does nothing outside before its first step."""
    record_statuses: Collection[int] | Unset = UNSET
    """Which 4xx and 5xx are recorded and replayed; 402 alone where left out."""
    release_on: tuple[type[Exception], ...] | Unset = UNSET
    """Exceptions which prove that nothing happened outside, so that the key is released."""
    max_response_bytes: int | Unset = UNSET
    """The largest body that is kept; a retry of a larger one gets 409."""

    def __post_init__(self) -> None:
        """Refuse at import what could only fail at the first request.

        Raises TypeError, naming the field and what it takes.
        """
        for name, value in self._values().items():
            if value is not UNSET and not TAKES[name][1](value):
                raise TypeError(f"{name} takes {TAKES[name][0]}, not {value!r}.")

    def over(self, outer: Idempotency) -> Idempotency:
        """Return this policy with what it leaves out taken from `outer`."""
        return Idempotency(
            **{
                name: mine if mine is not UNSET else getattr(outer, name)
                for name, mine in self._values().items()
            }
        )

    def resolve(self) -> Policy:
        """Return the complete policy, with what is left out taken from the settings.

        Raises ImproperlyConfigured that names the setting where one has a wrong type.
        """
        complete = _defaults() | {k: v for k, v in self._values().items() if v is not UNSET}
        _check_settings(complete)
        complete["effects"] = Effects(complete["effects"])
        complete["methods"] = frozenset(method.upper() for method in complete["methods"])
        complete["record_statuses"] = frozenset(complete["record_statuses"])
        return Policy(**complete)

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _defaults() -> dict[str, Any]:
    account = app_settings.ACCOUNT
    return {
        "required": app_settings.REQUIRED,
        "methods": {"POST", "PATCH"},
        "effects": Effects.LOCAL if app_settings.EFFECTS is None else app_settings.EFFECTS,
        "lock_timeout": app_settings.LOCK_TIMEOUT,
        "retention": app_settings.RETENTION,
        "remember": app_settings.REMEMBER,
        "account": import_string(account) if isinstance(account, str) else account,
        "anonymous": app_settings.ANONYMOUS,
        "endpoint": None,
        "effects_in_steps": False,
        # 402 is an answer of the card network, and final (a declined card); other 4xx say
        # that nothing happened.
        "record_statuses": {402},
        "release_on": (),
        "max_response_bytes": app_settings.MAX_RESPONSE_BYTES,
    }


def _check_settings(values: dict[str, Any]) -> None:
    """Refuse what only a setting can have brought in: the fields were checked at import."""
    for name, value in values.items():
        takes, fits = TAKES[name]
        if name == "effects" and value in Effects.values:
            continue
        if not fits(value):
            raise ImproperlyConfigured(
                f"IDEMPOTENCY_APP[{name.upper()!r}] takes {takes}, not {value!r}."
            )


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_duration(value: Any) -> bool:
    return isinstance(value, timedelta) and timedelta(0) <= value <= LONGEST


def _is_duration_or_none(value: Any) -> bool:
    return value is None or _is_duration(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _are_errors(value: Any) -> bool:
    return _has_only(int)(value) and all(400 <= status <= 599 for status in value)


def _has_only(kind: type) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        is_many = isinstance(value, Collection) and not isinstance(value, str)
        return is_many and all(isinstance(each, kind) for each in value)

    return check


def _are_exceptions(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(each, type) and issubclass(each, Exception) for each in value
    )


# What each field takes, in words and as a test.
TAKES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "required": ("True or False", _is(bool)),
    "methods": ("a set of names, such as {'POST'}", _has_only(str)),
    "effects": ("a member of Effects", _is(Effects)),
    "lock_timeout": ("a timedelta from 0 to 100 years", _is_duration),
    "retention": ("a timedelta from 0 to 100 years, or None for ever", _is_duration_or_none),
    "remember": ("a timedelta from 0 to 100 years, or None for not", _is_duration_or_none),
    "account": ("a callable of the request, or None", lambda it: it is None or callable(it)),
    "anonymous": ('"reject" or "share"', lambda it: it in ("reject", "share")),
    "endpoint": ("a name, or None for the route", lambda it: it is None or _is_name(it)),
    "effects_in_steps": ("True or False", _is(bool)),
    "record_statuses": ("a set of statuses from 400 to 599, such as {402}", _are_errors),
    "release_on": ("a tuple of exception classes", _are_exceptions),
    "max_response_bytes": ("a number of bytes, at least 0", lambda it: type(it) is int and it >= 0),
}
