"""The promises in every transaction that a request may find itself in."""

from django.test import TestCase, TransactionTestCase

from .base import Contract, ContractInCallersBlock, ContractInTestCase


class InProduction(Contract, TransactionTestCase):
    atomic_requests = False


class InProductionUnderAtomicRequests(Contract, TransactionTestCase):
    atomic_requests = True


class InTestCase(ContractInTestCase, TestCase):
    atomic_requests = False


class InTestCaseUnderAtomicRequests(ContractInTestCase, TestCase):
    atomic_requests = True


class InCallersBlock(ContractInCallersBlock, TransactionTestCase):
    atomic_requests = False


class InCallersBlockUnderAtomicRequests(ContractInCallersBlock, TransactionTestCase):
    atomic_requests = True
