"""What an operator has to say before something is changed."""

from __future__ import annotations

from typing import Any

from django import forms

from ..conf import app_settings


class ReasonForm(forms.Form):
    """Why; it goes into the history."""

    reason = forms.CharField(max_length=500, label="Reason, for the history")


class SettleForm(ReasonForm):
    """How it ended: what the next retry gets, or that nothing happened."""

    outcome = forms.ChoiceField(
        choices=[
            ("record", "It happened: record what the next retry gets"),
            ("release", "It did not happen: forget the key, so that a retry runs the work"),
        ],
        widget=forms.RadioSelect,
    )
    status = forms.IntegerField(
        min_value=200, max_value=599, required=False, label="HTTP status of the response"
    )
    body = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 8}),
        strip=False,
        required=False,
        label="Body of the response",
    )
    field_order = ("outcome", "status", "body", "reason")

    def __init__(self, *args: Any, is_single: bool, **kwargs: Any) -> None:
        """`is_single`: one key; several get no common response."""
        super().__init__(*args, **kwargs)
        self.is_single = is_single

    def clean_body(self) -> str:
        """Refuse what would not be kept of a view's own response."""
        body: str = self.cleaned_data["body"].replace("\r\n", "\n")
        limit = app_settings.MAX_RESPONSE_BYTES
        if len(body.encode()) > limit:
            raise forms.ValidationError(f"A recorded body has at most {limit:,} bytes.")
        return body

    def clean(self) -> dict[str, Any]:
        """Ask for the status where there is something to record, and for one key only."""
        data = super().clean() or {}
        if data.get("outcome") == "record":
            if data.get("status") is None and "status" not in self.errors:
                self.add_error("status", "Say which status the next retry gets.")
            if not self.is_single:
                self.add_error("outcome", "Record a response for one key at a time.")
        return data
