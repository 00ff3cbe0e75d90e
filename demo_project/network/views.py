"""The network's API. Charges and messages are safe to repeat under a key; wires are not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.validators import slug_re
from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.generics import CreateAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.policy import Effects, Idempotency

from .. import requestlog
from .authentication import account, merchant_of
from .faults import NetworkFaults
from .models import Charge, Message, Wire
from .serializers import ChargeSerializer, MessageSerializer, WireSerializer

# The card that never works.
DECLINED = "declined"

HONOURS_KEYS = Idempotency(
    effects=Effects.LOCAL,
    account=account,
    # Merchants hold open questions longer than a day; whoever then asks again must not pay
    # twice because the network has forgotten.
    retention=timedelta(days=30),
)


class CardDeclined(APIException):
    """The bank has said no. This is final: the same charge gets the same answer."""

    status_code = status.HTTP_402_PAYMENT_REQUIRED
    default_detail = "The card was declined."
    default_code = "card_declined"


class EffectView(CreateAPIView[Any]):
    """Do something for the merchant, with the faults that the call asks for around it."""

    def perform_create(self, serializer: BaseSerializer[Any]) -> None:
        """Move the money, or send the mail."""
        faults = NetworkFaults.of(self.request.headers)
        faults.before_effect()
        serializer.save(merchant=merchant_of(self.request))
        faults.after_effect()


class ChargesView(IdempotencyMixin, EffectView):
    """Charge a card."""

    idempotency = HONOURS_KEYS
    serializer_class = ChargeSerializer

    def perform_create(self, serializer: BaseSerializer[Any]) -> None:
        """Ask the bank, then charge."""
        if serializer.validated_data["source"] == DECLINED:
            raise CardDeclined
        super().perform_create(serializer)


class WiresView(EffectView):
    """Wire money. An old interface that knows no keys: each call sends the money again."""

    serializer_class = WireSerializer


class MessagesView(IdempotencyMixin, EffectView):
    """Send a mail."""

    idempotency = HONOURS_KEYS
    serializer_class = MessageSerializer


class CountsView(APIView):
    """How many POSTs arrived from a merchant, and what was done for it."""

    authentication_classes = ()
    permission_classes = ()

    def get(self, request: Request) -> Response:
        """Return the counts of `?tenant=...` since the network's database was made."""
        merchant = request.query_params.get("tenant", "")
        # It becomes the name of a file.
        if not slug_re.fullmatch(merchant):
            raise ValidationError({"tenant": "Name one: ?tenant=acme"})
        done = {
            model.counted_as: model._default_manager.filter(merchant=merchant).count()
            for model in (Charge, Wire, Message)
        }
        return Response({"requests": requestlog.count(merchant), **done})
