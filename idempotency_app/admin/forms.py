"""What an operator has to say before something is changed."""

from __future__ import annotations

import json
from typing import Any

from django import forms

from ..conf import app_settings

WITHOUT_BODY = (204, 205, 304)  # RFC 9110, 15.3.5, 15.3.6 and 15.4.5

RECORD = ("record", "It happened: record what the next retry gets")
RELEASE = ("release", "It did not happen: forget the key, so that a retry runs the work")


class ReasonForm(forms.Form):
    """Why; it goes into the history."""

    reason = forms.CharField(max_length=500, label="Reason, for the history")


class SettleForm(ReasonForm):
    """How it ended: what the next retry gets, or that nothing happened."""

    outcome = forms.ChoiceField(choices=[RECORD, RELEASE], widget=forms.RadioSelect)
    status = forms.IntegerField(
        min_value=200, max_value=599, required=False, label="HTTP status of the response"
    )
    body = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 8}),
        strip=False,
        required=False,
        label="Body of the response",
        help_text="It is sent as application/json where it is JSON, as text/plain otherwise.",
    )
    field_order = ("outcome", "status", "body", "reason")

    def __init__(self, *args: Any, is_single: bool, only_recorded: str, **kwargs: Any) -> None:
        """`is_single`: one key; several get no common response.

        `only_recorded`: why nobody can say of the one key that it did not happen; may be empty.
        """
        super().__init__(*args, **kwargs)
        outcome: Any = self.fields["outcome"]
        if not is_single:
            outcome.choices = [RELEASE]
            outcome.error_messages["invalid_choice"] = "Record a response for one key at a time."
            del self.fields["status"], self.fields["body"]
        elif only_recorded:
            outcome.choices = [RECORD]
            outcome.help_text = only_recorded
            outcome.error_messages["invalid_choice"] = f"{only_recorded} Record its outcome."
        if len(outcome.choices) == 1:
            outcome.initial = outcome.choices[0][0]

    def clean_body(self) -> str:
        """Refuse what would not be kept of a view's own response."""
        body: str = self.cleaned_data["body"].replace("\r\n", "\n")
        limit = app_settings.MAX_RESPONSE_BYTES
        if len(body.encode()) > limit:
            raise forms.ValidationError(f"A recorded body has at most {limit:,} bytes.")
        return body

    def clean(self) -> dict[str, Any]:
        """Ask for the status where there is something to record; add the `content_type`."""
        data = super().clean() or {}
        if data.get("outcome") == "record":
            status = data.get("status")
            if status is None and "status" not in self.errors:
                self.add_error("status", "Say which status the next retry gets.")
            if status in WITHOUT_BODY and data.get("body"):
                self.add_error("body", f"A response with {status} has no body.")
            data["content_type"] = content_type(data.get("body", ""))
        return data


def content_type(body: str) -> str:
    """Return what the body is sent as."""
    try:
        json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "text/plain; charset=utf-8"
    return "application/json"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON.")
