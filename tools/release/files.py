"""The files of a release but the plugin: Python's distributions, SBOMs, the chart and the manifests."""

import asyncio
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.clusters import builds

BILLS = {"numalign": "image", "numalign-agent": "agent", "kubectl-numa": "programs"}
"""The locks by SBOM: for the wheel and the webhook's image, for the agent's image, and for the plugin."""

_FIRST = ("Namespace", "CustomResourceDefinition", "ResourceQuota", "PriorityClass", "ServiceAccount")
"""Kinds that other objects depend on, in the order in which they are created."""


@dataclass(frozen=True, slots=True)
class Order:
    """A release: the tree, its version and wheel, the output folder, and the base URL of published files."""

    tree: Path
    version: str
    wheel: Path
    into: Path
    url: str = ""

    @property
    def locks(self) -> Path:
        return self.tree / "requirements"

    def pinned_wheel(self) -> str:
        return f"./{self.wheel.name} --hash=sha256:{sha256(self.wheel)}\n"


def run(*command: str | Path, folder: Path | None = None) -> None:
    """Run a program, whose output is shown. Raise `CalledProcessError` if it fails."""
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build(target: str, tree: Path, into: Path) -> Path:
    """Build `wheel` or `sdist` with hatchling into a folder without others, and return its path."""
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into, folder=tree)
    [built] = into.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def make_distributions(order: Order) -> None:
    """Make the wheel, the source distribution, and the lock that installs the wheel by hashes."""
    shutil.copy(order.wheel, order.into)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(build("sdist", order.tree, Path(folder)), order.into)
    # The head of the file speaks of the tree.
    locked = re.sub(r"^#.*\n", "", (order.locks / "image.txt").read_text(), flags=re.MULTILINE)
    lock = order.into / f"numalign-{order.version}-requirements.txt"
    lock.write_text(locked + order.pinned_wheel())


def make_bills(order: Order) -> None:
    for name in BILLS:
        make_bill(order, name)


def make_bill(order: Order, name: str) -> Path:
    """Make the SBOM of the packages of a lock, installed in an environment, and return its path."""
    bill = order.into / f"{name}-{order.version}.cdx.json"
    lock = order.locks / f"{BILLS[name]}.txt"
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        python = Path(folder, "bin", "python")
        install = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps")
        run(*install, "--no-compile", "--require-hashes", "--only-binary=:all:", "--requirement", lock)
        run(*install, "--no-compile", "--no-index", order.wheel)
        run(
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
            *("--pyproject", order.tree / "pyproject.toml", "--mc-type", "application"),
            *("--spec-version", "1.6", "--output-format", "JSON", "--output-file", bill, python),
        )
    return bill


def helm() -> Path:
    on_path = shutil.which("helm")
    return Path(on_path) if on_path else asyncio.run(builds.helm())


def make_chart(order: Order) -> None:
    run(helm(), "package", order.tree / "deploy" / "chart", "--destination", order.into)


def make_manifests(order: Order) -> None:
    """Write one file for `kubectl apply -f` for each kustomization of deploy/manifests."""
    root = order.tree / "deploy" / "manifests"
    for file in sorted(root.rglob("kustomization.yaml")):
        texts = [(file.parent / name).read_text() for name in yaml.safe_load(file.read_text())["resources"]]
        parts = [part for text in texts for part in re.split(r"^---\s*\n", text, flags=re.MULTILINE)]
        name = "-".join(("numalign", *file.parent.relative_to(root).parts))
        objects = sorted(filter(yaml.safe_load, parts), key=_rank)
        (order.into / f"{name}.yaml").write_text("---\n".join(objects))


def _rank(document: str) -> int:
    kind = yaml.safe_load(document)["kind"]
    return (*_FIRST, kind).index(kind)
