"""The wheel, the source distribution, and the lock that installs the wheel by hashes."""

import re
import shutil
import tempfile
from pathlib import Path

from tools.release import toolbox
from tools.release.artefacts import artefact
from tools.release.commands import run
from tools.release.commit import EPOCH, Commit


def make(commit: Commit, wheel: Path, into: Path) -> list[Path]:
    """Write all three into a folder, and return their paths; the wheel is copied."""
    copy = Path(shutil.copy(wheel, into))
    return [copy, _built(commit, "sdist", into), _lock(commit, wheel, into)]


def make_wheel(commit: Commit, into: Path) -> Path:
    """Write the wheel into a folder, and return its path."""
    return _built(commit, "wheel", into)


def _built(commit: Commit, target: str, into: Path) -> Path:
    """Build a distribution of the tree with hatchling, and return its path."""
    python = toolbox.environment(commit.tree / "requirements" / "release.txt")
    with tempfile.TemporaryDirectory(dir=into) as folder:
        run(
            *(python, "-m", "hatchling", "build", "--target", target, "--directory", folder),
            folder=commit.tree,
            environ={EPOCH: str(commit.epoch)},
        )
        [built] = Path(folder).iterdir()
        return built.rename(into / built.name)


def _lock(commit: Commit, wheel: Path, into: Path) -> Path:
    """Pin all dependencies, and the wheel itself by a path relative to the working directory."""
    lock = into / f"numalign-{commit.version}-requirements.txt"
    locked = (commit.tree / "requirements" / "image.txt").read_text()
    # Its head speaks of the file in the tree.
    requirements = re.sub(r"^#.*\n", "", locked, flags=re.MULTILINE)
    lock.write_text(f"{requirements}./{wheel.name} \\\n    --hash=sha256:{artefact(wheel).sha256}\n")
    return lock
