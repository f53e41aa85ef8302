"""Leaves the oracle's tests out of a run that does not ask for them: to build it takes Go, and minutes."""

import pytest

from tests.asked_for import AskedFor

ORACLE = AskedFor(
    "oracle", "the kubelet's own managers", of="the kubelet's own managers", command="make oracle-test"
)


def pytest_configure(config: pytest.Config) -> None:
    ORACLE.declare(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ORACLE.leave_out(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ORACLE.tell(terminalreporter, config)
    skipped = [one for one in terminalreporter.stats.get("skipped", []) if "oracle" in one.keywords]
    if skipped:
        terminalreporter.section("THE KUBELET'S OWN MANAGERS WERE NOT ASKED", yellow=True, bold=True)
        for reason in sorted({one.longrepr[2] for one in skipped}):
            terminalreporter.line(reason, yellow=True)
