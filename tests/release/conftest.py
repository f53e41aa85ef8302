"""Makes what is released once for all tests, and leaves them out of a run that does not ask for them."""

import sys
from pathlib import Path

import pytest

from tests.asked_for import RELEASE
from tests.release.installed import Installed, run

ROOT = Path(__file__).parents[2]


def pytest_configure(config: pytest.Config) -> None:
    RELEASE.declare(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    RELEASE.leave_out(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    RELEASE.tell(terminalreporter, config)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the working tree."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, folder=ROOT)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel, and what it needs by the hashes of deploy/requirements.txt."""
    environment = Installed(tmp_path_factory.mktemp("installed"))
    environment.create()
    environment.pip("install", "--require-hashes", "--requirement", ROOT / "deploy" / "requirements.txt")
    environment.pip("install", "--no-deps", "--no-index", wheel)
    return environment
