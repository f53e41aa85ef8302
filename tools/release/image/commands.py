"""Runs the programs that a build needs: pip, gpgv, dpkg, and the Python of the base."""

import os
import subprocess
from collections.abc import Sequence

from tools.release.image.errors import BuildError


def run(command: Sequence[str], *, otherwise: str, **environment: str) -> bytes:
    """Return what a program writes to standard output. Raise `BuildError` with its errors if it fails."""
    done = subprocess.run(  # noqa: S603  all commands are constants of this package
        command, capture_output=True, check=False, env=os.environ | environment
    )
    if done.returncode:
        raise BuildError(f"{otherwise}:\n{done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def succeeds(command: Sequence[str]) -> bool:
    """Return whether a program ends with exit code 0."""
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603  all commands are constants of this package
