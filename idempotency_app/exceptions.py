"""What can go wrong with a key, each as the reply that a client gets.

IdempotencyError            an APIException; `title` and `default_code` go on the wire
├── KeyMissing          400 key-missing
├── KeyInvalid          400 key-invalid
├── AccountRequired     400 account-required
├── InProgress          409 in-progress        with Retry-After
│   └── LockLost        409 in-progress        this worker is no longer the owner
├── OutcomeUnknown      409 outcome-unknown
├── ResponseNotKept     409 response-not-kept
├── KeyExpired          409 key-expired
├── KeyReused           422 key-reused
└── StoreUnavailable    503 store-unavailable  with Retry-After

StepResultInvalid           a TypeError of the work's, no reply
Unreadable                  a ValueError: sealed with an encryption key that is gone
"""

from __future__ import annotations

from rest_framework import status
from rest_framework.exceptions import APIException


class IdempotencyError(APIException):
    """The base of every reply that this app makes instead of running the work.

    `title` says what happened and stays the same for one code (RFC 9457 §3.1.4);
    the detail says what the client should do next.
    """

    title = "The request could not be made idempotent"

    def __init__(self, detail: str | None = None, *, wait: int | None = None) -> None:
        """Take the detail, and `wait`: seconds for Retry-After, None for no such header."""
        super().__init__(detail)
        self.wait = wait

    @property
    def code(self) -> str:
        """The stable, machine-readable name of the problem, e.g. `key-reused`."""
        return str(self.default_code)


class KeyMissing(IdempotencyError):
    """The view requires a key and the request carries none."""

    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "key-missing"
    title = "This request needs an Idempotency-Key"
    default_detail = (
        "Make a unique key for this operation, for example a UUID, send it in the "
        "Idempotency-Key header, and send the same key again when you retry."
    )


class KeyInvalid(IdempotencyError):
    """The header is there, and is not one key of 1 to 255 visible ASCII characters."""

    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "key-invalid"
    title = "The Idempotency-Key is malformed"
    default_detail = (
        "Send one key of 1 to 255 visible ASCII characters, bare or in double quotes. "
        "A key that contains a comma, a quote or a backslash has to be quoted."
    )


class AccountRequired(IdempotencyError):
    """The caller has no account that a key could belong to."""

    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "account-required"
    title = "An Idempotency-Key needs an account"
    default_detail = (
        "Keys belong to an account, and this request has none. "
        "Authenticate, and send it again with the same key."
    )


class InProgress(IdempotencyError):
    """The first request with this key is still running.

    `wait` is how many seconds the client should let pass, at least 1.
    """

    status_code = status.HTTP_409_CONFLICT
    default_code = "in-progress"
    title = "The first request with this key is still running"

    def __init__(self, detail: str | None = None, *, wait: int = 1) -> None:
        """Take `wait` in seconds; the default detail names it."""
        super().__init__(
            _send_again(wait) if detail is None else detail,
            wait=wait,
        )

    @property
    def retry_after(self) -> int:
        """Seconds to wait before the same request is sent, or delivered, again."""
        return 1 if self.wait is None else self.wait


class LockLost(InProgress):
    """A write was refused by its fence: another worker has taken the key over.

    Nothing was saved. For `LOCAL` work its own writes are rolled back with it.
    """


class OutcomeUnknown(IdempotencyError):
    """An outside effect had begun, and nobody knows yet how it ended."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "outcome-unknown"
    title = "It is not known how the first request ended"
    default_detail = (
        "Do not use a new key: first establish that the operation did not succeed and is "
        "not still running. Once its outcome is settled, the same request with the same "
        "key gets the answer."
    )


class ResponseNotKept(IdempotencyError):
    """The work is done, and its response was too large or streamed, so it was not kept."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "response-not-kept"
    title = "The operation is done, but its response was not kept"
    default_detail = (
        "Do not send it under a new key: the first request completed. "
        "Read the result from the API instead."
    )


class KeyExpired(IdempotencyError):
    """The work finished so long ago that its response is gone, and the key is remembered."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "key-expired"
    title = "The operation is done, and its response has expired"
    default_detail = (
        "The first request with this key finished; its response is no longer kept. "
        "Reconcile with the API's records; do not use a new key."
    )


class KeyReused(IdempotencyError):
    """Other data came under a key that was used before."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_code = "key-reused"
    title = "This Idempotency-Key was used for another request"
    default_detail = (
        "Send the first request unchanged to get its answer, or use a new key for a new operation."
    )


class StoreUnavailable(IdempotencyError):
    """The database that holds the keys cannot be reached, so the work does not run."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "store-unavailable"
    title = "Idempotency keys cannot be stored right now"

    def __init__(self, detail: str | None = None, *, wait: int = 1) -> None:
        """Take `wait` in seconds; the default detail names it."""
        super().__init__(_send_again(wait) if detail is None else detail, wait=wait)


class StepResultInvalid(TypeError):
    """A step has ended, and what it returned cannot be saved as JSON; no reply of its own.

    `step` is its name and `result` what it returned, for whoever has to note it down before
    it is lost. It is in no message, since those are logged.
    """

    def __init__(self, step: str, result: object) -> None:
        """Take the step's name and its result."""
        super().__init__(
            f"Step {step!r} has ended, and its result, of the type {type(result).__name__}, "
            "cannot be saved as JSON, so a retry would run it again. Return text, numbers, "
            "lists and dicts."
        )
        self.step = step
        self.result = result


class Unreadable(ValueError):
    """What is recorded was encrypted with a key that `ENCRYPTION_KEYS` no longer names."""


def _send_again(wait: int) -> str:
    seconds = "1 second" if wait == 1 else f"{wait} seconds"
    return f"Send the same request with the same key again after {seconds}."
