"""Counts what becomes of keys: add `"idempotency_app.contrib.prometheus"` to INSTALLED_APPS."""

from django.apps import AppConfig


class PrometheusConfig(AppConfig):
    """Connect the metrics to the signals."""

    name = "idempotency_app.contrib.prometheus"
    label = "idempotency_app_prometheus"
    verbose_name = "Metrics of idempotency keys"

    def ready(self) -> None:
        """Register with prometheus-client's default registry."""
        from . import metrics

        metrics.connect()
