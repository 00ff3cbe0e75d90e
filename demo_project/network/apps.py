"""The card network as a Django app of its own."""

from django.apps import AppConfig


class NetworkConfig(AppConfig):
    """What moves money and sends mail for the merchants that call it."""

    name = "demo_project.network"
    default_auto_field = "django.db.models.BigAutoField"
