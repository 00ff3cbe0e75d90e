from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from idempotency_app.policy import UNSET, Effects, Idempotency, Policy

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    "fields",
    [
        {"lock_timeout": 60},
        {"lock_timeout": "60"},
        {"lock_timeout": None},
        {"lock_timeout": timedelta(seconds=-1)},
        {"retention": timedelta(days=-1)},
        {"remember": timedelta(days=-1)},
        {"retention": 86400},
        {"remember": 30},
        {"effects": "local"},
        {"effects": None},
        {"methods": "POST"},
        {"methods": 1},
        {"methods": {1}},
        {"required": "yes"},
        {"required": 1},
        {"endpoint": 7},
        {"account": "tenants.of"},
        {"effects_in_steps": "yes"},
        {"record_statuses": 402},
        {"record_statuses": {"402"}},
        {"release_on": ValueError},
        {"release_on": (ValueError(),)},
        {"max_response_bytes": "1"},
        {"max_response_bytes": None},
        {"max_response_bytes": True},
        {"max_response_bytes": -1},
        {"record_statuses": {200}},
        {"endpoint": ""},
    ],
)
def test_a_wrong_type_is_told_at_import_with_the_name_of_its_field(fields):
    with pytest.raises(TypeError, match=next(iter(fields))):
        Idempotency(**fields)


@pytest.mark.parametrize("value", ["maybe", None, True])
def test_a_wrong_word_is_told_at_import(value):
    with pytest.raises(TypeError, match='"reject" or "share"'):
        Idempotency(anonymous=value)


def test_a_wrong_name_is_told_at_import():
    with pytest.raises(TypeError, match="lock_timout"):
        Idempotency(lock_timout=MINUTE)  # type: ignore[call-arg]


def test_a_policy_takes_keywords_only():
    with pytest.raises(TypeError, match="positional"):
        Idempotency(True)  # type: ignore[call-arg]


def test_a_policy_is_frozen():
    policy = Idempotency()
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.required = True  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields",
    [
        {"retention": None},
        {"remember": None},
        {"account": None},
        {"endpoint": None},
        {"methods": ["post"]},
        {"methods": frozenset({"PUT"})},
        {"record_statuses": ()},
        {"release_on": ()},
        {"max_response_bytes": 0},
        {"lock_timeout": timedelta(0)},
    ],
)
def test_none_nothing_and_zero_are_values(fields):
    assert Idempotency(**fields).over(Idempotency()) == Idempotency(**fields)


VALUES: dict[str, Any] = {
    "required": True,
    "methods": {"PUT"},
    "effects": Effects.REPEATABLE,
    "lock_timeout": MINUTE * 2,
    "retention": MINUTE * 3,
    "remember": MINUTE * 4,
    "account": str,
    "anonymous": "share",
    "endpoint": "orders.create",
    "effects_in_steps": True,
    "record_statuses": {404},
    "release_on": (ValueError,),
    "max_response_bytes": 7,
}


def test_the_table_above_names_every_field():
    assert set(VALUES) == {field.name for field in dataclasses.fields(Idempotency)}
    assert set(VALUES) == {field.name for field in dataclasses.fields(Policy)}


@pytest.mark.parametrize("name", VALUES)
def test_what_a_policy_leaves_out_comes_from_the_one_below(name):
    outer = Idempotency(**VALUES)
    assert getattr(Idempotency().over(outer), name) == VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_what_a_policy_says_stands(name):
    inner = Idempotency(**{name: VALUES[name]})
    laid = inner.over(Idempotency(retention=None, required=False))
    assert getattr(laid, name) == VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_a_policy_says_nothing_by_itself(name):
    assert getattr(Idempotency(), name) is UNSET


def test_a_complete_policy_has_a_value_for_every_field():
    policy = Idempotency(**VALUES).resolve()
    frozen = {"methods": frozenset({"PUT"}), "record_statuses": frozenset({404})}
    assert vars(policy) == VALUES | frozen


def test_what_nobody_says_comes_from_the_settings():
    policy = Idempotency().resolve()
    assert policy.methods == {"POST", "PATCH"}
    assert policy.record_statuses == {402}
    assert policy.effects is Effects.LOCAL
    assert (policy.required, policy.effects_in_steps, policy.release_on) == (False, False, ())


def test_methods_are_named_in_any_case():
    assert Idempotency(methods=["post", "Put"]).resolve().methods == {"POST", "PUT"}


@pytest.mark.parametrize(
    "setting",
    [
        {"EFFECTS": "locale"},
        {"EFFECTS": ""},
        {"LOCK_TIMEOUT": 60},
        {"RETENTION": -timedelta(hours=1)},
        {"REQUIRED": "yes"},
        {"ANONYMOUS": "maybe"},
        {"MAX_RESPONSE_BYTES": None},
    ],
)
def test_a_wrong_setting_is_told_by_its_name(settings, setting):
    settings.IDEMPOTENCY_APP = setting
    with pytest.raises(ImproperlyConfigured, match=rf"IDEMPOTENCY_APP\['{next(iter(setting))}'\]"):
        Idempotency().resolve()
