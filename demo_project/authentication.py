"""Tokens, and the tenant that each acts for."""

from typing import Any, cast

from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from .models import Tenant

# Whose messages those of the contact form are: it knows no tenants.
NOBODY = "anonymous"


class TenantAuthentication(TokenAuthentication):
    """Authenticate `Authorization: Token ...`; `request.auth` is then the tenant."""

    def authenticate_credentials(self, key: str) -> tuple[Any, Any]:
        """Return the token's user and the tenant; refuse a user who belongs to none."""
        user, _ = super().authenticate_credentials(key)
        try:
            return user, Tenant.objects.get(members__user=user)
        except Tenant.DoesNotExist:
            raise AuthenticationFailed("This user acts for no tenant.") from None


def tenant_of(request: Request) -> Tenant:
    """Return the tenant whose token the request carries."""
    return cast(Tenant, request.auth)


def account(request: Request) -> str:
    """Return whose keys these are: the tenant, so that any of its tokens finds a response."""
    return f"tenant:{tenant_of(request).slug}"
