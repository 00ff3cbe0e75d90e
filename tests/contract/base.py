"""The contract of a view, as its clients and its database see it, for each of the effects.

A rerun sets one thing that a project may have set, and keeps every promise. As a plain
TransactionTestCase it is as in production: nobody holds a transaction open around a request.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.test import TestCase

from .answers import Answers
from .failures import Failures
from .harness import Harness
from .outside import Repeatable, Unrepeatable
from .rollbacks import Rollbacks


class Contract(Answers, Failures, Rollbacks):
    """All the promises of LOCAL work."""


class RepeatableContract(Answers, Failures, Repeatable):
    """All the promises of REPEATABLE work."""


class UnrepeatableContract(Answers, Failures, Unrepeatable):
    """All the promises of UNREPEATABLE work that acts in steps only."""


CONTRACTS = (Contract, RepeatableContract, UnrepeatableContract)


if TYPE_CHECKING:

    class InsideTestCase(Contract, TestCase):
        pass

else:
    InsideTestCase = Contract


class ContractInTestCase(InsideTestCase):
    """As in the project's own tests, which are never committed."""

    def hooks_run(self) -> AbstractContextManager[Any]:
        return self.captureOnCommitCallbacks(using=self.alias, execute=True)


class InCallersBlock(Harness):
    """As in a service that calls the view within a transaction of its own."""

    def callers_block(self) -> AbstractContextManager[Any]:
        return transaction.atomic(using=self.alias)


class ContractInCallersBlock(InCallersBlock, Contract):
    pass
