"""Other programs that a build runs: pip, gpgv, dpkg, and the base's own Python."""

import os
import subprocess
from collections.abc import Sequence

from release.image.errors import BuildError


def run(command: Sequence[str], *, otherwise: str, **environment: str) -> bytes:
    """What a program writes to standard output; raises `BuildError` with its errors if it fails."""
    done = subprocess.run(  # noqa: S603  every command is one of ours
        command, capture_output=True, check=False, env=os.environ | environment
    )
    if done.returncode:
        raise BuildError(f"{otherwise}:\n{done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def succeeds(command: Sequence[str]) -> bool:
    """Whether a program ends with 0."""
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603  every command is one of ours
