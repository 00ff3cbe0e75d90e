"""The network as the demo sees it: over HTTP, with a time limit, and with honest errors.

APIException
├── CardDeclined          402  the bank's answer, and final
├── NetworkUnreachable    503  with Retry-After; no connection, so nothing happened
├── NetworkBusy           503  with Retry-After; it is still at work on the same key
└── NetworkFailed         502  it answered with an error, or not in time: nobody knows
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import httpx
from rest_framework import status
from rest_framework.exceptions import APIException

from . import address

# Seconds. The network answers in milliseconds; the lock of the key that waits for it holds for
# a minute, and gunicorn's clients give up after half of one.
CONNECT_SECONDS = 2
ANSWER_SECONDS = 10

# What httpx raises before a single byte of the call has gone out.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class CardDeclined(APIException):
    """The bank has said no; the same charge will get the same answer."""

    status_code = status.HTTP_402_PAYMENT_REQUIRED
    default_detail = "The card was declined. Use another card, under a new key."
    default_code = "card_declined"


class NetworkUnreachable(APIException):
    """There was no connection, which proves that this call has done nothing."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = "The card network cannot be reached; nothing was sent to it. Try again later."
    default_code = "network_unreachable"
    wait = 1  # Seconds, which Django REST Framework sends as Retry-After.


class NetworkBusy(APIException):
    """An earlier call under the same key is still at work there."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = "The card network is still at work on this. Send the same request again."
    default_code = "network_busy"
    wait = 1  # Seconds.


class NetworkFailed(APIException):
    """The call went out, and what came back does not say what it has done."""

    status_code = status.HTTP_502_BAD_GATEWAY
    default_detail = (
        "The card network gave no clear answer, so it is not known whether it did what it was "
        "asked for. Do not use a new key: the same request with the same key goes on with it, or "
        "gets this answer until support has settled it."
    )
    default_code = "network_failed"


class CardNetwork:
    """The network, called for one merchant."""

    def __init__(self, merchant: str, headers: Mapping[str, str] | None = None) -> None:
        """Take the merchant's name, and headers to send with each call."""
        self.headers = {**(headers or {}), "Authorization": f"Merchant {merchant}"}
        self.merchant = merchant

    def post(self, path: str, content: Mapping[str, Any], key: str | None = None) -> Any:
        """Have the network do something; with a key, at most once. Return its answer."""
        named = {} if key is None else {"Idempotency-Key": key}
        headers = {**self.headers, **named}
        return self._call("POST", path, json=dict(content), headers=headers)

    def counts(self) -> dict[str, int]:
        """Return what the network has done for the merchant."""
        counts: dict[str, int] = self._call("GET", "/counts/", params={"tenant": self.merchant})
        return counts

    def _call(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = client().request(method, address.url() + path, **options)
        except NOT_SENT as error:
            raise NetworkUnreachable from error
        except httpx.HTTPError as error:
            raise NetworkFailed from error
        return answer(response)


def answer(response: httpx.Response) -> Any:
    """Return what a successful response holds; raise what any other means."""
    if response.status_code == status.HTTP_402_PAYMENT_REQUIRED:
        raise CardDeclined
    if is_in_progress(response):
        raise NetworkBusy
    if not response.is_success:
        raise NetworkFailed
    try:
        return response.json()
    except ValueError as error:
        raise NetworkFailed from error


def is_in_progress(response: httpx.Response) -> bool:
    """Tell a duplicate of a call at work from any other conflict, which says nothing of it."""
    if response.status_code != status.HTTP_409_CONFLICT:
        return False
    try:
        problem = response.json()
    except ValueError:
        return False
    return isinstance(problem, dict) and problem.get("code") == "in-progress"


@functools.cache
def client() -> httpx.Client:
    """Return this process's client; its threads share it.

    It keeps no connection open: one that the other side closes in the moment of a call leaves
    open whether the call arrived.
    """
    return httpx.Client(
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_keepalive_connections=0),
        trust_env=False,  # A proxy of the machine has no part in this.
    )
