"""The settings, read live from the dict `IDEMPOTENCY_APP`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

from django.conf import settings

T = TypeVar("T")


class Setting(Generic[T]):
    """One setting: its default, and its value each time it is asked for.

    Nothing is cached, so that `override_settings` works unaided.
    """

    def __init__(self, default: T) -> None:
        """Take what holds where the project sets nothing."""
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        return cast("T", getattr(settings, "IDEMPOTENCY_APP", {}).get(self.name, self.default))


# What payment APIs call their secrets: credentials, and card data that PCI DSS 3.2 and 3.3
# forbid to show.
REDACTED = (
    *("authorization", "cookie", "password", "passwd", "secret", "token", "api_key", "apikey"),
    *("access_token", "refresh_token", "client_secret", "private_key"),
    *("card_number", "pan", "cvc", "cvv", "pin", "iban", "account_number"),
)


class AppSettings:
    """Every setting, with its type and its default."""

    # Whose keys a request's keys are: a callable, or its dotted path. None: the user's.
    ACCOUNT = Setting[Callable[[Any], str | None] | str | None](None)

    # What a caller without an account gets: "reject" (400) or "share" (one account for all).
    ANONYMOUS = Setting[str]("reject")

    # Where the effects of a view live that does not say. None: nobody has said.
    EFFECTS = Setting[str | None](None)

    # Fernet keys that recorded responses and step results are encrypted with, newest first.
    # Empty: they are kept in clear.
    ENCRYPTION_KEYS = Setting[Sequence[str]](())

    # "problem" (RFC 9457), or "drf": through the project's own exception handler.
    ERROR_FORMAT = Setting[str]("problem")

    # How long a claim holds before a retry may take over. It has to outlast the slowest
    # request: a minute is twice gunicorn's default time limit of 30 seconds.
    LOCK_TIMEOUT = Setting[timedelta](timedelta(seconds=60))

    # The largest body, in bytes, that is kept for a replay.
    MAX_RESPONSE_BYTES = Setting[int](1024 * 1024)

    # What a problem's `type` begins with; the code follows (RFC 9457 §3.1.1).
    PROBLEM_TYPE_BASE = Setting[str]("urn:idempotency:")

    # Names of JSON and form fields whose values the admin does not show, in any case and at any
    # depth. What is stored must be replayed, and stays exact.
    REDACT_FIELDS = Setting[Sequence[str]](REDACTED)

    # How long a key outlives its response, to refuse late retries. None: not at all.
    REMEMBER = Setting[timedelta | None](None)

    # Names of response headers to keep and replay beside the built-in ones.
    REPLAY_HEADERS = Setting[Sequence[str]](())

    # The server's own time limit on a request, to check LOCK_TIMEOUT against. None: unknown.
    REQUEST_TIMEOUT = Setting[timedelta | None](None)

    # Whether a request without a key is refused.
    REQUIRED = Setting[bool](False)

    # How long a response is kept after the work has ended. None: for ever. A day, as Stripe
    # keeps the keys of its API v1.
    RETENTION = Setting[timedelta | None](timedelta(hours=24))

    # How long the slowest client goes on retrying, to check RETENTION against. None: unknown.
    RETRY_WINDOW = Setting[timedelta | None](None)


app_settings = AppSettings()
