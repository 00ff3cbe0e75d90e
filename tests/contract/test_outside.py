"""The promises of outside effects in every transaction that a request may find itself in."""

from django.test import TestCase, TransactionTestCase

from .base import InCallersBlock, RepeatableContract, UnrepeatableContract


class RepeatableInProduction(RepeatableContract, TransactionTestCase):
    atomic_requests = False


class RepeatableUnderAtomicRequests(RepeatableContract, TransactionTestCase):
    atomic_requests = True


class RepeatableInTestCase(RepeatableContract, TestCase):
    atomic_requests = False


class RepeatableInTestCaseUnderAtomicRequests(RepeatableContract, TestCase):
    atomic_requests = True


class RepeatableInCallersBlock(InCallersBlock, RepeatableContract, TransactionTestCase):
    atomic_requests = False


class UnrepeatableInProduction(UnrepeatableContract, TransactionTestCase):
    atomic_requests = False


class UnrepeatableUnderAtomicRequests(UnrepeatableContract, TransactionTestCase):
    atomic_requests = True


class UnrepeatableInTestCase(UnrepeatableContract, TestCase):
    atomic_requests = False


class UnrepeatableInTestCaseUnderAtomicRequests(UnrepeatableContract, TestCase):
    atomic_requests = True


class UnrepeatableInCallersBlock(InCallersBlock, UnrepeatableContract, TransactionTestCase):
    atomic_requests = False
