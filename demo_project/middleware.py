"""What happens to a request outside its view: it is counted."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from rest_framework.exceptions import AuthenticationFailed

from . import requestlog
from .authentication import NOBODY, TenantAuthentication
from .faults import GetResponse


def count_requests(get_response: GetResponse) -> GetResponse:
    """Count each POST that arrives, whatever becomes of it."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        slug = counted_for(request) if request.method == "POST" else None
        if slug is not None:
            requestlog.add(slug)
        return get_response(request)

    return middleware


def counted_for(request: HttpRequest) -> str | None:
    """Return whose POST it is; that of the contact form may be nobody's."""
    is_message = request.path == reverse("message-list")
    return tenant_slug(request) or (NOBODY if is_message else None)


def tenant_slug(request: HttpRequest) -> str | None:
    """Return the tenant whose token the request carries; None where it has no good one."""
    try:
        found = TenantAuthentication().authenticate(request)  # type: ignore[arg-type]
    except AuthenticationFailed:
        return None
    return found[1].slug if found else None
