"""The mixins that make a view's POST safe to retry: claim, replay, conflict.

One request: DRF authenticates, permits and throttles; `run_once` reads the key, claims it,
and runs the handler, replays, or tells the conflict; `dispatch` saves what the work answered
or gives the key back.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import connections, router, transaction
from rest_framework.exceptions import ErrorDetail
from rest_framework.permissions import SAFE_METHODS
from rest_framework.views import APIView, set_rollback

from . import bodies, execution, fingerprints, identity, keys, responses, transactions
from .claims import Claim, ClaimOutcome
from .conf import app_settings
from .declarations import check_bases, check_handlers, check_result, declared_policy
from .exceptions import (
    IdempotencyError,
    InProgress,
    KeyExpired,
    KeyMissing,
    KeyReused,
    OutcomeUnknown,
)
from .models import IdempotencyKey
from .policy import Idempotency, Policy

logger = logging.getLogger(__name__)

META_KEY = "HTTP_" + keys.HEADER.upper().replace("-", "_")

if TYPE_CHECKING:
    View = APIView
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
        set_rollback()
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


class ClaimMixin(ReplayMixin, ConflictMixin):
    """Claim the key before the work, and save or release it after."""

    idempotency: Idempotency | None = Idempotency()
    """The view's policy; None switches the mixin off."""

    idempotency_policy: Policy
    """The policy of this request, complete; set before the key is read."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse at import the bases in the wrong order, and handlers that are coroutines."""
        super().__init_subclass__(**kwargs)
        check_bases(cls, (ClaimMixin, ReplayMixin, ConflictMixin))
        check_handlers(cls)

    @classmethod
    def as_view(cls, *args: Any, **initkwargs: Any) -> Any:
        """Opt out of ATOMIC_REQUESTS: the claim has to commit before the work begins.

        The view opens that transaction itself where it is due.
        """
        view = super().as_view(*args, **initkwargs)
        return transaction.non_atomic_requests(using=_alias())(view)

    # What a team may override.

    def get_idempotency(self) -> Idempotency | None:
        """Return the policy of this request: the action's laid over the view's; None for off."""
        return declared_policy(self)

    def get_idempotency_key(self) -> str | None:
        """Return the client's key, None where it sent none. Raises KeyInvalid."""
        header = self.request.META.get(META_KEY)
        return None if header is None else keys.parse_key(header)

    def get_idempotency_account(self) -> str:
        """Return whose key it is, at most 255 bytes. Raises AccountRequired."""
        return identity.account_of(self.request, self.idempotency_policy)

    def get_idempotency_endpoint(self) -> str:
        """Return what the key is for, at most 255 bytes: the policy's name, or the route."""
        name = self.idempotency_policy.endpoint
        return identity.fitted(name) if name else identity.endpoint_of(self.request, self)

    def get_idempotency_fingerprint(self) -> str:
        """Return 64 hexadecimal digits that differ where the request's data differ."""
        request = self.request._request
        named = self.idempotency_policy.endpoint
        target = fingerprints.named_target(self.args, self.kwargs) if named else request.path
        return fingerprints.fingerprint(request, target=target)

    # The way of a request.

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Run DRF's dispatch, then save the work's response or give the key back."""
        self._execution: execution.Execution | None = None
        self._transaction = transactions.Transaction(_alias())
        try:
            self._prepare(request)
            response = self._settle(super().dispatch(request, *args, **kwargs))
        except BaseException as error:
            self._abandon(error)
            raise
        self._transaction.commit()
        # Django closes a request's files with the response, and not its stream.
        response._resource_closers.append(functools.partial(bodies.close_body, request))
        return response

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Let DRF check the request, then put `run_once` around the handler."""
        super().initial(request, *args, **kwargs)
        name = request.method.lower()
        handler = getattr(self, name, None)
        if handler is not None and name in self.http_method_names:
            setattr(self, name, functools.wraps(handler)(functools.partial(self.run_once, handler)))

    def run_once(self, handler: Callable[..., Any], request: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the handler if this request becomes the key's owner; else replay or refuse."""
        declared = self.get_idempotency()
        if declared is None:
            return self._run_plain(handler, request, *args, **kwargs)
        policy = self.idempotency_policy = declared.resolve()
        request.idempotency = execution.Attempt(policy)
        key = self.get_idempotency_key() if request.method in policy.methods else None
        if key is None:
            if policy.required and request.method in policy.methods:
                raise KeyMissing
            return self._run_plain(handler, request, *args, **kwargs)
        self._transaction.commit()
        claim = self._claim(key)
        if claim.outcome is ClaimOutcome.REPLAY:
            self.check_replay(request, claim.record)
            return self.get_replay_response(claim.record)
        if not claim.won:
            return self.get_conflict_response(claim)
        return self._run_work(claim.record, handler, request, *args, **kwargs)

    def handle_exception(self, exc: Exception) -> Any:
        """Let DRF mark for rollback what this view has opened, and nothing else."""
        with transactions.shielded(self._transaction):
            return super().handle_exception(exc)

    def _prepare(self, request: Any) -> None:
        # A view that takes its key from elsewhere may have to read the body for it.
        own_way = type(self).get_idempotency_key is not ClaimMixin.get_idempotency_key
        carries_key = META_KEY in request.META or own_way
        if carries_key:
            bodies.keep_body(request)
        # With a key, DRF's checks get a transaction of their own. Not on SQLite, whose one
        # write lock a replay must not wait for.
        is_unlocked = not connections[self._transaction.alias].features.has_select_for_update
        if carries_key and is_unlocked and request.method not in SAFE_METHODS:
            return
        self._begin_atomic_request()

    def _begin_atomic_request(self) -> None:
        connection = connections[self._transaction.alias]
        if connection.settings_dict["ATOMIC_REQUESTS"] and not self._transaction.is_open:
            self._transaction.begin()

    def _run_plain(self, handler: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._begin_atomic_request()
        return check_result(self, handler(request, *args, **kwargs))

    def _claim(self, key: str) -> Claim:
        policy = self.idempotency_policy
        values = {
            "account": self.get_idempotency_account(),
            "endpoint": self.get_idempotency_endpoint(),
            "fingerprint": self.get_idempotency_fingerprint(),
        }
        if transactions.in_foreign_block(self._transaction.alias):
            logger.warning(FOREIGN_BLOCK, values["endpoint"])
        return IdempotencyKey.objects.claim(
            key=key,
            **values,
            effects=policy.effects,
            effects_in_steps=policy.effects_in_steps,
            lock_timeout=policy.lock_timeout,
            retention=policy.retention,
            remember=policy.remember,
        )

    def _run_work(
        self, record: IdempotencyKey, handler: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        work = self._execution = execution.Execution(record, self.idempotency_policy)
        request.idempotency = execution.Attempt(self.idempotency_policy, record)
        work.begin()
        try:
            return check_result(self, handler(request, *args, **kwargs))
        except BaseException as error:
            work.fail(error)
            raise

    def _settle(self, response: Any) -> Any:
        """Record the work's response, or give the key back; return what the client gets."""
        work = self._execution
        if work is None or work.is_settled:
            return response
        try:
            if work.keeps(response.status_code):
                limit = self.idempotency_policy.max_response_bytes
                work.complete(**vars(responses.record(response, self, limit)))
            else:
                work.give_back()
        except IdempotencyError as error:
            refusal = self.handle_exception(error)
            return self.finalize_response(self.request, refusal, *self.args, **self.kwargs)
        return response

    def _abandon(self, error: BaseException) -> None:
        work = self._execution
        if work is not None and work.is_unrepeatable and isinstance(error, Exception):
            self._record_failure(work)
        elif work is not None:
            work.abandon(error)
        self._transaction.roll_back()

    def _record_failure(self, work: execution.Execution) -> None:
        """Record what Django answers to the exception that goes on: the project's `handler500`."""
        if work.is_settled:
            return
        try:
            response = responses.server_error(self.request._request)
            limit = self.idempotency_policy.max_response_bytes
            work.complete(**vars(responses.record(response, self, limit)))
        except Exception:
            logger.exception("Could not record the failure; an operator has to settle it: %s", work)


class IdempotencyMixin(ClaimMixin, ReplayMixin, ConflictMixin):
    """Make a view's POST safe to retry. Stands before the view's other bases."""


FOREIGN_BLOCK = (
    "%s runs inside somebody else's transaction: nobody sees the claim before that ends, so "
    "a duplicate waits for it. Let the view open its own transaction."
)


def _alias() -> str:
    return router.db_for_write(IdempotencyKey)
