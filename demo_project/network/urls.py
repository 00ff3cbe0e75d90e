"""The network's addresses."""

from django.urls import path

from .views import ChargesView, CountsView, MessagesView, WiresView

urlpatterns = [
    path("charges/", ChargesView.as_view()),
    path("wires/", WiresView.as_view()),
    path("messages/", MessagesView.as_view()),
    path("counts/", CountsView.as_view()),
]
