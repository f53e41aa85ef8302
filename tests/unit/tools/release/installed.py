"""An environment with nothing but what is released, and commands in it."""

import os
import subprocess
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LONGEST_SECONDS = 300


def run(
    *command: str | Path, folder: Path | None = None, environ: Mapping[str, str] = os.environ, stdin: str = ""
) -> str:
    """What a command prints; the test fails with all it says where the command does."""
    done = subprocess.run(  # noqa: S603  the tests' own commands
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env=environ,
        cwd=folder,
        input=stdin,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment in a folder."""

    folder: Path

    def create(self) -> None:
        """Make it, with pip."""
        venv.create(self.folder, with_pip=True)

    def program(self, name: str) -> Path:
        """Where a console script is."""
        return self.folder / "bin" / name

    def pip(self, *arguments: str | Path, folder: Path) -> None:
        """Run pip in a folder, with the caller's settings of pip."""
        run(self.program("python"), "-m", "pip", "--quiet", *arguments, folder=folder)

    def run(self, name: str, *arguments: str | Path, stdin: str = "") -> str:
        """What a program prints that knows nothing of the caller's environment and working directory."""
        return run(self.program(name), *arguments, folder=self.folder, environ={}, stdin=stdin)

    def site_packages(self) -> Path:
        """Where modules are installed."""
        [folder] = self.folder.glob("lib/python*/site-packages")
        return folder
