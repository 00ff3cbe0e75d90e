"""How a client is told that its request neither runs nor gets a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.exceptions import ErrorDetail
from rest_framework.views import set_rollback

from .. import responses
from ..claims import Claim, ClaimOutcome
from ..conf import app_settings
from ..exceptions import IdempotencyError, InProgress, KeyExpired, KeyReused, OutcomeUnknown

if TYPE_CHECKING:
    from rest_framework.views import APIView as View
else:
    View = object


class ConflictMixin(View):
    """Tell a client why its request neither runs nor gets a replay."""

    def get_conflict_response(self, claim: Claim) -> Any:
        """Return the response for a claim that did not win and has nothing to replay."""
        return self.handle_exception(conflict(claim))

    def handle_exception(self, exc: Exception) -> Any:
        """Turn our own errors into problem details, or send them through the project's handler."""
        if not isinstance(exc, IdempotencyError):
            return super().handle_exception(exc)
        if app_settings.ERROR_FORMAT == "drf":
            exc.detail = {"detail": exc.detail, "code": ErrorDetail(exc.code, exc.code)}
            return super().handle_exception(exc)
        set_rollback()  # As DRF's exception_handler does for every error.
        return responses.problem(exc)


def conflict(claim: Claim) -> IdempotencyError:
    """Return the error that says what became of a claim which did not win."""
    if claim.outcome is ClaimOutcome.IN_PROGRESS:
        return InProgress(wait=claim.retry_after)
    return {
        ClaimOutcome.MISMATCH: KeyReused,
        ClaimOutcome.OUTCOME_UNKNOWN: OutcomeUnknown,
        ClaimOutcome.KEY_EXPIRED: KeyExpired,
    }[claim.outcome]()
