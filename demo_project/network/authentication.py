"""Merchants, who say who they are: on 127.0.0.1 the network takes their word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from rest_framework.authentication import BaseAuthentication, get_authorization_header

MERCHANT = re.compile(rb"Merchant ([\w-]{1,50})", re.ASCII)


@dataclass(frozen=True)
class Merchant:
    """Whose money it is: a tenant of the demo."""

    slug: str
    is_authenticated = True


class MerchantAuthentication(BaseAuthentication):
    """Authenticate `Authorization: Merchant acme`."""

    def authenticate(self, request: Any) -> tuple[Merchant, None] | None:
        """Return the merchant; None where nobody is named."""
        match = MERCHANT.fullmatch(get_authorization_header(request))
        return (Merchant(match[1].decode()), None) if match else None

    def authenticate_header(self, request: Any) -> str:
        """Return what a 401 asks for."""
        return "Merchant"


def merchant_of(request: Any) -> str:
    """Return the name of the merchant who calls."""
    return cast(Merchant, request.user).slug


def account(request: Any) -> str:
    """Return whose keys these are."""
    return f"tenant:{merchant_of(request)}"
