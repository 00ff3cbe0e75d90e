"""The app's place in `INSTALLED_APPS`."""

from django.apps import AppConfig


class IdempotencyAppConfig(AppConfig):
    """Make POSTs safe to retry."""

    name = "idempotency_app"
    verbose_name = "Idempotency keys"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from . import checks

        checks.register_all()
