"""What is wrong with `IDEMPOTENCY_APP`, and with settings of others that it depends on."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core import checks
from django.utils.module_loading import import_string

from ..conf import AppSettings, Setting, app_settings
from ..policy import LONGEST, TAKES, Effects
from ..sealing import CIPHER
from .messages import error, warning

NAMES = [name for name, value in vars(AppSettings).items() if isinstance(value, Setting)]
DRF_HANDLER = "rest_framework.views.exception_handler"


def _is_limit(value: Any) -> bool:
    return value is None or isinstance(value, timedelta) and timedelta(0) < value <= LONGEST


def _are_texts(value: Any) -> bool:
    is_many = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return is_many and all(isinstance(each, str) for each in value)


LIMIT = ("a timedelta above 0, or None", _is_limit)
TEXTS = ("a list of strings", _are_texts)

# Of those that are no field of a policy; the others are in TAKES, under the field's name.
OTHERS: dict[str, tuple[str, Any]] = {
    "ACCOUNT": ("a callable, its dotted path, or None", lambda it: _is_path(it) or callable(it)),
    "EFFECTS": (
        f"one of {', '.join(Effects.values)}, or None",
        lambda it: it in (None, *Effects.values),
    ),
    "ENCRYPTION_KEYS": TEXTS,
    "ERROR_FORMAT": ('"problem" or "drf"', lambda it: it in ("problem", "drf")),
    "PROBLEM_TYPE_BASE": ("a string", lambda it: isinstance(it, str)),
    "REDACT_FIELDS": TEXTS,
    "REPLAY_HEADERS": TEXTS,
    "REQUEST_TIMEOUT": LIMIT,
    "RETRY_WINDOW": LIMIT,
}


def _is_path(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _given() -> dict[str, Any]:
    given: dict[str, Any] = getattr(settings, "IDEMPOTENCY_APP", {})
    return given


def fits(name: str) -> bool:
    """Tell whether the setting has a value that it takes."""
    return bool(_takes(name)[1](getattr(app_settings, name)))


def _takes(name: str) -> tuple[str, Any]:
    return OTHERS[name] if name in OTHERS else TAKES[name.lower()]


def check_names(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """E001: a name that is no setting."""
    given = getattr(settings, "IDEMPOTENCY_APP", {})
    if not isinstance(given, dict):
        text = f"IDEMPOTENCY_APP takes a dict, not {given!r}."
        return [error(2, text, "Write IDEMPOTENCY_APP = {...}.")]
    messages: list[checks.CheckMessage] = []
    for name in given:
        if name not in NAMES:
            near = difflib.get_close_matches(str(name).upper(), NAMES, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(NAMES)}."
            messages.append(error(1, f"IDEMPOTENCY_APP has no setting {name!r}.", hint))
    return messages


def check_values(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """E002: a wrong type or range. E003: a dotted path that leads nowhere."""
    messages: list[checks.CheckMessage] = []
    for name in NAMES:
        value = _given().get(name)
        if name in _given() and not fits(name):
            # Keys are secrets, and stand in no message.
            shown = "what is there" if name == "ENCRYPTION_KEYS" else repr(value)
            text = f"IDEMPOTENCY_APP[{name!r}] takes {_takes(name)[0]}, not {shown}."
            messages.append(error(2, text, "Correct it, or leave it out for the default."))
    account = _given().get("ACCOUNT")
    if isinstance(account, str):
        try:
            is_callable = callable(import_string(account))
        except ImportError:
            is_callable = False
        if not is_callable:
            text = f"IDEMPOTENCY_APP['ACCOUNT'], {account!r}, cannot be imported as a callable."
            hint = "Name a function of the request by its dotted path."
            messages.append(error(3, text, hint))
    return messages


def check_durations(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Hold the defaults of the durations against each other; see `against_each_other`."""
    names = ("LOCK_TIMEOUT", "RETENTION", "REMEMBER", "REQUEST_TIMEOUT", "RETRY_WINDOW")
    if not all(fits(name) for name in names):
        return []
    defaults = (app_settings.LOCK_TIMEOUT, app_settings.RETENTION, app_settings.REMEMBER)
    return against_each_other("IDEMPOTENCY_APP", *defaults)


def against_each_other(
    where: str,
    lock_timeout: timedelta,
    retention: timedelta | None,
    remember: timedelta | None,
    obj: Any = None,
) -> list[checks.CheckMessage]:
    """E004: no lock. E005: a lock not below the retention. W001 and W002: too short for others."""
    messages: list[checks.CheckMessage] = []
    if lock_timeout == timedelta(0):
        hint = "Set it above your slowest request; a lock of no length protects nothing."
        return [error(4, f"{where}: the lock timeout is 0.", hint, obj)]
    if retention is not None and lock_timeout >= retention:
        text = (
            f"{where}: the lock timeout, {lock_timeout}, is not below the retention, {retention}."
        )
        messages.append(error(5, text, "Keep responses for longer than the work may take.", obj))
    limit = app_settings.REQUEST_TIMEOUT
    if limit is not None and lock_timeout < limit:
        text = f"{where}: the lock timeout, {lock_timeout}, is below REQUEST_TIMEOUT, {limit}."
        hint = "A second run would start beside a slow first one. Raise the lock above it."
        messages.append(warning(1, text, hint, obj))
    window = app_settings.RETRY_WINDOW
    # A key that is remembered refuses the late retry, so nothing runs twice.
    kept = None if retention is None else retention + (remember or timedelta(0))
    if window is not None and kept is not None and kept <= window:
        text = f"{where}: keys are kept for {kept}, not longer than RETRY_WINDOW, {window}."
        hint = "A retry after that runs again. Raise the retention, or set `remember`."
        messages.append(warning(2, text, hint, obj))
    return messages


def check_sharing(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """W004: all who are nobody share one account."""
    if app_settings.ANONYMOUS != "share":
        return []
    text = (
        'IDEMPOTENCY_APP["ANONYMOUS"] is "share": anonymous callers can get each other\'s replays.'
    )
    return [warning(4, text, 'Share on the one view that needs it: anonymous="share".')]


def check_cors(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """W006: django-cors-headers does not let browsers send or see the headers."""
    if "corsheaders" not in settings.INSTALLED_APPS:
        return []
    wanted = {
        "CORS_ALLOW_HEADERS": {"idempotency-key"},
        "CORS_EXPOSE_HEADERS": {"idempotent-replayed", "retry-after"},
    }
    messages: list[checks.CheckMessage] = []
    for name, headers in wanted.items():
        given = {str(each).lower() for each in getattr(settings, name, ())}
        if missing := sorted(headers - given):
            text = f"{name} lacks {', '.join(missing)}, so browsers cannot use it."
            messages.append(warning(6, text, f"Add it to {name}."))
    return messages


def check_exception_handler(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """W008: the project has a handler of its own, and our errors do not pass it."""
    handler = getattr(settings, "REST_FRAMEWORK", {}).get("EXCEPTION_HANDLER", DRF_HANDLER)
    if handler == DRF_HANDLER or app_settings.ERROR_FORMAT == "drf":
        return []
    text = "EXCEPTION_HANDLER is the project's own, and errors of keys are problem details."
    hint = 'Set IDEMPOTENCY_APP["ERROR_FORMAT"] to "drf" to send them through it, or silence this.'
    return [warning(8, text, hint)]


def check_encryption(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """W009: responses are recorded in clear. E010: the keys cannot be used."""
    keys = app_settings.ENCRYPTION_KEYS
    if not keys:
        text = "Recorded responses are kept in clear."
        return [warning(9, text, "Set ENCRYPTION_KEYS, or silence this where the disk is enough.")]
    if find_spec("cryptography") is None:
        return [error(10, "ENCRYPTION_KEYS needs cryptography.", "Install the extra [encryption].")]
    try:
        import_string(CIPHER)(keys)
    except (TypeError, ValueError):
        hint = "Make each with cryptography.fernet.Fernet.generate_key()."
        return [error(10, "ENCRYPTION_KEYS has a key that is no Fernet key.", hint)]
    return []
