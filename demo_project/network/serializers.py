"""What the network takes and gives."""

from typing import ClassVar

from rest_framework import serializers

from .models import Charge, Message, Wire

READ_ONLY = ["id", "created_at"]


class ChargeSerializer(serializers.ModelSerializer[Charge]):
    """`{"amount_cents": 2500, "currency": "usd", "source": "pm_1"}`."""

    class Meta:
        model = Charge
        fields: ClassVar = ["id", "amount_cents", "currency", "source", "created_at"]
        read_only_fields = READ_ONLY


class WireSerializer(serializers.ModelSerializer[Wire]):
    """`{"amount_cents": 2500, "currency": "usd", "iban": "DE00..."}`."""

    class Meta:
        model = Wire
        fields: ClassVar = ["id", "amount_cents", "currency", "iban", "created_at"]
        read_only_fields = READ_ONLY


class MessageSerializer(serializers.ModelSerializer[Message]):
    """`{"email": "ada@example.com", "text": "Hello"}`."""

    class Meta:
        model = Message
        fields: ClassVar = ["id", "email", "text", "created_at"]
        read_only_fields = READ_ONLY
