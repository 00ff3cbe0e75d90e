"""The views whose effects are the card network's: charges, wires and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from django.db.models import QuerySet
from rest_framework.mixins import CreateModelMixin, RetrieveModelMixin
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from idempotency_app.policy import Effects, Idempotency

from .authentication import NOBODY, account, tenant_of
from .faults import Faults, for_network
from .models import Charge, Message, OutsideEffect, Wire
from .network.client import CardNetwork, NetworkUnreachable
from .serializers import ChargeSerializer, MessageSerializer, WireSerializer
from .views import CreatedMixin, DemoIdempotencyMixin

E = TypeVar("E", bound=OutsideEffect)


class OutsideViewSet(CreateModelMixin, GenericViewSet[E]):
    """Something that the network does, with the faults that the request asks for around it."""

    def perform_create(self, serializer: BaseSerializer[E]) -> None:
        """Have it done; only then write our own row, which says so."""
        Faults.of(self.request.headers).before_effect()
        serializer.save(**self.do(serializer.validated_data))

    def do(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Do the outside work, in steps; return what our row has to say of it."""
        raise NotImplementedError

    def step(self, name: str, work: Callable[[str | None], Any]) -> Any:
        """Do a part of the outside work once for a key, as far as the network allows it."""
        return self.request.idempotency.step(name, work)  # type: ignore[attr-defined]

    def send(self, path: str, content: Mapping[str, Any], key: str | None = None) -> Any:
        """Have the network do one thing, and return its answer: the work of a step."""
        faults = Faults.of(self.request.headers)
        faults.in_step()
        network = CardNetwork(self.merchant, for_network(self.request.headers))
        answer = network.post(path, content, key)
        faults.after_effect()
        return answer

    @property
    def merchant(self) -> str:
        """Whom the network does it for."""
        return tenant_of(self.request).slug


class BareChargeViewSet(CreatedMixin, OutsideViewSet[Charge]):
    """Charges, and a receipt where one is asked for; not yet safe to retry."""

    serializer_class = ChargeSerializer
    detail_name = "charge-detail"

    def do(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Charge the card, then mail the receipt. The bank's refusal is a 402."""
        charge = {name: content[name] for name in ("amount_cents", "currency", "source")}
        charged = self.step("charge", lambda key: self.send("/charges/", charge, key))
        if content.get("receipt_email"):
            self.step("receipt", lambda key: self.mail_receipt(content, key))
        return {"tenant": tenant_of(self.request), "network_id": charged["id"]}

    def mail_receipt(self, content: Mapping[str, Any], key: str | None) -> Any:
        """Mail the receipt."""
        Faults.of(self.request.headers).in_receipt()
        paid = f"{content['amount_cents'] / 100:.2f} {content['currency']}"
        mail = {"email": content["receipt_email"], "text": f"You have paid {paid}."}
        return CardNetwork(self.merchant).post("/messages/", mail, key)


class UnprotectedChargeViewSet(BareChargeViewSet):
    """Charges as they are in an API that has never heard of keys."""

    def step(self, name: str, work: Callable[[str | None], Any]) -> Any:
        """Just do it."""
        return work(None)


class ChargeViewSet(DemoIdempotencyMixin, RetrieveModelMixin, BareChargeViewSet):
    """Charges that are safe to repeat, because the network gets a key of ours with each."""

    idempotency = Idempotency(
        required=True,
        effects=Effects.REPEATABLE,
        # The key is free again, but not where an earlier attempt may have charged.
        release_on=(NetworkUnreachable,),
        account=account,
    )

    def get_queryset(self) -> QuerySet[Charge]:
        """Return the caller's own charges."""
        return Charge.objects.filter(tenant=tenant_of(self.request))


class WireViewSet(DemoIdempotencyMixin, RetrieveModelMixin, CreatedMixin, OutsideViewSet[Wire]):
    """Wires are not safe to repeat: the network's interface for them knows no keys."""

    idempotency = Idempotency(
        required=True,
        effects=Effects.UNREPEATABLE,
        effects_in_steps=True,
        # Nothing was sent, so nobody has to ask how it ended.
        release_on=(NetworkUnreachable,),
        # A job that runs again after a long weekend, or at the month's end, must not pay twice.
        remember=timedelta(days=30),
        account=account,
    )
    serializer_class = WireSerializer
    detail_name = "wire-detail"

    def get_queryset(self) -> QuerySet[Wire]:
        """Return the caller's own wires."""
        return Wire.objects.filter(tenant=tenant_of(self.request))

    def do(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Send the wire. There is no key that could go with it."""
        wired = self.step("wire", lambda key: self.send("/wires/", content))
        return {"tenant": tenant_of(self.request), "network_id": wired["id"]}


class MessageViewSet(DemoIdempotencyMixin, OutsideViewSet[Message]):
    """The contact form. Anybody may write, so all of them share their keys."""

    authentication_classes = ()
    permission_classes = ()
    idempotency = Idempotency(effects=Effects.REPEATABLE, anonymous="share")
    serializer_class = MessageSerializer
    merchant = NOBODY

    def do(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Mail it to us."""
        mailed = self.step("mail", lambda key: self.send("/messages/", content, key))
        return {"network_id": mailed["id"]}
