"""An environment with nothing but what is released, and commands in it."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


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
