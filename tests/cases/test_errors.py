"""Which answers may be kept."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import exception_handler

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

from .support import ALICE, ViewClient, create_order, is_replay, make_view

pytestmark = pytest.mark.django_db


def test_b34_a_passing_503_is_not_kept():
    first_run = iter([True])

    def work(request):
        order = create_order(request)
        return Response(status=503) if next(first_run, False) else order

    view = make_view(work)
    client = ViewClient(view)
    responses = [client.send("k34") for _ in range(3)]
    assert [response.status_code for response in responses] == [503, 201, 201]
    assert [is_replay(response) for response in responses] == [False, False, True]
    assert (len(view.calls), Order.objects.count()) == (2, 1)


def check_code(request):
    if request.data["code"] == "0000":
        raise ValidationError({"code": ["wrong"]})
    return create_order(request)


def test_b35_a_corrected_request_may_use_the_key_again():
    client = ViewClient(make_view(check_code))
    first = client.send("k35", {"code": "0000"})
    second = client.send("k35", {"code": "1234"})
    assert (first.status_code, second.status_code, is_replay(second)) == (400, 201, False)


def test_b35_the_same_mistake_twice_is_the_same_answer_twice():
    view = make_view(check_code)
    client = ViewClient(view)
    responses = [client.send("k35", {"code": "0000"}) for _ in range(2)]
    assert [response.status_code for response in responses] == [400, 400]
    assert not any(map(is_replay, responses))
    assert len(view.calls) == 2


class Barred(BasePermission):
    barred = True

    def has_permission(self, request, view):
        return not type(self).barred


class Busy(BaseThrottle):
    busy = True

    def allow_request(self, request, view):
        return not type(self).busy

    def wait(self):
        return 60


@pytest.fixture(autouse=True)
def closed(monkeypatch):
    monkeypatch.setattr(Barred, "barred", True)
    monkeypatch.setattr(Busy, "busy", True)


def test_b36_a_request_without_credentials_leaves_the_key_free():
    view = make_view(permission_classes=[IsAuthenticated])
    stranger = ViewClient(view, user=None)
    assert stranger.send("k36").status_code in (401, 403)
    assert IdempotencyKey.objects.count() == 0
    assert ViewClient(view, user=ALICE).send("k36").status_code == 201


def test_b36_a_request_without_permission_leaves_the_key_free(monkeypatch):
    client = ViewClient(make_view(permission_classes=[Barred]))
    assert client.send("k36").status_code == 403
    assert IdempotencyKey.objects.count() == 0
    monkeypatch.setattr(Barred, "barred", False)
    assert client.send("k36").status_code == 201


def test_b36_a_throttled_request_leaves_the_key_free_and_gets_no_replay(monkeypatch):
    client = ViewClient(make_view(throttle_classes=[Busy]))
    assert client.send("k36").status_code == 429
    assert IdempotencyKey.objects.count() == 0
    monkeypatch.setattr(Busy, "busy", False)
    assert client.send("k36").status_code == 201
    monkeypatch.setattr(Busy, "busy", True)
    assert client.send("k36").status_code == 429
    monkeypatch.setattr(Busy, "busy", False)
    assert is_replay(client.send("k36"))


COUNTER = itertools.count(1)


def counting_handler(exc, context):
    response: Any = exception_handler(exc, context)
    response.data["handled"] = next(COUNTER)
    return response


def test_b38_a_recorded_error_is_sent_again_and_not_raised_again(settings):
    settings.REST_FRAMEWORK = {
        **settings.REST_FRAMEWORK,
        "EXCEPTION_HANDLER": f"{__name__}.counting_handler",
    }

    def work(request):
        create_order(request)
        raise NotFound("no such sku")

    view = make_view(work, policy=Idempotency(effects=Effects.LOCAL, record_statuses={404}))
    client = ViewClient(view)
    first, second = client.send("k38"), client.send("k38")
    assert (first.status_code, second.status_code) == (404, 404)
    assert first.content == second.content
    assert (is_replay(first), is_replay(second)) == (False, True)
    assert next(COUNTER) == first.json()["handled"] + 1
    assert (len(view.calls), Order.objects.count()) == (1, 0)
