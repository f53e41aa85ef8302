"""Gives helm to those who need it, and leaves them out of a run that does not ask for them.

Helm is built once with Go, and the image's steps ask a package registry: neither belongs into every run.
`make deploy-test` asks for both; where helm cannot be had, the last lines of the run say so.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.asked_for import PACKAGING
from tests.deploy.tools import build


def pytest_configure(config: pytest.Config) -> None:
    PACKAGING.declare(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    PACKAGING.leave_out(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    PACKAGING.tell(terminalreporter, config)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The path of helm, built first if it must be; whoever asks must have the time."""
    with PACKAGING.or_skipped():
        [program] = asyncio.run(build.find())
    return program


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The path of kubectl."""
    found = shutil.which("kubectl")
    if not found:
        pytest.skip("no kubectl on PATH")
    return found
