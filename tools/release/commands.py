"""Runs other programs."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path


class FailedError(Exception):
    """Raised if a program is missing or ends with an error; contains the command and its output."""


def run(
    *command: str | Path,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    umask: int = -1,
) -> bytes:
    """Run a program and return its standard output. Raise `FailedError` if it fails.

    `environ` is added to the environment of this process. A `umask` of -1 keeps that of this process.
    """
    environment = os.environ | (environ or {})
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        raise FailedError(f"{command[0]}: no such program on PATH: install it")
    done = subprocess.run(  # noqa: S603  callers name the programs
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        input=stdin,
        umask=umask,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        words = " ".join(map(str, command))
        raise FailedError(f"exit code {done.returncode} from: {words}\n{said}")
    return done.stdout
