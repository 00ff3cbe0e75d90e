"""The response as it is recorded, replayed, and as a problem is told."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import get_resolver, get_urlconf
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer, JSONRenderer
from rest_framework.response import Response

from .conf import app_settings
from .exceptions import IdempotencyError, ResponseNotKept, Unreadable
from .models import IdempotencyKey

logger = logging.getLogger(__name__)

REPLAYED = "Idempotent-Replayed"

# What describes the content or names the new resource. Everything else speaks of one
# exchange (Date, Connection, trace ids) or one client (Set-Cookie, WWW-Authenticate).
KEPT_HEADERS = (
    "Content-Type",
    "Content-Encoding",
    "Content-Disposition",
    "Content-Language",
    "Content-Location",
    "Location",
    "ETag",
    "Last-Modified",
    "Link",
)
# Never kept, even where `REPLAY_HEADERS` names them.
NEVER_KEPT = ("set-cookie", "www-authenticate", "date", "connection", "content-length")


@dataclass(frozen=True)
class Recorded:
    """A response as the record keeps it; `body` is None where it is not kept."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | None


def as_recorded(response: Any, view: Any, max_bytes: int) -> Recorded:
    """Render the response and return what a retry will get.

    A streamed response, or one of more than `max_bytes`, is left whole for the first client
    and recorded without its body. Of the browsable API the bytes of the API are recorded,
    and its page is rendered later, by Django.
    """
    source = _api_twin(response, view)
    if source.streaming:
        body = None
    else:
        if hasattr(source, "render"):
            source.render()
        body = bytes(source.content)
    kept = {name.lower() for name in (*KEPT_HEADERS, *app_settings.REPLAY_HEADERS)}
    kept -= set(NEVER_KEPT)
    return Recorded(
        status=response.status_code,
        headers=[(name, value) for name, value in source.items() if name.lower() in kept],
        body=body if body is None or len(body) <= max_bytes else None,
    )


def _api_twin(response: Any, view: Any) -> Any:
    renderer = getattr(response, "accepted_renderer", None)
    if not isinstance(renderer, BrowsableAPIRenderer):
        return response
    twin = Response(
        response.data,
        status=response.status_code,
        headers=dict(response.items()),
        content_type=response.content_type,
    )
    api: BaseRenderer = renderer.get_default_renderer(view) or JSONRenderer()
    twin.accepted_renderer = api
    twin.accepted_media_type = api.media_type
    vars(twin)["renderer_context"] = {**view.get_renderer_context(), "response": twin}
    return twin


def replay(record: IdempotencyKey) -> Response:
    """Return the recorded response again, already rendered, with the replay marker.

    Raises ResponseNotKept where it was too large or streamed, or where it was encrypted with
    a key that is gone.
    """
    try:
        body, headers = record.body, [*record.headers, (REPLAYED, "true")]
    except Unreadable as error:
        logger.exception("Cannot read a recorded response; see ENCRYPTION_KEYS")
        raise ResponseNotKept from error
    if body is None:
        raise ResponseNotKept
    return _rendered(body, record.response_status, headers)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return what the project's `handler500` answers to an exception in this request."""
    handler = get_resolver(get_urlconf()).resolve_error_handler(500)
    return handler(request)


def problem(error: IdempotencyError) -> Response:
    """Return the error as problem details (RFC 9457), already rendered."""
    document = {
        "type": app_settings.PROBLEM_TYPE_BASE + error.code,
        "title": error.title,
        "status": error.status_code,
        "detail": str(error.detail),
        "code": error.code,
    }
    headers = [("Content-Type", "application/problem+json")]
    if error.wait is not None:
        headers.append(("Retry-After", str(error.wait)))
    response = _rendered(json.dumps(document).encode(), error.status_code, headers)
    response.exception = True
    return response


def _rendered(body: bytes, status: int | None, headers: list[tuple[str, str]]) -> Response:
    response = Response(_data(body), status=status)
    del response["Content-Type"]
    for name, value in headers:
        response[name] = value
    # Setting the content marks the response as rendered, so that no renderer touches it.
    response.content = body
    return response


def _data(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
