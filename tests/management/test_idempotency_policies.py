"""Every route and what it promises, as a table and as JSON."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import include, path
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from idempotency_app.decorators import idempotent
from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.policy import Effects, Idempotency


class OrderViewSet(IdempotencyMixin, ViewSet):
    idempotency = Idempotency(required=True, effects=Effects.LOCAL)

    def list(self, request: Any) -> Response:
        return Response()

    def create(self, request: Any) -> Response:
        return Response()

    @action(
        detail=True,
        methods=["post"],
        idempotency=Idempotency(
            effects=Effects.REPEATABLE,
            lock_timeout=timedelta(minutes=2),
            retention=None,
            remember=timedelta(days=30),
            endpoint="orders.capture",
        ),
    )
    def capture(self, request: Any, pk: Any = None) -> Response:
        return Response()

    @action(detail=False, methods=["post"], idempotency=None)
    def preview(self, request: Any) -> Response:
        return Response()


class BareView(APIView):
    def post(self, request: Any) -> Response:
        return Response()

    def delete(self, request: Any) -> Response:
        return Response()


@idempotent()
@api_view(["POST"])
def payout(request: Any) -> Response:
    return Response()


router = SimpleRouter()
router.register("orders", OrderViewSet, basename="order")


class Routes:
    urlpatterns = [
        path("api/", include((router.urls, "api"), namespace="api")),
        path("bare/", BareView.as_view()),
        path("payout/", payout),
    ]


def policies(*args: str) -> str:
    out = io.StringIO()
    call_command("idempotency_policies", *args, stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def urls(settings):
    settings.ROOT_URLCONF = Routes


def test_each_route_and_action_says_what_it_promises():
    rows = {row["view"]: row for row in json.loads(policies("--json"))}
    assert rows.keys() == {
        "OrderViewSet.create",
        "OrderViewSet.capture",
        "OrderViewSet.preview",
        "BareView",
        "payout",
    }
    assert rows["OrderViewSet.create"] == {
        "request": "POST api/^orders/$",
        "view": "OrderViewSet.create",
        "key": "required",
        "effects": "local",
        "lock": "1 min",
        "retention": "24 h",
        "remember": "-",
        "endpoint": "-",
    }
    capture = rows["OrderViewSet.capture"]
    assert (capture["key"], capture["effects"]) == ("required", "repeatable")
    assert (capture["lock"], capture["retention"]) == ("2 min", "for ever")
    assert (capture["remember"], capture["endpoint"]) == ("720 h", "orders.capture")


def test_the_gaps_are_listed_as_such():
    rows = {row["view"]: row for row in json.loads(policies("--json"))}
    assert rows["OrderViewSet.preview"]["key"] == "no key"
    assert rows["BareView"]["key"] == "no key"


def test_effects_that_nobody_declared_are_marked():
    rows = {row["view"]: row for row in json.loads(policies("--json"))}
    assert rows["payout"]["effects"] == "local (by default)"
    assert rows["payout"]["key"] == "optional"


def test_the_table_is_aligned():
    lines = policies().splitlines()
    assert lines[0].split() == [
        *("request", "view", "key", "effects"),
        *("lock", "retention", "remember", "endpoint"),
    ]
    at = lines[0].index("effects")
    assert all(line[at - 1] == " " and line[at] != " " for line in lines)


def test_without_routes_it_says_so(settings):
    settings.ROOT_URLCONF = "tests.urls"
    assert policies() == "No REST framework view takes a POST or a PATCH.\n"
