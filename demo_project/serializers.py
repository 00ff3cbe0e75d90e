"""What the API takes and gives."""

from typing import Any, ClassVar, TypeVar

from django.db.models import QuerySet
from rest_framework import serializers

from .models import Charge, Message, OutsideEffect, Transfer, Wire

E = TypeVar("E", bound=OutsideEffect)


class AmountMixin(serializers.Serializer[Any]):
    """An amount of money, more than nothing."""

    amount_cents = serializers.IntegerField(min_value=1, max_value=10**12)
    currency = serializers.RegexField("^[a-z]{3}$", help_text="ISO 4217, in lower case.")


class TransferSerializer(AmountMixin, serializers.ModelSerializer[Transfer]):
    """`{"amount_cents": 2500, "currency": "usd", "to": "savings"}`."""

    class Meta:
        model = Transfer
        fields: ClassVar = ["id", "amount_cents", "currency", "to", "created_at"]
        read_only_fields: ClassVar = ["created_at"]


class OutsideSerializer(serializers.ModelSerializer[E]):
    """What the network has done, once it has."""

    def create(self, validated_data: dict[str, Any]) -> E:
        """Write the row, unless an attempt that ended before its response has written it."""
        rows: QuerySet[E] = self.Meta.model._default_manager.all()  # type: ignore[attr-defined]
        network_id = validated_data.pop("network_id")
        return rows.get_or_create(network_id=network_id, defaults=validated_data)[0]


class ChargeSerializer(AmountMixin, OutsideSerializer[Charge]):
    """`{"amount_cents": 2500, "currency": "usd", "source": "pm_1"}`."""

    class Meta:
        model = Charge
        fields: ClassVar = [
            "id",
            "network_id",
            "amount_cents",
            "currency",
            "source",
            "receipt_email",
            "created_at",
        ]
        read_only_fields: ClassVar = ["network_id", "created_at"]


class WireSerializer(AmountMixin, OutsideSerializer[Wire]):
    """`{"amount_cents": 2500, "currency": "usd", "iban": "DE00..."}`."""

    class Meta:
        model = Wire
        fields: ClassVar = ["id", "network_id", "amount_cents", "currency", "iban", "created_at"]
        read_only_fields: ClassVar = ["network_id", "created_at"]


class MessageSerializer(OutsideSerializer[Message]):
    """`{"email": "ada@example.com", "text": "Hello"}`."""

    class Meta:
        model = Message
        fields: ClassVar = ["id", "network_id", "email", "text", "created_at"]
        read_only_fields: ClassVar = ["network_id", "created_at"]
