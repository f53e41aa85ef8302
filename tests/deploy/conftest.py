"""Gives helm to those who need it, and leaves them out of a run that does not ask for them.

Helm is built once with Go, and the image's steps ask a package registry: neither belongs into every run.
`make deploy-test` asks for both; where helm cannot be had, the last lines of the run say so.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.deploy.tools import build
from tests.gotools import UnavailableError

HERE = Path(__file__).resolve().parent
LEFT_OUT = pytest.StashKey[int]()
REASON = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "packaging: needs helm or a package registry; run with -m packaging")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "packaging" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("packaging")]
    items[:] = [item for item in items if not item.get_closest_marker("packaging")]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(LEFT_OUT, 0):
        what = f"{count} tests of the chart and of the image's steps were not asked for"
        terminalreporter.line(f"{what}; to run them: make deploy-test")
    if reason := config.stash.get(REASON, None):
        terminalreporter.section("THE CHART WAS NOT TESTED", yellow=True, bold=True)
        terminalreporter.line(reason, yellow=True)


@pytest.fixture(scope="session")
def helm(request: pytest.FixtureRequest) -> Path:
    """The path of helm, built first if it must be; whoever asks must have the time."""
    try:
        [program] = asyncio.run(build.find())
    except UnavailableError as error:
        request.config.stash[REASON] = str(error)
        pytest.skip(str(error))
    return program


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The path of kubectl."""
    found = shutil.which("kubectl")
    if not found:
        pytest.skip("no kubectl on PATH")
    return found
