"""Each system check by its exact id: once where it tells, once where it is silent."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.conf import settings as live
from django.core.checks import run_checks
from django.db import connection, connections
from django.urls import path
from rest_framework.decorators import api_view
from rest_framework.response import Response
from rest_framework.views import APIView

from idempotency_app.checks import views
from idempotency_app.decorators import idempotent
from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects, Idempotency
from tests.factories import ago, make_key

LOCAL = Idempotency(effects=Effects.LOCAL)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Routes:
    def __init__(self, *views: Any) -> None:
        self.urlpatterns = [
            path(f"v{number}/", view.as_view() if hasattr(view, "as_view") else view)
            for number, view in enumerate(views)
        ]


def view_of(policy: Any = LOCAL, name: str = "PaymentView", **attributes: Any) -> Any:
    def post(self: Any, request: Any) -> Response:
        return Response()

    values = {"post": post, "idempotency": policy, **attributes}
    return type(name, (IdempotencyMixin, APIView), values)


@pytest.fixture
def told(settings):
    """Run the checks under these settings and views; return our messages by id."""
    settings.SILENCED_SYSTEM_CHECKS = []

    def run(
        *views: Any, deploy: bool = False, databases: Any = None, **given: Any
    ) -> dict[str, str]:
        settings.ROOT_URLCONF = Routes(*views)
        if given:
            settings.IDEMPOTENCY_APP = given
        messages = run_checks(include_deployment_checks=deploy, databases=databases)
        ours = [each for each in messages if str(each.id).startswith("idempotency_app.")]
        assert all("README.md#system-checks" in str(each.hint) for each in ours)
        return {str(each.id).removeprefix("idempotency_app."): each.msg for each in ours}

    return run


def test_a_project_that_is_right_is_told_nothing(told):
    assert told(view_of(), LOCK_TIMEOUT=MINUTE, RETENTION=DAY) == {}


def test_e001_an_unknown_setting_names_the_nearest(told, settings):
    settings.IDEMPOTENCY_APP = {"RETENTON": DAY}
    messages = [each for each in run_checks() if each.id == "idempotency_app.E001"]
    assert [each.msg for each in messages] == ["IDEMPOTENCY_APP has no setting 'RETENTON'."]
    assert str(messages[0].hint).startswith("Did you mean 'RETENTION'?")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANONYMOUS", "sahre"),
        ("EFFECTS", "locale"),
        ("ENCRYPTION_KEYS", "one"),
        ("ERROR_FORMAT", "DRF"),
        ("LOCK_TIMEOUT", 60),
        ("LOCK_TIMEOUT", timedelta(-1)),
        ("MAX_RESPONSE_BYTES", -1),
        ("PROBLEM_TYPE_BASE", None),
        ("REDACT_FIELDS", "password"),
        ("REMEMBER", 1),
        ("REPLAY_HEADERS", "X-Total"),
        ("REQUEST_TIMEOUT", 30),
        ("REQUIRED", "yes"),
        ("RETENTION", "24h"),
        ("RETRY_WINDOW", timedelta(0)),
        ("ACCOUNT", 7),
    ],
)
def test_e002_a_wrong_type_or_range_names_the_setting_and_what_it_takes(told, name, value):
    messages = told(**{name: value})
    assert messages.keys() == {"E002"}
    assert messages["E002"].startswith(f"IDEMPOTENCY_APP[{name!r}] takes ")


def test_e002_settings_that_are_no_dict(told, settings):
    settings.IDEMPOTENCY_APP = ["RETENTION"]
    assert told().keys() == {"E002"}


@pytest.mark.parametrize("dotted", ["no.such.function", "tests.factories.FINGERPRINT", "nodots"])
def test_e003_an_account_that_cannot_be_imported(told, dotted):
    assert told(ACCOUNT=dotted).keys() == {"E003"}


def test_e003_is_silent_for_a_function(told):
    assert told(ACCOUNT="tests.factories.ago") == {}


def test_b07_e004_a_lock_of_no_length(told):
    assert told(LOCK_TIMEOUT=timedelta(0)).keys() == {"E004"}
    view = view_of(Idempotency(effects=Effects.LOCAL, lock_timeout=timedelta(0)))
    assert told(view, LOCK_TIMEOUT=MINUTE) == {"E004": "PaymentView: the lock timeout is 0."}


def test_e005_a_lock_that_is_not_below_the_retention(told):
    assert told(LOCK_TIMEOUT=DAY, RETENTION=DAY).keys() == {"E005"}
    assert told(LOCK_TIMEOUT=DAY, RETENTION=None) == {}


def test_b13_w001_a_lock_below_the_request_timeout(told):
    assert told(REQUEST_TIMEOUT=2 * MINUTE).keys() == {"W001"}
    assert told(REQUEST_TIMEOUT=MINUTE) == {}
    slow = view_of(Idempotency(effects=Effects.LOCAL, lock_timeout=timedelta(seconds=10)))
    assert told(slow, REQUEST_TIMEOUT=MINUTE)["W001"].startswith("PaymentView: ")


def test_s15_w002_a_retention_that_is_not_above_the_retry_window(told):
    assert told(RETRY_WINDOW=timedelta(hours=30)).keys() == {"W002"}
    assert told(RETRY_WINDOW=timedelta(hours=30), RETENTION=timedelta(hours=72)) == {}
    assert told(RETRY_WINDOW=timedelta(hours=30), REMEMBER=timedelta(days=30)) == {}
    assert told(RETRY_WINDOW=timedelta(hours=30), RETENTION=None) == {}


def test_w003_a_view_that_does_not_say_where_its_effects_live(told):
    silent = view_of(Idempotency(required=True))
    assert told(silent) == {"W003": "PaymentView does not say where its effects live."}
    assert told(silent, EFFECTS="local") == {}
    assert told(view_of(None)) == {}


def test_w003_of_a_function_view(told):
    @idempotent(required=True)
    @api_view(["POST"])
    def payout(request: Any) -> Response:
        return Response()

    assert told(payout) == {"W003": "payout does not say where its effects live."}


def test_w004_anonymous_callers_share(told):
    assert told(ANONYMOUS="share").keys() == {"W004"}
    shared = view_of(Idempotency(effects=Effects.LOCAL, anonymous="share", lock_timeout=MINUTE))
    assert told(shared).keys() == {"W004"}


def test_e006_a_safe_method(told):
    assert told(view_of(Idempotency(effects=Effects.LOCAL, methods={"GET", "POST"}))) == {
        "E006": "PaymentView: keys on GET, which is safe and needs none."
    }


def test_e011_a_policy_that_is_none(told):
    messages = told(view_of({"required": True}))
    assert messages == {"E011": "PaymentView: idempotency is {'required': True}."}


def test_w010_two_views_with_one_endpoint_name(told):
    named = Idempotency(effects=Effects.LOCAL, endpoint="payments.create")
    one, two = view_of(named, "OneView"), view_of(named, "TwoView")
    assert told(one, two) == {
        "W010": "OneView and TwoView share the endpoint name 'payments.create'."
    }
    assert told(one, one) == {}


def test_e008_an_opt_out_that_is_lost(told, monkeypatch):
    def as_view(cls: Any, /, **initkwargs: Any) -> Any:
        inner = super(lossy, cls).as_view(**initkwargs)

        def wrapper(request: Any) -> Any:
            return inner(request)

        wrapper.cls = cls  # type: ignore[attr-defined]
        return wrapper

    lossy = view_of(as_view=classmethod(as_view))
    assert told(lossy) == {}
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    assert told(lossy).keys() == {"E008"}
    assert told(view_of()) == {}


def test_e009_atomic_requests_on_another_database(told, monkeypatch):
    monkeypatch.setitem(connections["other"].settings_dict, "ATOMIC_REQUESTS", True)
    assert told(view_of()).keys() == {"E009"}
    assert told(view_of(Idempotency(effects=Effects.REPEATABLE))) == {}


def test_w005_sqlite_without_immediate(told, monkeypatch):
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {})
    assert told().keys() == {"W005"}
    immediate = {"transaction_mode": "IMMEDIATE"}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", immediate)
    assert told() == {}


def test_b71_w006_cors_lists_that_miss_the_headers(told, settings, monkeypatch):
    settings.CORS_ALLOW_HEADERS = ["content-type"]
    settings.CORS_EXPOSE_HEADERS = ["Idempotent-Replayed", "Retry-After"]
    assert told() == {}
    # The package need not be there to be named; Django does not load it again.
    monkeypatch.setattr(live, "INSTALLED_APPS", [*live.INSTALLED_APPS, "corsheaders"])
    assert told() == {
        "W006": "CORS_ALLOW_HEADERS lacks idempotency-key, so browsers cannot use it."
    }


def test_w008_a_custom_exception_handler(told, settings):
    settings.REST_FRAMEWORK = {"EXCEPTION_HANDLER": "tests.factories.ago"}
    assert told().keys() == {"W008"}
    assert told(ERROR_FORMAT="drf") == {}


def test_w009_bodies_in_clear_is_for_deployment(told):
    assert "W009" in told(deploy=True)
    assert "W009" not in told()
    keys = [Fernet.generate_key().decode()]
    assert not {"W009", "E010"} & told(deploy=True, ENCRYPTION_KEYS=keys).keys()


def test_e010_a_key_that_is_no_fernet_key_is_not_shown(told):
    messages = told(deploy=True, ENCRYPTION_KEYS=["not-a-key"])
    assert messages["E010"] == "ENCRYPTION_KEYS has a key that is no Fernet key."


@pytest.mark.django_db(transaction=True)
def test_e007_the_unique_constraint_is_missing(told, monkeypatch):
    assert told(databases=["default"]) == {}
    constraint, *others = IdempotencyKey._meta.constraints
    with monkeypatch.context() as patch, connection.schema_editor() as editor:
        # SQLite makes the table anew from what the model says.
        patch.setattr(IdempotencyKey._meta, "constraints", others)
        editor.remove_constraint(IdempotencyKey, constraint)
    try:
        assert told(databases=["default"]).keys() == {"E007"}
        assert told() == {}
    finally:
        with connection.schema_editor() as editor:
            editor.add_constraint(IdempotencyKey, constraint)


@pytest.mark.django_db
def test_w007_the_reaper_does_not_run(told):
    make_key(expired=True)
    assert told(databases=["default"]) == {}
    make_key(expired=True, expires_at=ago(days=3))
    assert told(databases=["default"]).keys() == {"W007"}
    assert told() == {}


def test_each_can_be_silenced(told, settings):
    settings.SILENCED_SYSTEM_CHECKS = ["idempotency_app.W003"]
    settings.ROOT_URLCONF = Routes(view_of(Idempotency()))
    found = [each for each in run_checks() if each.id == "idempotency_app.W003"]
    assert found
    assert all(each.is_silenced() for each in found)


def test_a_broken_urlconf_breaks_no_check_of_ours(settings):
    settings.ROOT_URLCONF = "no.such.module"
    assert views.check_policies(None) == []


def test_every_id_is_in_the_readme():
    root = Path(__file__).resolve().parents[2]
    code = "".join(each.read_text() for each in (root / "idempotency_app/checks").glob("*.py"))
    ids = {
        f"{kind[0].upper()}{int(number):03}"
        for kind, number in re.findall(r"\b(error|warning)\((\d+),", code)
    }
    assert len(ids) >= 20
    readme = (root / "README.md").read_text()
    missing = sorted(each for each in ids if f"`{each}`" not in readme)
    assert not missing, f"Add to README.md, System checks: {missing}"
