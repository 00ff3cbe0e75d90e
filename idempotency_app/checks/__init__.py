"""Mistakes that are told at start-up. Each id has one meaning, and a line in the README.

Those of the database run with `manage.py check --database default` and with `migrate`; those
of deployment with `check --deploy`. `SILENCED_SYSTEM_CHECKS` silences any by its id.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import Tags, register

from . import database, settings, views


def register_all() -> None:
    """Register every check with Django."""
    register(settings.check_names)
    register(_where_readable(settings.check_values))
    register(_where_readable(settings.check_durations))
    register(_where_readable(settings.check_sharing))
    register(_where_readable(settings.check_cors))
    register(_where_readable(settings.check_exception_handler))
    register(_where_readable(settings.check_encryption), Tags.security, deploy=True)
    register(_where_readable(views.check_policies), Tags.urls)
    register(_where_readable(views.check_endpoints), Tags.urls)
    register(_where_readable(views.check_transactions), Tags.urls)
    register(_where_readable(database.check_sqlite))
    register(_where_readable(database.check_aliases))
    register(_where_readable(database.check_constraint), Tags.database)
    register(_where_readable(database.check_reaper), Tags.database)


def _where_readable(check: Callable[..., Any]) -> Callable[..., Any]:
    """Leave the check out where `IDEMPOTENCY_APP` is no dict, which E002 tells."""

    @functools.wraps(check)
    def readable(app_configs: Any, **kwargs: Any) -> Any:
        is_dict = isinstance(getattr(django_settings, "IDEMPOTENCY_APP", {}), dict)
        return check(app_configs, **kwargs) if is_dict else []

    return readable
