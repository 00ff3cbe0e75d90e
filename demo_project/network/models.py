"""What the network did. Its ids are random, so that they never begin again with its database."""

import secrets
from typing import ClassVar

from django.db import models


def charge_id() -> str:
    """Return a new charge's id."""
    return f"ch_{secrets.token_hex(12)}"


def wire_id() -> str:
    """Return a new wire's id."""
    return f"wire_{secrets.token_hex(12)}"


def message_id() -> str:
    """Return a new message's id."""
    return f"msg_{secrets.token_hex(12)}"


class Effect(models.Model):
    """Something that was done for a merchant, and cannot be undone."""

    # The name in the answer to GET /counts/.
    counted_as: ClassVar[str]

    merchant = models.SlugField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.pk} for {self.merchant}"


class Charge(Effect):
    """A card that was charged."""

    counted_as = "charges"

    id = models.CharField(primary_key=True, max_length=40, default=charge_id)
    amount_cents = models.PositiveBigIntegerField()
    currency = models.CharField(max_length=3, help_text="ISO 4217, in lower case.")
    source = models.CharField(max_length=100)


class Wire(Effect):
    """Money that was wired to another bank."""

    counted_as = "wires"

    id = models.CharField(primary_key=True, max_length=40, default=wire_id)
    amount_cents = models.PositiveBigIntegerField()
    currency = models.CharField(max_length=3, help_text="ISO 4217, in lower case.")
    iban = models.CharField(max_length=34)


class Message(Effect):
    """A mail that was sent, as far as anybody can see from here."""

    counted_as = "messages"

    id = models.CharField(primary_key=True, max_length=40, default=message_id)
    email = models.EmailField()
    text = models.TextField()
