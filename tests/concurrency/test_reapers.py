"""S22, B57, B58: two reapers among four claimers that revive what is being reaped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connections

from idempotency_app.models import ClaimOutcome, IdempotencyKey
from tests.factories import FINGERPRINT, IdempotencyKeyFactory, ago, claim

pytestmark = [pytest.mark.row_locks, pytest.mark.django_db(transaction=True)]

EXPIRED, REVIVED, CLAIMERS, REAPERS = 1200, 240, 4, 2


def test_s22_a_key_that_is_revived_while_reapers_run_survives_and_nobody_waits_in_vain():
    IdempotencyKey.objects.bulk_create(
        IdempotencyKeyFactory.build(expired=True, key=f"old-{number}", expires_at=ago(hours=2))
        for number in range(EXPIRED)
    )
    start = Barrier(CLAIMERS + REAPERS)

    def reaping() -> int:
        start.wait()
        return sum(IdempotencyKey.objects.reap(batch_size=50) for _ in range(4))

    def claiming(worker: int) -> list[Any]:
        start.wait()
        keys = range(worker * EXPIRED // CLAIMERS, EXPIRED, EXPIRED // REVIVED)
        return [claim(key=f"old-{each}") for each in list(keys)[: REVIVED // CLAIMERS]]

    with ThreadPoolExecutor(CLAIMERS + REAPERS) as pool:
        reaped = [pool.submit(closing, reaping) for _ in range(REAPERS)]
        claimed = [pool.submit(closing, claiming, worker) for worker in range(CLAIMERS)]
        deleted = sum(each.result() for each in reaped)
        claims = [each for future in claimed for each in future.result()]
    assert {each.outcome for each in claims} == {ClaimOutcome.CLAIMED}
    for each in claims:
        each.record.complete(status=201, headers=[], body=b"{}")
    left = IdempotencyKey.objects.filter(fingerprint=FINGERPRINT)
    assert set(left.values_list("key", flat=True)) == {each.record.key for each in claims}
    assert not left.expired().exists()
    assert EXPIRED - REVIVED <= deleted <= EXPIRED


def closing(work: Any, *arguments: Any) -> Any:
    try:
        return work(*arguments)
    finally:
        connections.close_all()
