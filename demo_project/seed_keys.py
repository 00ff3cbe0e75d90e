"""Keys in each state that a person may want to look at, or to send a request under.

All are acme's. Each row is made by the record's own verbs, and then dated back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.test import RequestFactory
from django.urls import resolve
from rest_framework.renderers import JSONRenderer

from idempotency_app.fingerprints import fingerprint
from idempotency_app.identity import endpoint_of
from idempotency_app.models import IdempotencyKey

from .models import Charge, Tenant
from .serializers import ChargeSerializer

TENANT = "acme"
TRANSFER = {"amount_cents": 2500, "currency": "usd", "to": "savings"}
CHARGE = {"amount_cents": 2500, "currency": "usd", "source": "pm_1"}
WIRE = {"amount_cents": 2500, "currency": "usd", "iban": "DE89370400440532013000"}

TIMES = ("locked_at", "locked_until", "created_at", "expires_at", "remember_until")
LOCK_TIMEOUT = timedelta(seconds=60)
RETENTION = timedelta(hours=24)


def seed_keys() -> None:
    """Make one key in each state; its name says in which."""
    seed_complete("seed-complete", age=timedelta(minutes=10))
    seed_complete("seed-expired", age=timedelta(hours=25))
    # Longer than anybody looks at it, so that it is still in flight then.
    claim("seed-in-flight", "/api/transfers/", TRANSFER, lock_timeout=timedelta(hours=24))
    stale = claim("seed-stale", "/api/transfers/", TRANSFER)
    date_back(stale, timedelta(minutes=10))
    unknown = claim("seed-unknown", "/api/wires/", WIRE)
    unknown.save_steps({"wire": {}}, LOCK_TIMEOUT)
    date_back(unknown, timedelta(minutes=10))


def seed_complete(key: str, age: timedelta) -> None:
    """Make a charge of yesterday's network, which today's no longer counts."""
    record = claim(key, "/api/charges/", CHARGE)
    charge = Charge.objects.create(
        tenant=Tenant.objects.get(slug=TENANT), network_id=f"ch_{key}", **CHARGE
    )
    record.save_steps({"charge": {"result": {"id": charge.network_id}}}, LOCK_TIMEOUT)
    record.complete(
        status=201,
        headers=[("Location", f"/api/charges/{charge.pk}/"), ("Content-Type", "application/json")],
        body=JSONRenderer().render(ChargeSerializer(charge).data),
    )
    date_back(record, age)


def claim(
    key: str, path: str, content: Mapping[str, Any], lock_timeout: timedelta = LOCK_TIMEOUT
) -> IdempotencyKey:
    """Claim a key as the POST of this content would, so that the POST itself meets the row."""
    request = RequestFactory().post(path, json.dumps(content), content_type="application/json")
    match = request.resolver_match = resolve(path, "demo_project.urls")
    view = match.func.cls  # type: ignore[attr-defined]
    policy = view.idempotency.resolve()
    return IdempotencyKey.objects.claim(
        account=f"tenant:{TENANT}",
        endpoint=endpoint_of(request, view()),
        key=key,
        fingerprint=fingerprint(request, target=path),
        effects=policy.effects,
        effects_in_steps=policy.effects_in_steps,
        lock_timeout=lock_timeout,
        retention=RETENTION,
        remember=policy.remember,
    ).record


def date_back(record: IdempotencyKey, span: timedelta) -> None:
    """Let that much time have passed for the row."""
    moved: dict[str, Any] = {name: F(name) - span for name in TIMES}
    IdempotencyKey.objects.filter(pk=record.pk).update(**moved)
