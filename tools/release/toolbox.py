"""The tools that make a release: pinned by hash, in an environment outside the tree."""

import hashlib
import os
import sys
from pathlib import Path

from tools.release.commands import run
from tools.release.kept import once


def cache() -> Path:
    """Return the folder that is kept from one release to the next."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "numalign" / "release"


def environment(requirements: Path) -> Path:
    """Return the Python of an environment with exactly these requirements, made once for each file content.

    Start their programs with `python -m`: the scripts contain the path at which they were installed.
    """
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    place = cache() / f"{requirements.stem}-{sys.version_info.major}.{sys.version_info.minor}-{digest}"
    once(place, lambda folder: install(requirements, folder))
    return place / "bin" / "python"


def install(requirements: Path, into: Path) -> Path:
    """Create an environment without pip, install requirements, and return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", into)
    python = into / "bin" / "python"
    pip(python, "--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement", requirements)
    return python


def pip(python: Path, *arguments: str | Path) -> None:
    """Install into the environment of `python`."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", *arguments)
