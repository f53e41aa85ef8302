"""Leaves real kubelets out of a run that does not ask for them: they need root, Go once, and a minute."""

import pytest

from tests.asked_for import KUBELETS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    KUBELETS.leave_out(config, items)
