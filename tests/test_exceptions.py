from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler

from idempotency_app import exceptions
from idempotency_app.exceptions import IdempotencyError
from idempotency_app.models import Claim, ClaimOutcome, IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import ViewClient, make_view

pytestmark = pytest.mark.django_db


@pytest.fixture
def raising():
    """Return a client of a view that answers with the given error to every key."""

    def client(error):
        def get_replay_response(self, record):
            raise error

        view = make_view(get_replay_response=get_replay_response)
        served = ViewClient(view)
        served.send()
        return served

    return client


PROBLEMS = [
    (
        exceptions.KeyMissing(),
        b'{"type": "urn:idempotency:key-missing", '
        b'"title": "This request needs an Idempotency-Key", "status": 400, '
        b'"detail": "Make a unique key for this operation, for example a UUID, send it in the '
        b'Idempotency-Key header, and send the same key again when you retry.", '
        b'"code": "key-missing"}',
    ),
    (
        exceptions.KeyInvalid(),
        b'{"type": "urn:idempotency:key-invalid", '
        b'"title": "The Idempotency-Key is malformed", "status": 400, '
        b'"detail": "Send one key of 1 to 255 visible ASCII characters, bare or in double '
        b'quotes. A key that contains a comma, a quote or a backslash has to be quoted.", '
        b'"code": "key-invalid"}',
    ),
    (
        exceptions.AccountRequired(),
        b'{"type": "urn:idempotency:account-required", '
        b'"title": "An Idempotency-Key needs an account", "status": 400, '
        b'"detail": "Keys belong to an account, and this request has none. Authenticate, and '
        b'send it again with the same key.", "code": "account-required"}',
    ),
    (
        exceptions.InProgress(wait=2),
        b'{"type": "urn:idempotency:in-progress", '
        b'"title": "The first request with this key is still running", "status": 409, '
        b'"detail": "Send the same request with the same key again after 2 seconds.", '
        b'"code": "in-progress"}',
    ),
    (
        exceptions.LockLost(),
        b'{"type": "urn:idempotency:in-progress", '
        b'"title": "The first request with this key is still running", "status": 409, '
        b'"detail": "Send the same request with the same key again after 1 second.", '
        b'"code": "in-progress"}',
    ),
    (
        exceptions.OutcomeUnknown(),
        b'{"type": "urn:idempotency:outcome-unknown", '
        b'"title": "It is not known how the first request ended", "status": 409, '
        b'"detail": "Do not use a new key: first establish that the operation did not succeed '
        b"and is not still running. Once its outcome is settled, the same request with the same "
        b'key gets the answer.", "code": "outcome-unknown"}',
    ),
    (
        exceptions.ResponseNotKept(),
        b'{"type": "urn:idempotency:response-not-kept", '
        b'"title": "The operation is done, but its response was not kept", "status": 409, '
        b'"detail": "Do not send it under a new key: the first request completed. Read the '
        b'result from the API instead.", "code": "response-not-kept"}',
    ),
    (
        exceptions.KeyExpired(),
        b'{"type": "urn:idempotency:key-expired", '
        b'"title": "The operation is done, and its response has expired", "status": 409, '
        b'"detail": "The first request with this key finished; its response is no longer kept. '
        b"Reconcile with the API's records; do not use a new key.\", "
        b'"code": "key-expired"}',
    ),
    (
        exceptions.KeyReused(),
        b'{"type": "urn:idempotency:key-reused", '
        b'"title": "This Idempotency-Key was used for another request", "status": 422, '
        b'"detail": "Send the first request unchanged to get its answer, or use a new key for '
        b'a new operation.", "code": "key-reused"}',
    ),
    (
        exceptions.StoreUnavailable(),
        b'{"type": "urn:idempotency:store-unavailable", '
        b'"title": "Idempotency keys cannot be stored right now", "status": 503, '
        b'"detail": "Send the same request with the same key again after 1 second.", '
        b'"code": "store-unavailable"}',
    ),
]
NAMES = [type(error).__name__ for error, _ in PROBLEMS]
WAITS = {"InProgress": "2", "LockLost": "1", "StoreUnavailable": "1"}


@pytest.mark.parametrize(("error", "body"), PROBLEMS, ids=NAMES)
def test_each_error_is_problem_details_to_the_byte(error, body, raising):
    response = raising(error).send()
    assert response.content == body
    assert response.status_code == response.json()["status"]
    assert response.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(("error", "body"), PROBLEMS, ids=NAMES)
def test_only_errors_that_pass_by_waiting_say_how_long(error, body, raising):
    response = raising(error).send()
    assert response.headers.get("Retry-After") == WAITS.get(type(error).__name__)


def test_every_error_that_a_client_can_get_is_pinned_above():
    kinds = {
        name
        for name, kind in vars(exceptions).items()
        if isinstance(kind, type) and issubclass(kind, IdempotencyError)
    }
    assert kinds - {"IdempotencyError"} == set(NAMES)


@pytest.mark.parametrize(("error", "body"), PROBLEMS, ids=NAMES)
def test_an_error_is_told_in_the_projects_own_form(error, body, raising, settings):
    settings.IDEMPOTENCY_APP = {"ERROR_FORMAT": "drf"}
    detail = str(error.detail)
    response = raising(error).send()
    assert response.json() == {"detail": detail, "code": error.code}
    assert response.status_code == error.status_code
    assert response.headers.get("Retry-After") == WAITS.get(type(error).__name__)


def test_the_projects_exception_handler_is_asked_once_and_only_in_its_own_form(
    settings, monkeypatch
):
    handled = []

    def handler(exc, context):
        handled.append(exc.code)
        response: Any = exception_handler(exc, context)
        response.data = {"error": response.data}
        return response

    monkeypatch.setattr(api_settings, "EXCEPTION_HANDLER", handler)
    client = ViewClient(make_view())
    client.send()
    assert client.send(data={}).json()["code"] == "key-reused"
    assert handled == []
    settings.IDEMPOTENCY_APP = {"ERROR_FORMAT": "drf"}
    assert client.send(data={}).json()["error"]["code"] == "key-reused"
    assert handled == ["key-reused"]


def test_a_problems_type_begins_as_the_project_says(settings):
    settings.IDEMPOTENCY_APP = {"PROBLEM_TYPE_BASE": "https://api.example/problems/"}
    response = ViewClient(make_view()).send("")
    assert response.json()["type"] == "https://api.example/problems/key-invalid"


def test_a_problem_says_the_same_whatever_the_client_accepts():
    client = ViewClient(make_view())
    client.send()
    answers = [
        client.send(data={}, headers={"Accept": accept})
        for accept in ("application/json", "text/html", "*/*")
    ]
    assert len({response.content for response in answers}) == 1
    assert {r.headers["Content-Type"] for r in answers} == {"application/problem+json"}
    assert answers[0].data["code"] == "key-reused"


def test_a_mismatch_does_not_say_what_differs():
    client = ViewClient(make_view())
    client.send(data={"amount": 1234567})
    response = client.send(data={"amount": 7654321})
    assert not [text for text in (b"1234567", b"7654321", b"amount") if text in response.content]


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (ClaimOutcome.MISMATCH, "key-reused"),
        (ClaimOutcome.IN_PROGRESS, "in-progress"),
        (ClaimOutcome.OUTCOME_UNKNOWN, "outcome-unknown"),
        (ClaimOutcome.KEY_EXPIRED, "key-expired"),
    ],
)
def test_each_outcome_that_is_neither_work_nor_replay_has_its_problem(outcome, kind, monkeypatch):
    claim = Claim(outcome, IdempotencyKey(), retry_after=3)
    monkeypatch.setattr("idempotency_app.managers.Claimant.claim", lambda self: claim)
    response = ViewClient(make_view()).send()
    assert response.json()["code"] == kind
    assert response.headers.get("Retry-After") == ("3" if kind == "in-progress" else None)


def test_in_progress_carries_its_wait_for_consumers():
    assert exceptions.InProgress(wait=7).retry_after == 7
    assert exceptions.LockLost().retry_after == 1
    assert isinstance(exceptions.LockLost(), exceptions.InProgress)


def test_a_view_may_say_a_conflict_in_its_own_words():
    from rest_framework.response import Response

    def get_conflict_response(self, claim):
        return Response({"why": claim.outcome, "key": claim.record.key}, status=418)

    policy = Idempotency(effects=Effects.LOCAL, lock_timeout=timedelta(seconds=5))
    client = ViewClient(make_view(policy=policy, get_conflict_response=get_conflict_response))
    client.send()
    response = client.send(data={})
    assert (response.status_code, response.json()) == (418, {"why": "mismatch", "key": "k"})
