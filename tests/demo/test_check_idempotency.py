"""S20: the smoke test against the served demo."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command

from .live import CHARGE, CONTENT

TOKEN = "Authorization: Token bob-token"


@pytest.mark.parametrize("path", ["/api/transfers/", "/api/charges/", "/api/wires/"])
def test_s20_what_the_demo_protects_passes(live_demo, path):
    out = io.StringIO()
    data = json.dumps(CONTENT[path])
    call_command("check_idempotency", live_demo.url + path, "--data", data, "-H", TOKEN, stdout=out)
    assert out.getvalue().endswith("Safe to retry, as far as this can be seen from outside.\n")


def test_s20_the_unprotected_endpoint_fails(live_demo):
    out = io.StringIO()
    url = live_demo.url + "/api/unprotected/charges/"
    with pytest.raises(SystemExit) as exit_:
        call_command(
            "check_idempotency", url, "--data", json.dumps(CHARGE), "-H", TOKEN, stdout=out
        )
    assert exit_.value.code == 1
    assert "Not safe to retry: A retry runs the work again" in out.getvalue()
