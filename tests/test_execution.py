"""What becomes of a key and of the work's rows, however the work ends."""

from __future__ import annotations

import contextlib
import logging

import pytest
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import (
    DatabaseError,
    IntegrityError,
    InternalError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)
from django.db.transaction import TransactionManagementError
from django.http import Http404
from rest_framework.exceptions import APIException, NotAuthenticated, PermissionDenied, Throttled
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler, set_rollback

from idempotency_app.models import IdempotencyKey, State
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import (
    LOCAL,
    PaymentRequired,
    ViewClient,
    create_order,
    make_view,
    raising,
    returning,
)
from tests.testapp.models import Order

pytestmark = pytest.mark.django_db(transaction=True)


def outcome(work, policy=LOCAL):
    """Return the status, whether it was recorded, and how many orders there are."""
    response = ViewClient(make_view(work, policy=policy), raises=False).send()
    recorded = IdempotencyKey.objects.filter(state=State.COMPLETE).count()
    assert IdempotencyKey.objects.count() == recorded
    return response.status_code, bool(recorded), Order.objects.count()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299, 301, 302, 303, 304, 307, 399])
def test_2xx_and_3xx_are_recorded_with_their_rows(status):
    assert outcome(returning(status)) == (status, True, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 415, 422, 429, 451])
def test_a_returned_4xx_is_a_refusal_and_rolls_back(status, caplog):
    caplog.set_level(logging.INFO, "idempotency_app")
    assert outcome(returning(status)) == (status, False, 0)
    told = [record for record in caplog.records if record.name.startswith("idempotency_app")]
    assert [record.levelno for record in told] == [logging.INFO]
    assert "Released the key" in told[0].getMessage()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_returned_5xx_rolls_back_and_is_not_recorded(status):
    assert outcome(returning(status)) == (status, False, 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (APIException(), 500),
        (PermissionDenied(), 403),
        (NotAuthenticated(), 403),
        (Throttled(wait=5), 429),
        (Http404(), 404),
        (DjangoPermissionDenied(), 403),
        (ValueError(), 500),
        (IntegrityError(), 500),
        (OperationalError(), 500),
    ],
)
def test_a_raised_error_rolls_back_and_is_not_recorded(error, status):
    assert outcome(raising(error)) == (status, False, 0)


def test_a_returned_402_is_recorded_with_its_rows():
    assert outcome(returning(402)) == (402, True, 1)


def test_a_raised_402_is_recorded_after_its_rows_were_rolled_back():
    assert outcome(raising(PaymentRequired())) == (402, True, 0)


@pytest.mark.parametrize(
    ("statuses", "status", "recorded"),
    [
        ({404}, 404, True),
        ([404], 404, True),
        ({404}, 402, False),
        (set(), 402, False),
        ({503}, 503, True),
        ({503}, 500, False),
        (set(), 201, True),
    ],
)
def test_a_view_names_which_errors_are_recorded(statuses, status, recorded):
    policy = Idempotency(effects=Effects.LOCAL, record_statuses=statuses)
    assert outcome(returning(status), policy) == (status, recorded, int(recorded))


def answers_200(exc, context):
    response = exception_handler(exc, context)
    return Response({"error": True}, status=200) if response is None else response


def test_a_success_made_from_an_exception_is_a_failure(monkeypatch):
    monkeypatch.setattr(api_settings, "EXCEPTION_HANDLER", answers_200)
    assert outcome(raising(ValueError())) == (200, False, 0)


# A transaction that can only be rolled back.


def swallowing(request):
    create_order(request)
    with contextlib.suppress(IntegrityError):
        Order.objects.create(pk=Order.objects.get().pk)
    return Response(status=201)


def test_a_swallowed_database_error_is_told_and_the_key_is_free():
    with pytest.raises(TransactionManagementError, match="caught") as told:
        ViewClient(make_view(swallowing)).send()
    assert isinstance(told.value.__cause__, IntegrityError)
    assert (IdempotencyKey.objects.count(), Order.objects.count()) == (0, 0)


@pytest.mark.django_db
def test_a_swallowed_database_error_is_told_under_testcase_too():
    with pytest.raises(TransactionManagementError) as told:
        ViewClient(make_view(swallowing)).send()
    assert isinstance(told.value.__cause__, IntegrityError)
    assert (IdempotencyKey.objects.count(), Order.objects.count()) == (0, 0)


def test_a_database_error_that_was_caught_around_a_savepoint_is_no_failure():
    def work(request):
        response = create_order(request)
        with pytest.raises(IntegrityError), transaction.atomic():
            Order.objects.create(pk=response.data["id"])
        return response

    assert outcome(work) == (201, True, 1)


def test_set_rollback_is_told_and_the_key_is_free():
    def work(request):
        response = create_order(request)
        transaction.set_rollback(True)
        return response

    with pytest.raises(TransactionManagementError, match="set_rollback") as told:
        ViewClient(make_view(work)).send()
    assert told.value.__cause__ is None
    assert IdempotencyKey.objects.count() == 0


def test_an_earlier_transactions_error_is_not_named_as_the_cause():
    taken = Order.objects.create().pk
    with pytest.raises(IntegrityError), transaction.atomic():
        Order.objects.create(pk=taken)

    def work(request):
        transaction.set_rollback(True)
        return Response()

    with pytest.raises(TransactionManagementError) as told:
        ViewClient(make_view(work)).send()
    assert told.value.__cause__ is None


def select_nonsense(request):
    with connection.cursor() as cursor, pytest.raises(ProgrammingError):
        cursor.execute("SELECT nonsense")


@pytest.mark.postgresql_only  # Elsewhere one failed statement does not spoil the others.
@pytest.mark.parametrize("is_last", [True, False])
def test_a_swallowed_error_of_a_raw_cursor_is_told_and_the_key_is_free(is_last):
    def work(request):
        if is_last:
            create_order(request)
        select_nonsense(request)
        return Response(status=201)

    with pytest.raises(TransactionManagementError, match="caught") as told:
        ViewClient(make_view(work)).send()
    assert isinstance(told.value.__cause__, InternalError)
    assert IdempotencyKey.objects.count() == 0


def test_a_recorded_error_mends_its_broken_transaction():
    def work(request):
        swallowing(request)
        return Response(status=402)

    assert outcome(work) == (402, True, 0)


@pytest.mark.postgresql_only
def test_a_recorded_error_mends_the_transaction_that_a_raw_cursor_broke():
    def work(request):
        create_order(request)
        select_nonsense(request)
        return Response(status=402)

    assert outcome(work) == (402, True, 0)


def test_set_rollback_of_rest_framework_and_a_refusal_is_a_refusal():
    def work(request):
        create_order(request)
        set_rollback()
        return Response(status=409)

    assert outcome(work) == (409, False, 0)


def test_a_response_that_cannot_be_rendered_leaves_nothing():
    def work(request):
        create_order(request)
        return Response({"it": object()}, status=201)

    assert outcome(work) == (500, False, 0)


@pytest.mark.parametrize("result", [None, {"id": 1}, "201"])
def test_work_that_returns_no_response_leaves_nothing(result):
    def work(request):
        create_order(request)
        return result

    assert outcome(work) == (500, False, 0)


# The process that is told to stop.


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_work_that_is_stopped_is_rolled_back_and_released(error):
    with pytest.raises(type(error)):
        ViewClient(make_view(raising(error))).send()
    assert (IdempotencyKey.objects.count(), Order.objects.count()) == (0, 0)


def test_an_exception_of_the_database_class_is_not_swallowed():
    with pytest.raises(DatabaseError):
        ViewClient(make_view(raising(DatabaseError()))).send()
