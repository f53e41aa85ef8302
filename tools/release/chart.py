"""The chart as a package for `helm install`."""

import tempfile
from pathlib import Path

from tools.release import tar_files
from tools.release.commands import run
from tools.release.commit import Commit


def make(commit: Commit, helm: Path, into: Path) -> Path:
    """Write the package into a folder, and return its path."""
    with tempfile.TemporaryDirectory() as folder:
        run(helm, "package", commit.tree / "deploy" / "chart", "--destination", folder)
        [packed] = Path(folder).iterdir()
        chart = into / packed.name
        # helm sets the modification time of all files to the time of packaging.
        tar_files.write(chart, tar_files.read(packed), epoch=commit.epoch)
    return chart
