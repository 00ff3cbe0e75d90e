"""No rerun of the contract loses a promise."""

from __future__ import annotations

import inspect
import unittest

import pytest

from . import test_outside, test_settings, test_transactions
from .base import CONTRACTS, Contract, RepeatableContract, UnrepeatableContract

RERUNS = [
    (rerun, contract)
    for module in (test_transactions, test_settings, test_outside)
    for rerun in vars(module).values()
    for contract in CONTRACTS
    if inspect.isclass(rerun)
    and issubclass(rerun, contract)
    and issubclass(rerun, unittest.TestCase)
]


def promises(cls: type) -> set[str]:
    return {name for name in dir(cls) if name.startswith("test")}


@pytest.mark.parametrize(
    ("contract", "agreed"), [(Contract, 33), (RepeatableContract, 30), (UnrepeatableContract, 30)]
)
def test_the_contract_has_as_many_promises_as_were_agreed(contract, agreed):
    assert len(promises(contract)) == agreed


def test_what_is_promised_of_every_effect_is_in_every_contract():
    common = promises(Contract) & promises(RepeatableContract) & promises(UnrepeatableContract)
    assert len(common) == 27


@pytest.mark.parametrize(
    ("contract", "reruns"), [(Contract, 12), (RepeatableContract, 7), (UnrepeatableContract, 6)]
)
def test_every_rerun_is_there(contract, reruns):
    assert len([rerun for rerun, promised in RERUNS if promised is contract]) == reruns


@pytest.mark.parametrize(("rerun", "contract"), RERUNS)
def test_every_rerun_collects_every_promise(rerun, contract):
    collected = unittest.defaultTestLoader.getTestCaseNames(rerun)
    assert set(collected) == promises(contract)
    assert getattr(rerun, "__test__", True)
