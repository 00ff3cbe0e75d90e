"""Views of unusual shape: shared names, views that call views, caches, no autocommit."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.views.decorators.cache import cache_page
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from idempotency_app.claims import Claimant, ClaimOutcome
from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import ViewClient, is_replay, make_view, row
from tests.factories import claim, make_key
from tests.testapp.models import Order

pytestmark = pytest.mark.django_db

FORM = "application/x-www-form-urlencoded"


class PaymentViewSet(IdempotencyMixin, ViewSet):
    idempotency = Idempotency(effects=Effects.LOCAL, endpoint="payments")

    def create(self, request):
        return Response({"did": "create"})

    @action(detail=True, methods=["post"])
    def capture(self, request, pk=None):
        return Response({"did": "capture"})

    @action(detail=True, methods=["post"])
    def refund(self, request, pk=None):
        return Response({"did": "refund"})

    @action(detail=True, methods=["post"], idempotency=Idempotency(endpoint="payments.void"))
    def void(self, request, pk=None):
        return Response({"did": "void"})


@pytest.fixture
def payments():
    router = SimpleRouter()
    router.register("payments", PaymentViewSet, basename="payment")
    return ViewClient(router.urls)


def test_two_actions_that_share_their_classes_name_are_two_operations(payments):
    for name in ("capture", "refund"):
        assert payments.send(to=f"/payments/7/{name}/").json() == {"did": name}
        assert is_replay(payments.send(to=f"/payments/7/{name}/"))
    endpoints = IdempotencyKey.objects.order_by("pk").values_list("endpoint", flat=True)
    assert list(endpoints) == ["payments:capture", "payments:refund"]


@pytest.mark.parametrize(
    ("to", "endpoint"), [("/payments/", "payments"), ("/payments/7/void/", "payments.void")]
)
def test_a_name_that_is_the_handlers_own_stays_as_it_is(payments, to, endpoint):
    payments.send(to=to)
    assert row().endpoint == endpoint


def test_two_views_that_one_request_calls_are_two_operations():
    ran: list[str] = []

    def named(name):
        def work(request):
            ran.append(name)
            return Response({"did": name})

        return make_view(work, __qualname__=f"{name}View")

    class Both(APIView):
        def post(self, request):
            views = [named("order"), named("charge")]
            return Response([view.as_view()(request._request).data for view in views])

    assert ViewClient(Both).send().json() == [{"did": "order"}, {"did": "charge"}]
    assert ran == ["order", "charge"]


def test_a_view_that_hands_its_request_on_to_another_meets_no_lock_of_its_own():
    inner = make_view(__qualname__="InnerView")
    outer = make_view(lambda request: inner.as_view()(request._request), __qualname__="OuterView")
    client = ViewClient(outer)
    assert client.send().status_code == 201
    assert is_replay(client.send())
    assert Order.objects.count() == 1


@pytest.mark.parametrize("key", [None, "k"])
def test_a_cached_get_stays_cacheable(key):
    class Cached(IdempotencyMixin, APIView):
        def get(self, request):
            return Response({"n": 1})

    client = ViewClient(cache_page(60)(Cached.as_view()))
    answers = [client.send(key, {}, method="get") for _ in range(2)]
    assert [answer.json() for answer in answers] == [{"n": 1}] * 2


@pytest.mark.django_db(transaction=True)
def test_a_connection_without_autocommit_is_refused_before_the_work():
    view = make_view()
    connection.set_autocommit(False)
    try:
        with pytest.raises(ImproperlyConfigured, match="AUTOCOMMIT"):
            ViewClient(view).send()
    finally:
        connection.rollback()
        connection.set_autocommit(True)
    assert view.calls == []


def test_a_takeover_never_works_from_steps_of_before(monkeypatch):
    first = claim(effects=Effects.REPEATABLE).record
    IdempotencyKey.objects.update(locked_until="2020-01-01T00:00Z")
    decide = Claimant.decide

    def is_overtaken(self, seen):
        monkeypatch.setattr(Claimant, "decide", decide)
        first.save_steps({"charge": {"result": 1}}, Idempotency().resolve().lock_timeout)
        assert first.release()
        return decide(self, seen)

    monkeypatch.setattr(Claimant, "decide", is_overtaken)
    second = claim(effects=Effects.REPEATABLE)
    assert second.outcome is ClaimOutcome.CLAIMED
    assert second.record.get_steps() == {"charge": {"result": 1}}


def test_a_form_that_ends_early_is_a_400_and_the_whole_one_runs():
    amounts: list[str] = []

    def work(request):
        amounts.append(request.data["amount"])
        return Response({})

    client = ViewClient(make_view(work))
    part: Any = {"wsgi.input": io.BytesIO(b"to=x&amount=1"), "CONTENT_LENGTH": "15"}
    cut = client.send("k", b"to=x&amount=1", content_type=FORM, **part)
    whole = client.send("k", b"to=x&amount=100", content_type=FORM)
    assert (cut.status_code, whole.status_code, amounts) == (400, 200, ["100"])


def test_a_form_that_is_shown_again_is_the_same_form():
    client = ViewClient(make_view(lambda request: Response({})))
    forms = [f"csrfmiddlewaretoken={token}&amount=1".encode() for token in ("a", "b")]
    answers = [client.send("k", form, content_type=FORM) for form in forms]
    assert [is_replay(answer) for answer in answers] == [False, True]


def test_a_plain_view_may_have_an_attribute_called_action():
    assert ViewClient(make_view(action="pay")).send().status_code == 201


def test_checks_that_are_run_twice_claim_once():
    def initial(self, request, *args, **kwargs):
        IdempotencyMixin.initial(self, request, *args, **kwargs)
        IdempotencyMixin.initial(self, request, *args, **kwargs)

    assert ViewClient(make_view(initial=initial)).send().status_code == 201


def test_a_content_type_of_the_views_own_is_replayed_after_the_browsable_api():
    view = make_view(lambda request: Response({"n": 1}, content_type="application/hal+json"))
    client = ViewClient(view)
    client.send(headers={"Accept": "text/html"})
    assert client.send().headers["Content-Type"] == "application/hal+json"


def test_a_batch_of_no_rows_is_refused():
    make_key(expired=True)
    with pytest.raises(ValueError, match="at least 1"):
        IdempotencyKey.objects.reap(batch_size=0)


def test_a_key_that_a_view_makes_of_a_number_is_its_text():
    view = make_view(get_idempotency_key=lambda self: 7)
    assert ViewClient(view).send(None).status_code == 201
    assert row().key == "7"


def test_a_document_of_very_many_values_goes_by_its_bytes():
    client = ViewClient(make_view(lambda request: Response({})))
    for key, values, status in [("few", 2, 200), ("many", 100_002, 422)]:
        bodies = [str([1] * values).replace(" ", blank).encode() for blank in ("", " ")]
        sent = [client.send(key, body, content_type="application/json") for body in bodies]
        assert [response.status_code for response in sent] == [200, status]
