"""Workers that fail, outlive their locks and are killed leave one effect a key."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from django.db import connection

from idempotency_app.models import IdempotencyKey, State

from ..testapp.models import Order
from .mayhem import KEYS, run_mayhem

pytestmark = pytest.mark.django_db(transaction=True)

SEED = 20261130


@pytest.fixture
def riot(tmp_path):
    """Run the mayhem; return what happened, as lists of words by their first one."""

    def run(effects):
        happened = defaultdict(list)
        database = str(connection.settings_dict["NAME"])
        for word, *rest in run_mayhem(database, effects, tmp_path / "journal", SEED):
            happened[word].append(rest)
        assert happened["error"] == []
        # There was something to go wrong, and it did.
        assert all(happened[word] for word in ("killed", "failed", "refused"))
        statuses = {int(status) for _, status, *_ in happened["told"]}
        assert statuses <= {201, 400, 409, 500}
        return happened

    return run


def states():
    return Counter(IdempotencyKey.objects.values_list("state", flat=True))


def effects_of(happened):
    """Return what the network was asked to do, key by key."""
    asked = defaultdict(list)
    for key, downstream_key in happened["effect"]:
        asked[key].append(downstream_key)
    return asked


def told(happened, code):
    return {key for key, _, said, _ in happened["told"] if said == code}


def test_local_work_leaves_one_row_a_key(riot):
    happened = riot("local")
    assert Counter(Order.objects.values_list("sku", flat=True)) == Counter(KEYS)
    assert states() == {State.COMPLETE: len(KEYS)}
    assert len(happened["run"]) > len(KEYS)
    assert told(happened, "in-progress")
    assert not told(happened, "outcome-unknown")


def test_repeatable_work_charges_once_a_key_where_the_downstream_key_is_honoured(riot):
    happened = riot("repeatable")
    asked = effects_of(happened)
    assert set(asked) == set(KEYS)
    assert {len(set(downstream)) for downstream in asked.values()} == {1}
    assert len({downstream for [downstream, *_] in asked.values()}) == len(KEYS)
    assert states() == {State.COMPLETE: len(KEYS)}
    # Some had to ask again, or there was nothing to honour.
    assert max(map(len, asked.values())) > 1
    assert not told(happened, "outcome-unknown")


@pytest.mark.parametrize("effects", ["unrepeatable", "in-steps"])
def test_unrepeatable_work_asks_at_most_once_a_key_and_tells_what_is_unknown(riot, effects):
    happened = riot(effects)
    asked = effects_of(happened)
    assert max(map(len, asked.values())) == 1
    unresolved = set(IdempotencyKey.objects.unresolved().values_list("key", flat=True))
    complete = IdempotencyKey.objects.filter(state=State.COMPLETE)
    recorded = set(complete.values_list("key", flat=True))
    assert unresolved | recorded == set(KEYS)
    assert not unresolved & recorded
    # Each that nobody knows the end of was told so, and none of the others got an answer.
    replayed = {key for key, _, _, is_replay in happened["told"] if is_replay == "True"}
    assert unresolved <= told(happened, "outcome-unknown")
    assert replayed <= recorded
    assert set(complete.filter(response_status=201).values_list("key", flat=True)) <= set(asked)
    assert unresolved
    assert recorded
