"""The demo as a Django app."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """A payments API whose requests can be made to fail on purpose."""

    name = "demo_project"
    default_auto_field = "django.db.models.BigAutoField"
