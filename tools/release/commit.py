"""The commit that is released, exported without the other files of the working tree."""

import io
import os
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.release import tar_files
from tools.release.commands import run

EPOCH = "SOURCE_DATE_EPOCH"
"""The variable with the timestamp of a build: https://reproducible-builds.org/specs/source-date-epoch/."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its digest, its files in a folder, its version, and its time in seconds since 1970."""

    revision: str
    tree: Path
    version: str
    epoch: int


def exported(repository: Path, into: Path, environ: Mapping[str, str] = os.environ) -> Commit:
    """Write the files of HEAD of a repository below `into`, and return the commit."""
    revision = run("git", "rev-parse", "HEAD", folder=repository).decode().strip()
    archive = run("git", "archive", "--format=tar", revision, folder=repository)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        tar_files.unpack(files, into)
    version = tomllib.loads((into / "pyproject.toml").read_text())["project"]["version"]
    epoch = environ.get(EPOCH) or run("git", "log", "-1", "--format=%ct", revision, folder=repository)
    return Commit(revision, into, version, int(epoch))


def uncommitted(repository: Path) -> list[str]:
    """Return the lines of `git status --porcelain`: the files that differ from HEAD."""
    return run("git", "status", "--porcelain", folder=repository).decode().splitlines()
