"""Leaves the oracle's tests out of a run that does not ask for them: to build it takes Go, and minutes."""

import pytest

from tests.asked_for import ORACLE


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ORACLE.leave_out(config, items)
