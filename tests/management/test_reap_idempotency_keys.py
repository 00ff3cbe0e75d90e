from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from idempotency_app.models import IdempotencyKey
from tests.factories import make_key

pytestmark = pytest.mark.django_db


def reap(*args: str) -> str:
    out = io.StringIO()
    call_command("reap_idempotency_keys", *args, stdout=out)
    return out.getvalue()


def test_it_deletes_what_has_expired_and_says_how_many():
    make_key(expired=True)
    kept = make_key(complete=True)
    assert reap().startswith("Deleted 1 expired keys in ")
    assert list(IdempotencyKey.objects.all()) == [kept]


def test_more_rows_than_a_batch_go_in_batches():
    for _ in range(3):
        make_key(expired=True)
    assert reap("--batch-size", "2").startswith("Deleted 3 ")


@pytest.mark.parametrize("size", ["0", "-1", "many"])
def test_a_batch_has_at_least_one_row(size):
    with pytest.raises(CommandError):
        reap("--batch-size", size)


@pytest.mark.django_db(databases=["default", "other"])
def test_the_database_can_be_named():
    record = make_key(expired=True)
    record.save(using="other", force_insert=True)
    assert reap("--database", "other").startswith("Deleted 1 ")
    assert IdempotencyKey.objects.using("default").count() == 1
