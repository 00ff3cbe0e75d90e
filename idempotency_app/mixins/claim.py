"""How a request becomes the owner of its key, and what becomes of the key after the work."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from django.db import connections, router, transaction
from django.http import UnreadablePostError
from rest_framework.exceptions import ParseError
from rest_framework.permissions import SAFE_METHODS

from .. import bodies, events, execution, fingerprints, identity, keys, responses, transactions
from ..claims import Claim, ClaimOutcome
from ..declarations import check_bases, check_handlers, check_result, declared_policy, endpoint_name
from ..exceptions import IdempotencyError, KeyMissing
from ..models import IdempotencyKey
from ..policy import Idempotency, Policy
from .conflict import ConflictMixin
from .replay import ReplayMixin

logger = logging.getLogger(__name__)

META_KEY = "HTTP_" + keys.HEADER.upper().replace("-", "_")


class ClaimMixin(ReplayMixin, ConflictMixin):
    """Claim the key before the work, and save or release it after."""

    idempotency: Idempotency | None = Idempotency()
    """The view's policy; None switches the mixin off, and there is no `request.idempotency`."""

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
        """Return the client's key, 1 to 255 visible ASCII characters; None where it sent none.

        Raises KeyInvalid.
        """
        header = self.request.META.get(META_KEY)
        return None if header is None else keys.parse_key(header)

    def get_idempotency_account(self) -> str:
        """Return whose key it is, at most 255 bytes. Raises AccountRequired."""
        return identity.account_of(self.request, self.idempotency_policy)

    def get_idempotency_endpoint(self) -> str:
        """Return what the key is for: the policy's name, or method and route.

        One of more than 255 bytes is cut, and then ends in its SHA-256.
        """
        name = endpoint_name(self, self.idempotency_policy)
        return identity.endpoint_of(self.request, self) if name is None else name

    def get_idempotency_fingerprint(self) -> str:
        """Return 64 hexadecimal digits that differ where the request's data differ."""
        request = self.request._request
        target = request.path
        if self.idempotency_policy.endpoint is not None:
            target = fingerprints.named_target(self.args, self.kwargs)
        return fingerprints.fingerprint(request, target=target)

    # The way of a request.

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Run DRF's dispatch, then save the work's response or give the key back."""
        self._idempotent_work: execution.Execution | None = None
        self._atomic_request = transactions.Transaction(_alias())
        try:
            self._prepare(request)
            response = self._settle(super().dispatch(request, *args, **kwargs))
        except BaseException as error:
            self._abandon(error)
            raise
        self._atomic_request.commit()
        response._resource_closers.append(bodies.BodyCloser(request))
        return response

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Let DRF check the request, then put `run_once` around the handler."""
        super().initial(request, *args, **kwargs)
        name = request.method.lower()
        handler = getattr(self, name, None)
        is_wrapped = isinstance(handler, functools.partial)  # `initial` was run before.
        if handler is not None and name in self.http_method_names and not is_wrapped:
            setattr(self, name, functools.wraps(handler)(functools.partial(self.run_once, handler)))

    def run_once(self, handler: Callable[..., Any], request: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the handler if this request becomes the key's owner; else replay or refuse."""
        declared = self.get_idempotency()
        if declared is None:
            return self._run_plain(handler, request, *args, **kwargs)
        policy = self.idempotency_policy = declared.resolve()
        request.idempotency = execution.Attempt(policy)
        if request.method not in policy.methods:
            return self._run_plain(handler, request, *args, **kwargs)
        key = self.get_idempotency_key()
        if key is None:
            if policy.required:
                raise KeyMissing
            return self._run_plain(handler, request, *args, **kwargs)
        self._atomic_request.commit()
        claim = self._claim(key)
        if claim.outcome is ClaimOutcome.REPLAY:
            self.check_replay(request, claim.record)
            response = self.get_replay_response(claim.record)
            events.tell("replayed", claim.record, status=response.status_code)
            return response
        if not claim.won:
            return self.get_conflict_response(claim)
        return self._run_work(claim.record, handler, request, *args, **kwargs)

    def handle_exception(self, exc: Exception) -> Any:
        """Let DRF mark for rollback what this view has opened, and nothing else."""
        with transactions.shielded(self._atomic_request):
            return super().handle_exception(exc)

    def _prepare(self, request: Any) -> None:
        # A view that takes its key from elsewhere may have to read the body for it.
        from_elsewhere = type(self).get_idempotency_key is not ClaimMixin.get_idempotency_key
        carries_key = META_KEY in request.META or from_elsewhere
        if carries_key:
            bodies.keep_body(request)
        # With a key, DRF's checks get a transaction of their own. Not on SQLite, whose one
        # write lock a replay must not wait for.
        has_one_writer = not connections[self._atomic_request.alias].features.has_select_for_update
        if carries_key and has_one_writer and request.method not in SAFE_METHODS:
            return
        self._begin_atomic_request()

    def _begin_atomic_request(self) -> None:
        connection = connections[self._atomic_request.alias]
        if connection.settings_dict["ATOMIC_REQUESTS"] and not self._atomic_request.is_open:
            self._atomic_request.begin()

    def _run_plain(self, handler: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._begin_atomic_request()
        return check_result(self, handler(request, *args, **kwargs))

    def _claim(self, key: str) -> Claim:
        policy = self.idempotency_policy
        account = self.get_idempotency_account()
        if account != identity.ANONYMOUS:
            identity.check_account(account)
        # The hooks are the project's, and what they return need not fit the columns.
        values = {
            "key": keys.check_key(str(key)),
            "account": account,
            "endpoint": identity.fitted(self.get_idempotency_endpoint()),
            "fingerprint": self._fingerprint(),
        }
        transactions.check_autocommit(self._atomic_request.alias)
        if transactions.in_foreign_block(self._atomic_request.alias):
            logger.warning(FOREIGN_BLOCK, values["endpoint"])
        return IdempotencyKey.objects.claim(
            **values,
            effects=policy.effects,
            effects_in_steps=policy.effects_in_steps,
            lock_timeout=policy.lock_timeout,
            retention=policy.retention,
            remember=policy.remember,
        )

    def _fingerprint(self) -> str:
        try:
            return self.get_idempotency_fingerprint()
        except UnreadablePostError as error:
            raise ParseError("The request's body ended before its Content-Length.") from error

    def _run_work(
        self, record: IdempotencyKey, handler: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        work = self._idempotent_work = execution.Execution(record, self.idempotency_policy)
        request.idempotency = execution.Attempt(self.idempotency_policy, record)
        work.begin()
        try:
            return check_result(self, handler(request, *args, **kwargs))
        except BaseException as error:
            work.fail(error)
            raise

    def _settle(self, response: Any) -> Any:
        """Record the work's response, or give the key back; return what the client gets."""
        work = self._idempotent_work
        if work is None or work.is_settled:
            return response
        try:
            if work.keeps(response.status_code):
                self._complete(work, response)
            else:
                work.give_back()
        except IdempotencyError as error:
            refusal = self.handle_exception(error)
            return self.finalize_response(self.request, refusal, *self.args, **self.kwargs)
        return response

    def _complete(self, work: execution.Execution, response: Any) -> None:
        limit = self.idempotency_policy.max_response_bytes
        work.complete(**vars(responses.as_recorded(response, self, limit)))

    def _abandon(self, error: BaseException) -> None:
        work = self._idempotent_work
        if work is not None and not work.is_settled:
            if work.is_unrepeatable and isinstance(error, Exception):
                self._record_failure(work)
            else:
                work.abandon(error)
        self._atomic_request.roll_back()

    def _record_failure(self, work: execution.Execution) -> None:
        """Record what Django answers to the exception that goes on: the project's `handler500`."""
        try:
            self._complete(work, responses.server_error(self.request._request))
        except Exception:
            logger.exception("Could not record the failure; an operator has to settle it: %s", work)


FOREIGN_BLOCK = (
    "%s runs inside somebody else's transaction: nobody sees the claim before that ends, so "
    "a duplicate waits for it. Let the view open its own transaction."
)


def _alias() -> str:
    return router.db_for_write(IdempotencyKey)
