"""The promises stand beside the test modules, and their asserts explain themselves as well."""

import pytest

pytest.register_assert_rewrite("tests.contract.answers", "tests.contract.failures")
