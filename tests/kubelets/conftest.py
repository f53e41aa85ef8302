"""Leaves real kubelets out of a run that does not ask for them: they need root, Go once, and a minute."""

import pytest

from tests.asked_for import AskedFor

KUBELETS = AskedFor("kubelets", "root and Go", of="real kubelets", command="make e2e-kubelets")


def pytest_configure(config: pytest.Config) -> None:
    KUBELETS.declare(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    KUBELETS.leave_out(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    KUBELETS.tell(terminalreporter, config)
    skipped = [one for one in terminalreporter.stats.get("skipped", []) if "kubelets" in one.keywords]
    if skipped:
        terminalreporter.section("NO REAL KUBELET WAS STARTED", yellow=True, bold=True)
        for reason in sorted({one.longrepr[2] for one in skipped}):
            terminalreporter.line(reason, yellow=True)
