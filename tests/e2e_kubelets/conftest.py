"""Runs real kubelets with agents beside them. Where they cannot be had, every test is skipped, loudly."""

import asyncio
from collections.abc import Callable

import pytest

from harness.gotools import UnavailableError
from harness.kubelets.build import find

REASON = pytest.StashKey[str]()
SAID = pytest.StashKey[list[str]]()
VERSIONS = ("v1.34.4", "v1.36.3")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SAID] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.collectonly or not items:
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            for version in VERSIONS:
                asyncio.run(find(version))
    except UnavailableError as error:
        config.stash[REASON] = str(error)
        for item in items:
            item.add_marker(pytest.mark.skip(reason=str(error)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[SAID]:
        terminalreporter.section("what was seen")
        for line in lines:
            terminalreporter.line(line)
    if reason := config.stash.get(REASON, None):
        terminalreporter.section("NOTHING WAS TESTED ON REAL KUBELETS", yellow=True, bold=True)
        terminalreporter.line(reason, yellow=True)


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Has a line said at the end of the run."""
    return pytestconfig.stash[SAID].append
