from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.decorators import action
from rest_framework.generics import CreateAPIView, GenericAPIView
from rest_framework.mixins import CreateModelMixin
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet, ModelViewSet, ViewSet

from idempotency_app.mixins import ClaimMixin, ConflictMixin, IdempotencyMixin, ReplayMixin
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import LOCAL, ViewClient, code, is_replay, make_view, row
from tests.testapp.models import Order
from tests.testapp.views import OrderSerializer

TWO_MINUTES = timedelta(minutes=2)


class OrderViewSet(IdempotencyMixin, ModelViewSet[Order]):
    idempotency = Idempotency(required=True, effects=Effects.LOCAL)
    queryset = Order.objects.order_by("pk")
    serializer_class = OrderSerializer

    @action(detail=True, methods=["post"], idempotency=Idempotency(lock_timeout=TWO_MINUTES))
    def capture(self, request, pk=None):
        return Response({"lock": self.idempotency_policy.lock_timeout.total_seconds()})

    @action(detail=False, methods=["post"], idempotency=Idempotency(required=False))
    def lenient(self, request):
        return Response({})

    @action(detail=False, methods=["post"], idempotency=None)
    def preview(self, request):
        return Response({"keyed": hasattr(request, "idempotency")})

    @action(detail=False, methods=["post"])
    def silent(self, request):
        return Response({})

    @silent.mapping.patch
    def silent_patch(self, request):
        return Response({"patched": True})

    @lenient.mapping.patch
    def lenient_patch(self, request):
        return Response({"patched": True})


def routed(viewset):
    router = SimpleRouter()
    router.register("orders", viewset, basename="order")
    return ViewClient(router.urls)


def unrouted(name, detail=False, method="post"):
    """Return a client of one action, served as DRF's manual does it without a router."""
    route = f"orders/<int:pk>/{name}/" if detail else f"orders/{name}/"
    return ViewClient(OrderViewSet.as_view({method: name}), route=route)


@pytest.fixture(params=["router", "as_view"])
def client_of(request):
    """Return a client by the name of an action, served in both ways."""

    def client(name, detail=False):
        return routed(OrderViewSet) if request.param == "router" else unrouted(name, detail)

    return client


@pytest.mark.django_db
class TestActions:
    def test_an_action_has_its_own_policy(self, client_of):
        client = client_of("capture", detail=True)
        assert client.send(to="/orders/1/capture/").json() == {"lock": 120.0}
        lock = row().expires_at - row().locked_at - timedelta(hours=24)
        assert lock.total_seconds() == pytest.approx(120, abs=0.01)

    def test_an_action_never_weakens_its_class_by_silence(self, client_of):
        client = client_of("capture", detail=True)
        assert code(client.send(None, to="/orders/1/capture/")) == "key-missing"

    def test_an_action_may_say_that_it_is_more_lenient(self, client_of):
        assert client_of("lenient").send(None, to="/orders/lenient/").status_code == 200
        assert client_of("lenient").send(to="/orders/lenient/").status_code == 200
        assert row().effects == Effects.LOCAL

    def test_an_action_may_switch_it_off(self, client_of):
        client = client_of("preview")
        for key in (None, "k", "k", '"malformed'):
            response = client.send(key, to="/orders/preview/")
            assert (response.status_code, is_replay(response)) == (200, False)
            assert response.json() == {"keyed": False}
        assert IdempotencyKey.objects.count() == 0

    def test_an_action_that_says_nothing_has_its_classes_policy(self, client_of):
        client = client_of("silent")
        assert code(client.send(None, to="/orders/silent/")) == "key-missing"
        client.send(to="/orders/silent/")
        assert is_replay(client.send(to="/orders/silent/"))

    def test_a_second_method_of_an_action_has_its_policy(self):
        client = routed(OrderViewSet)
        assert code(client.send(None, method="patch", to="/orders/silent/")) == "key-missing"
        assert client.send(method="patch", to="/orders/silent/").json() == {"patched": True}

    def test_a_second_method_has_it_without_a_router_too(self):
        client = unrouted("lenient_patch", method="patch")
        sent = client.send(None, method="patch", to="/orders/lenient_patch/")
        assert sent.json() == {"patched": True}

    def test_the_actions_of_drf_have_the_classes_policy(self):
        client = routed(OrderViewSet)
        assert code(client.send(None)) == "key-missing"
        order = client.send().json()
        assert is_replay(client.send())
        changed = client.send("k2", {"amount": 7}, method="patch", to=f"/orders/{order['id']}/")
        assert changed.json()["amount"] == 7
        assert client.send(None, {"sku": "s"}, method="put", to="/orders/1/").status_code != 400
        assert client.send(None, {}, method="get").status_code == 200

    def test_the_same_key_of_two_actions_is_two_operations(self):
        client = routed(OrderViewSet)
        responses = [client.send(to=f"/orders/{name}/") for name in ("lenient", "silent")]
        assert not any(map(is_replay, responses))


@pytest.mark.django_db
def test_as_view_may_lay_a_policy_over_the_classes():
    view = make_view()
    strict = ViewClient(view.as_view(idempotency=Idempotency(required=True)))
    assert code(strict.send(None)) == "key-missing"
    assert strict.send().status_code == 201
    assert row().effects == Effects.LOCAL
    assert ViewClient(view).send(None).status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize("by", ["class", "as_view"])
def test_a_view_may_be_switched_off(by):
    view = make_view(policy=None if by == "class" else LOCAL)
    client = ViewClient(view.as_view(**({} if by == "class" else {"idempotency": None})))
    assert [is_replay(client.send()) for _ in range(2)] == [False, False]
    assert (len(view.calls), IdempotencyKey.objects.count()) == (2, 0)


@pytest.mark.django_db
def test_an_action_may_be_switched_on_where_the_class_is_off():
    class Off(IdempotencyMixin, ViewSet):
        idempotency = None

        @action(detail=False, methods=["post"], idempotency=LOCAL)
        def keyed(self, request):
            return Response({})

        @action(detail=False, methods=["post"])
        def plain(self, request):
            return Response({})

    client = routed(Off)
    outcomes = {
        name: [is_replay(client.send(to=f"/orders/{name}/")) for _ in range(2)]
        for name in ("keyed", "plain")
    }
    assert outcomes == {"keyed": [False, True], "plain": [False, False]}


@pytest.mark.django_db
def test_the_policy_may_depend_on_the_request():
    def get_idempotency(self):
        return Idempotency(required=True) if "strict" in self.request.query_params else None

    client = ViewClient(make_view(get_idempotency=get_idempotency))
    assert code(client.send(None, to="/orders/?strict=1")) == "key-missing"
    assert client.send(None).status_code == 201
    assert not is_replay([client.send(), client.send()][1])
    assert is_replay([client.send(to="/orders/?strict=1"), client.send(to="/orders/?strict=1")][1])


# The order of the bases.


@pytest.mark.parametrize(
    ("bases", "line"),
    [
        ((APIView, IdempotencyMixin), "class Payments(IdempotencyMixin, APIView):"),
        ((CreateAPIView, IdempotencyMixin), "class Payments(IdempotencyMixin, CreateAPIView):"),
        ((ModelViewSet, IdempotencyMixin), "class Payments(IdempotencyMixin, ModelViewSet):"),
        ((ViewSet, IdempotencyMixin), "class Payments(IdempotencyMixin, ViewSet):"),
        (
            (CreateModelMixin, GenericViewSet, IdempotencyMixin),
            "class Payments(IdempotencyMixin, CreateModelMixin, GenericViewSet):",
        ),
        ((GenericAPIView, ClaimMixin), "class Payments(ClaimMixin, GenericAPIView):"),
        (
            (APIView, ClaimMixin, ReplayMixin, ConflictMixin),
            "class Payments(ClaimMixin, ReplayMixin, ConflictMixin, APIView):",
        ),
        (
            (ClaimMixin, APIView, ConflictMixin),
            "class Payments(ClaimMixin, ConflictMixin, APIView):",
        ),
    ],
)
def test_bases_in_the_wrong_order_are_told_at_import_with_the_right_line(bases, line):
    with pytest.raises(TypeError) as told:
        type("Payments", bases, {})
    assert line in str(told.value)


@pytest.mark.parametrize(
    "bases",
    [
        (IdempotencyMixin, APIView),
        (CreateModelMixin, IdempotencyMixin, GenericViewSet),
        (IdempotencyMixin, ModelViewSet),
        (ClaimMixin, ReplayMixin, ConflictMixin, APIView),
        (IdempotencyMixin,),
    ],
)
def test_bases_in_the_right_order_are_taken(bases):
    assert issubclass(type("Payments", bases, {}), ClaimMixin)


def test_a_teams_own_mixin_counts_as_ours():
    class Ours(IdempotencyMixin):
        pass

    with pytest.raises(TypeError, match=r"class Payments\(Ours, APIView\):"):
        type("Payments", (APIView, Ours), {})


# Handlers that are coroutines.


async def later(self, request, *args, **kwargs):
    return Response()


@pytest.mark.parametrize("name", ["get", "post", "put", "patch", "delete"])
def test_an_async_method_is_told_at_import(name):
    with pytest.raises(TypeError, match=rf"Payments\.{name} is async\. .*`def`"):
        type("Payments", (IdempotencyMixin, APIView), {name: later})


@pytest.mark.parametrize("name", ["create", "update", "partial_update", "destroy", "list"])
def test_an_async_handler_of_a_viewset_is_told_at_import(name):
    with pytest.raises(TypeError, match=rf"Payments\.{name} is async"):
        type("Payments", (IdempotencyMixin, ViewSet), {name: later})


def test_an_async_action_is_told_at_import():
    async def capture(self, request):
        return Response()

    decorate: Any = action(detail=False, methods=["post"])
    names = {"capture": decorate(capture)}
    with pytest.raises(TypeError, match=r"Payments\.capture is async"):
        type("Payments", (IdempotencyMixin, ViewSet), names)


def test_an_async_method_of_a_base_is_told_at_import():
    base = type("Base", (APIView,), {"post": later})
    with pytest.raises(TypeError, match=r"Payments\.post is async"):
        type("Payments", (IdempotencyMixin, base), {})


@pytest.mark.django_db
@pytest.mark.parametrize("key", [None, "k"])
def test_an_async_handler_under_another_name_is_told_at_its_first_request(key):
    view = type("Payments", (IdempotencyMixin, ViewSet), {"pay": later})
    with pytest.raises(TypeError, match="Payments is async"):
        ViewClient(view.as_view({"post": "pay"})).send(key)  # type: ignore[attr-defined]
    assert IdempotencyKey.objects.count() == 0
