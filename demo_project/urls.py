"""The demo's addresses."""

from django.contrib import admin
from django.urls import include, path
from rest_framework.routers import SimpleRouter

from .outside import ChargeViewSet, MessageViewSet, UnprotectedChargeViewSet, WireViewSet
from .views import CountsView, TransferViewSet

# Routes as they read in a key's endpoint: `POST api/transfers/`.
router = SimpleRouter(use_regex_path=False)
router.register("transfers", TransferViewSet, basename="transfer")
router.register("charges", ChargeViewSet, basename="charge")
router.register("wires", WireViewSet, basename="wire")
router.register("messages", MessageViewSet, basename="message")
router.register("unprotected/charges", UnprotectedChargeViewSet, basename="unprotected-charge")

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/counts/", CountsView.as_view(), name="counts"),
    path("api/", include(router.urls)),
]
