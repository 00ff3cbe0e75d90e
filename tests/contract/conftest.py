"""The promises stand beside the test modules, and their asserts explain themselves as well."""

import pytest

pytest.register_assert_rewrite(
    *(f"tests.contract.{name}" for name in ("answers", "failures", "outside", "rollbacks"))
)
