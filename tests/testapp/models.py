"""The business rows that the tests' views write."""

from django.db import models


class Order(models.Model):
    """One row for each time that the work of a test view took effect."""

    sku = models.CharField(max_length=100)
    amount = models.IntegerField(default=0)
    account = models.CharField(max_length=255, default="")

    def __str__(self) -> str:
        return f"{self.sku} ({self.amount})"
