"""Makes the plugin's archive for this machine once, for all tests that run it."""

import os
import sys
from pathlib import Path

import pytest

from tests.unit.tools.release.plugin.machines import THIS_PLATFORM, THIS_PYTHON
from tools.release import distributions
from tools.release.commit import Commit, exported
from tools.release.plugin import archives

ROOT = Path(__file__).parents[5]


@pytest.fixture(scope="session")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Commit:
    return exported(ROOT, tmp_path_factory.mktemp("commit") / "tree")


@pytest.fixture(scope="session")
def archive(commit: Commit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For this version of Python alone: a release's archives hold all of them, and take minutes to make."""
    assert THIS_PLATFORM
    folder = tmp_path_factory.mktemp("archive")
    wheel = distributions.make_wheel(commit, folder)
    return archives.make(commit, wheel, THIS_PLATFORM, folder, pythons=[THIS_PYTHON])


@pytest.fixture(scope="session")
def bare_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with an empty home, and `python3` on PATH."""
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    return {"HOME": str(home), "PATH": os.pathsep.join([str(home / "bin"), "/usr/bin", "/bin"])}
