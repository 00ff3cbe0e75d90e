"""Who calls the payments API, and the rows that it writes."""

from django.conf import settings
from django.db import models


class Tenant(models.Model):
    """A customer of the API. Its users and tokens come and go; the tenant owns the money."""

    slug = models.SlugField(unique=True)

    def __str__(self) -> str:
        return self.slug


class Member(models.Model):
    """A user acts for exactly one tenant."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="members")

    def __str__(self) -> str:
        return f"{self.user} of {self.tenant}"


class Transfer(models.Model):
    """Money that moved within our own database: the effect of a `LOCAL` request."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="transfers")
    amount_cents = models.PositiveBigIntegerField()
    currency = models.CharField(max_length=3, help_text="ISO 4217, in lower case.")
    to = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(amount_cents__gt=0), name="demo_transfer_amount_is_positive"
            )
        ]

    def __str__(self) -> str:
        return f"{self.amount_cents / 100:.2f} {self.currency} to {self.to}"


class OutsideEffect(models.Model):
    """What we know of something that the card network did.

    Written after the step that did it, and so possibly twice, where a worker dies in between:
    the network's id makes it one row.
    """

    network_id = models.CharField(max_length=40, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.network_id


class Charge(OutsideEffect):
    """A card that was charged: the effect of a `REPEATABLE` request."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="charges")
    amount_cents = models.PositiveBigIntegerField()
    currency = models.CharField(max_length=3, help_text="ISO 4217, in lower case.")
    source = models.CharField(max_length=100)
    receipt_email = models.EmailField(blank=True, help_text="Where a receipt is mailed to.")


class Wire(OutsideEffect):
    """Money that was wired to another bank: the effect of an `UNREPEATABLE` request."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="wires")
    amount_cents = models.PositiveBigIntegerField()
    currency = models.CharField(max_length=3, help_text="ISO 4217, in lower case.")
    iban = models.CharField(max_length=34)


class Message(OutsideEffect):
    """What somebody wrote into the contact form; the network mails it to us."""

    email = models.EmailField()
    text = models.TextField(max_length=5000)
