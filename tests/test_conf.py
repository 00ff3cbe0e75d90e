from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import override_settings

from idempotency_app.conf import AppSettings, Setting, app_settings
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import ViewClient, is_replay, make_view, row

DEFAULTS = {
    "ACCOUNT": None,
    "ANONYMOUS": "reject",
    "EFFECTS": None,
    "ERROR_FORMAT": "problem",
    "LOCK_TIMEOUT": timedelta(seconds=60),
    "MAX_RESPONSE_BYTES": 1024 * 1024,
    "PROBLEM_TYPE_BASE": "urn:idempotency:",
    "REMEMBER": None,
    "REPLAY_HEADERS": (),
    "REQUIRED": False,
    "RETENTION": timedelta(hours=24),
}


@pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
def test_a_setting_that_is_left_out_has_its_default(name, value):
    assert getattr(app_settings, name) == value


@pytest.mark.parametrize(
    "name", [n for n, v in vars(AppSettings).items() if isinstance(v, Setting)]
)
def test_every_setting_is_read_live(name):
    before = getattr(app_settings, name)
    with override_settings(IDEMPOTENCY_APP={name: "changed"}):
        assert getattr(app_settings, name) == "changed"
    assert getattr(app_settings, name) == before


@pytest.mark.parametrize("name", DEFAULTS)
def test_none_and_zero_are_values_and_not_the_default(name):
    for value in (None, 0, "", False):
        with override_settings(IDEMPOTENCY_APP={name: value}):
            assert getattr(app_settings, name) is value


def test_a_project_without_the_dict_has_the_defaults(settings):
    settings.IDEMPOTENCY_APP = {}
    del settings.IDEMPOTENCY_APP
    assert timedelta(hours=24) == app_settings.RETENTION


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value", "status"),
    [("REQUIRED", True, 400), ("REQUIRED", False, 201), ("ANONYMOUS", "share", 201)],
)
def test_a_setting_holds_for_the_next_request(name, value, status):
    client = ViewClient(make_view(policy=Idempotency()))
    with override_settings(IDEMPOTENCY_APP={name: value}):
        assert client.send(None).status_code == status
    assert client.send(None).status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize("account", [lambda request: "tenant:7", f"{__name__}.tenant"])
def test_the_account_is_a_callable_or_its_dotted_path(account, settings):
    settings.IDEMPOTENCY_APP = {"ACCOUNT": account}
    ViewClient(make_view()).send()
    assert row().account == "tenant:7"


def tenant(request):
    return "tenant:7"


@pytest.mark.django_db
def test_the_effects_of_a_view_that_says_nothing_are_the_settings(settings):
    settings.IDEMPOTENCY_APP = {"EFFECTS": "repeatable"}
    ViewClient(make_view(policy=Idempotency())).send()
    assert row().effects == Effects.REPEATABLE


@pytest.mark.django_db
def test_the_retention_and_the_memory_of_the_settings_are_written(settings):
    settings.IDEMPOTENCY_APP = {
        "LOCK_TIMEOUT": timedelta(seconds=10),
        "RETENTION": timedelta(hours=72),
        "REMEMBER": timedelta(days=30),
    }
    client = ViewClient(make_view())
    client.send()
    record = row()
    kept = (record.expires_at - record.locked_at).total_seconds()
    assert kept == pytest.approx(72 * 3600 + 10, abs=0.01)
    remembered = (record.remember_until - record.expires_at).total_seconds()
    assert remembered == pytest.approx(30 * 24 * 3600, abs=0.01)
    assert is_replay(client.send())
