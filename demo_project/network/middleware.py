"""What happens to a call outside its view: it is counted, and may go wrong."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from .. import requestlog
from ..faults import GetResponse, lose_replies
from .authentication import MerchantAuthentication
from .faults import NetworkFaults


def misbehave(get_response: GetResponse) -> GetResponse:
    """Be slow, lose the reply, or die after everything has been committed."""
    return lose_replies(get_response, NetworkFaults)


def count_requests(get_response: GetResponse) -> GetResponse:
    """Count each POST that arrives, whatever becomes of it."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        found = MerchantAuthentication().authenticate(request)
        if found and request.method == "POST":
            requestlog.add(found[0].slug)
        return get_response(request)

    return middleware
