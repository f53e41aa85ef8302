"""The chart as a package for `helm install`, and its provenance: https://helm.sh/docs/topics/provenance/."""

import tempfile
from pathlib import Path

import yaml

from release import tar_files
from release.artefacts import artefact
from release.commands import run
from release.commit import Commit

CHART_FILE = "numalign/Chart.yaml"


def make(commit: Commit, helm: Path, into: Path) -> Path:
    """Write the package into a folder, and return its path."""
    with tempfile.TemporaryDirectory() as folder:
        run(helm, "package", commit.tree / "deploy" / "chart", "--destination", folder)
        [packed] = Path(folder).iterdir()
        chart = into / packed.name
        # helm sets the modification time of all files to the time of packaging.
        tar_files.write(chart, tar_files.read(packed), epoch=commit.epoch)
    return chart


def provenance(chart: Path) -> str:
    """Return the text to sign for a package: its Chart.yaml, and the digest of the package."""
    [about] = [member.content.decode() for member in tar_files.read(chart) if member.name == CHART_FILE]
    files = yaml.safe_dump({"files": {chart.name: f"sha256:{artefact(chart).sha256}"}})
    return f"{about}\n...\n{files}"
