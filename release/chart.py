"""The chart as `helm install` takes it, and its provenance: https://helm.sh/docs/topics/provenance/."""

import tempfile
from pathlib import Path

import yaml

from release import tar_files
from release.artefacts import artefact
from release.commands import run
from release.commit import Commit

CHART_FILE = "numalign/Chart.yaml"


def make(commit: Commit, helm: Path, into: Path) -> Path:
    """Write the package into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        run(helm, "package", commit.tree / "deploy" / "chart", "--destination", folder)
        [packed] = Path(folder).iterdir()
        chart = into / packed.name
        # helm gives its files the time at which it packs them.
        tar_files.write(chart, tar_files.read(packed), epoch=commit.epoch)
    return chart


def provenance(chart: Path) -> str:
    """What is signed of a package: what the chart says of itself, and the digest of the package."""
    [about] = [member.content.decode() for member in tar_files.read(chart) if member.name == CHART_FILE]
    files = yaml.safe_dump({"files": {chart.name: f"sha256:{artefact(chart).sha256}"}})
    return f"{about}\n...\n{files}"
