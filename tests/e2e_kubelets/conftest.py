"""Runs real kubelets with agents beside them. Where they cannot be had, every test is skipped, loudly."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.gotools import UnavailableError
from harness.kubelets.build import find
from tests.asked_for import KUBELETS

HERE = Path(__file__).parent
SAID = pytest.StashKey[list[str]]()
VERSIONS = ("v1.34.4", "v1.36.3")


def pytest_configure(config: pytest.Config) -> None:
    KUBELETS.declare(config)
    config.stash[SAID] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(KUBELETS.mark)
    KUBELETS.leave_out(config, items)
    mine = [item for item in items if HERE in item.path.parents]
    if mine and not config.option.collectonly and (reason := _lacking(config)):
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=reason))


def _lacking(config: pytest.Config) -> str:
    """What is missing here to run kubelets; they are built now, whatever that takes."""
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            for version in VERSIONS:
                asyncio.run(find(version))
    except UnavailableError as error:
        return str(error)
    return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[SAID]:
        terminalreporter.section("what was seen")
        for line in lines:
            terminalreporter.line(line)
    KUBELETS.tell(terminalreporter, config)


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Has a line said at the end of the run."""
    return pytestconfig.stash[SAID].append
