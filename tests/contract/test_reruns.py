"""No rerun of the contract loses a promise."""

from __future__ import annotations

import inspect
import unittest

import pytest

from . import test_settings, test_transactions
from .base import Contract

RERUNS = [
    rerun
    for module in (test_transactions, test_settings)
    for rerun in vars(module).values()
    if inspect.isclass(rerun)
    and issubclass(rerun, Contract)
    and issubclass(rerun, unittest.TestCase)
]


def promises(cls: type) -> set[str]:
    return {name for name in dir(cls) if name.startswith("test")}


def test_the_contract_has_as_many_promises_as_were_agreed():
    assert len(promises(Contract)) == 33


def test_every_rerun_is_there():
    assert len(RERUNS) == 12


@pytest.mark.parametrize("rerun", RERUNS)
def test_every_rerun_collects_every_promise(rerun):
    collected = unittest.defaultTestLoader.getTestCaseNames(rerun)
    assert set(collected) == promises(Contract)
    assert getattr(rerun, "__test__", True)
