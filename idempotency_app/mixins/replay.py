"""How a retry is answered: with the recorded response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import responses
from ..models import IdempotencyKey

if TYPE_CHECKING:
    from rest_framework.views import APIView as View
else:
    View = object


class ReplayMixin(View):
    """Answer a retry with the recorded response."""

    def check_replay(self, request: Any, record: IdempotencyKey) -> None:
        """Raise what the caller should get in place of the replay, e.g. PermissionDenied.

        The view's own permissions have been checked; object permissions, which are checked
        inside handlers, have not.
        """

    def get_replay_response(self, record: IdempotencyKey) -> Any:
        """Return the recorded response; raises ResponseNotKept where its body was not kept."""
        return responses.replay(record)
