"""Leaves real kubelets out of a run that does not ask for them: they need root, Go once, and a minute."""

import pytest

from tests.asked_for import KUBELETS


def pytest_configure(config: pytest.Config) -> None:
    KUBELETS.declare(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    KUBELETS.leave_out(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    KUBELETS.tell(terminalreporter, config)
