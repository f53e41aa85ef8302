"""SBOMs in CycloneDX, each generated from an environment in which the packages are installed."""

import tempfile
from pathlib import Path

from tools.release import toolbox
from tools.release.commands import run
from tools.release.commit import Commit

LOCKS = {
    "numalign": "image.txt",
    "numalign-agent": "agent.txt",
    "kubectl-numa": "programs.txt",
}
"""The locks by SBOM: for the wheel and the webhook's image, for the agent's image, and for the plugin."""

FORMAT = "1.6"


def make(commit: Commit, wheel: Path, into: Path) -> list[Path]:
    """Write an SBOM for each lock into a folder, and return their paths."""
    return [make_one(name, commit, wheel, into) for name in LOCKS]


def make_one(name: str, commit: Commit, wheel: Path, into: Path) -> Path:
    """Write the SBOM of a name of `LOCKS` into a folder, and return its path."""
    locks = commit.tree / "requirements"
    bill = into / f"{name}-{commit.version}.cdx.json"
    with tempfile.TemporaryDirectory() as folder:
        installed = toolbox.install(locks / LOCKS[name], Path(folder) / "environment")
        toolbox.pip(installed, "--no-deps", "--no-index", wheel)
        run(
            *(toolbox.environment(locks / "release.txt"), "-m", "cyclonedx_py", "environment"),
            *("--output-reproducible", "--spec-version", FORMAT, "--output-format", "JSON"),
            *("--pyproject", commit.tree / "pyproject.toml", "--mc-type", "application"),
            *("--output-file", bill, installed),
        )
    return bill
