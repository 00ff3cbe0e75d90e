"""The payments API: transfers, and what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.mixins import CreateModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.policy import Effects, Idempotency

from . import requestlog
from .authentication import NOBODY, account, tenant_of
from .faults import Faults
from .models import Transfer
from .network.client import CardNetwork
from .serializers import TransferSerializer


class DemoIdempotencyMixin(IdempotencyMixin):
    """Let Demo-Lock shorten the lock of one request."""

    def get_idempotency(self) -> Idempotency | None:
        """Return the declared policy, with the lock timeout that the request asks for."""
        declared = super().get_idempotency()
        seconds = Faults.of(self.request.headers).lock
        if declared is None or seconds is None:
            return declared
        return Idempotency(lock_timeout=timedelta(seconds=seconds)).over(declared)


class CreatedMixin:
    """Say where that which was created can be read."""

    detail_name: str
    """The name of the route."""

    def get_success_headers(self, data: Mapping[str, Any]) -> dict[str, str]:
        """Return its address as `Location`."""
        return {"Location": reverse(self.detail_name, args=[data["id"]])}


class TransferViewSet(
    DemoIdempotencyMixin,
    CreatedMixin,
    CreateModelMixin,
    RetrieveModelMixin,
    GenericViewSet[Transfer],
):
    """Transfers between accounts: the money moves in the database that holds the keys."""

    idempotency = Idempotency(required=True, effects=Effects.LOCAL, account=account)
    serializer_class = TransferSerializer
    detail_name = "transfer-detail"

    def get_queryset(self) -> QuerySet[Transfer]:
        """Return the caller's own transfers."""
        return Transfer.objects.filter(tenant=tenant_of(self.request))

    def perform_create(self, serializer: BaseSerializer[Transfer]) -> None:
        """Move the money, with the faults that the request asks for around it."""
        faults = Faults.of(self.request.headers)
        faults.before_effect()
        serializer.save(tenant=tenant_of(self.request))
        faults.after_effect()


class CountsView(APIView):
    """How many POSTs of the caller's tenant arrived, and what they did.

    Charges, wires and messages are as the network counts them.
    """

    def get(self, request: Request) -> Response:
        """Return the counts since the demo was seeded, the contact form's for everybody."""
        tenant = tenant_of(request)
        done = CardNetwork(tenant.slug).counts()
        mailed = CardNetwork(NOBODY).counts()
        return Response(
            {
                "requests": requestlog.count(tenant.slug) + requestlog.count(NOBODY),
                "transfers": Transfer.objects.filter(tenant=tenant).count(),
                "charges": done["charges"],
                "wires": done["wires"],
                "messages": done["messages"] + mailed["messages"],
            }
        )
