"""SBOMs in CycloneDX, each generated from an environment in which the packages are installed."""

import tempfile
from pathlib import Path

from release import toolbox
from release.commands import run
from release.commit import Commit

LOCKS = {
    "numalign": "requirements.txt",
    "numalign-agent": "requirements-agent.txt",
    "kubectl-numa": "requirements-kubectl.txt",
}
"""The requirements of each SBOM: of the wheel and the webhook's image, the agent's image, the plugin."""

FORMAT = "1.6"


def make(commit: Commit, wheel: Path, into: Path) -> list[Path]:
    """Write one for each lock into a folder."""
    return [make_one(name, commit, wheel, into) for name in LOCKS]


def make_one(name: str, commit: Commit, wheel: Path, into: Path) -> Path:
    """Write the one of a lock of `LOCKS` into a folder."""
    deploy = commit.tree / "deploy"
    bill = into / f"{name}-{commit.version}.cdx.json"
    with tempfile.TemporaryDirectory() as folder:
        installed = toolbox.install(deploy / LOCKS[name], Path(folder) / "environment")
        toolbox.pip(installed, "--no-deps", "--no-index", wheel)
        run(
            *(toolbox.environment(deploy / "requirements-release.txt"), "-m", "cyclonedx_py", "environment"),
            *("--output-reproducible", "--spec-version", FORMAT, "--output-format", "JSON"),
            *("--pyproject", commit.tree / "pyproject.toml", "--mc-type", "application"),
            *("--output-file", bill, installed),
        )
    return bill
