"""Makes what is released once for all tests, and runs commands where nothing else is installed."""

import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.release import files, plugin
from tools.release.__main__ import ROOT
from tools.release.files import Order

VERSION = "0.1.0"


def run(
    *command: str | Path, folder: Path | None = None, environ: Mapping[str, str] = os.environ, stdin: str = ""
) -> str:
    """Return the standard output of a command; the test fails with all output if the command fails."""
    done = subprocess.run(  # noqa: S603  the tests' own commands
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env=environ,
        cwd=folder,
        input=stdin,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment in a folder."""

    folder: Path

    def program(self, name: str) -> Path:
        """Return the path of a console script."""
        return self.folder / "bin" / name

    def run(self, name: str, *arguments: str | Path, stdin: str = "") -> str:
        """Run a program without the caller's environment and working directory, and return its output."""
        return run(self.program(name), *arguments, folder=self.folder, environ={}, stdin=stdin)


@pytest.fixture(scope="session")
def order(tmp_path_factory: pytest.TempPathFactory) -> Order:
    """A release of the working tree, with its wheel, source distribution and lock."""
    folder = tmp_path_factory.mktemp("release")
    wheel = files.build("wheel", ROOT, folder / "wheel")
    made = Order(ROOT, VERSION, wheel, folder / "dist", "https://example.com/v0.1.0/")
    made.into.mkdir()
    files.make_distributions(made)
    return made


@pytest.fixture(scope="session")
def installed(order: Order, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel and its dependencies, installed by the one command that users run."""
    environment = Installed(tmp_path_factory.mktemp("installed"))
    venv.create(environment.folder, with_pip=True)
    install = ("-m", "pip", "install", "--quiet", "--no-compile", "--require-hashes", "--requirement")
    lock = f"numalign-{VERSION}-requirements.txt"
    run(environment.program("python"), *install, lock, folder=order.into)
    return environment


@pytest.fixture(scope="session")
def archive(order: Order) -> Path:
    """The plugin for this version of Python alone: an archive of a release takes minutes to make."""
    return plugin.make_archive(order, plugin.PLATFORMS[0], pythons=(sys.version_info[:2],))


@pytest.fixture(scope="session")
def bare_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with an empty home, and `python3` on PATH."""
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    return {"HOME": str(home), "PATH": os.pathsep.join([str(home / "bin"), "/usr/bin", "/bin"])}
