"""Views under test: each run of the work writes one Order."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.policy import Effects, Idempotency

from .models import Order


class OrderSerializer(serializers.ModelSerializer[Order]):
    """An order as clients see it."""

    class Meta:
        model = Order
        fields = ["id", "sku", "amount"]


class OrderView(IdempotencyMixin, APIView):
    """Make an order; `LOCAL`."""

    idempotency = Idempotency(effects=Effects.LOCAL)

    def get(self, request: Any) -> Response:
        """List the orders."""
        return Response(list(Order.objects.order_by("id").values("id", "sku", "amount")))

    def post(self, request: Any) -> Response:
        """Write one order and answer with it."""
        serializer = OrderSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        order = serializer.save(account=str(request.user))
        data = {"id": order.pk, "amount": order.amount}
        return Response(data, status=201, headers={"Location": f"/orders/{order.pk}/"})
