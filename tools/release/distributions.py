"""The wheel, the source distribution, the lock that installs the wheel by hashes, and the SBOMs."""

import re
import shutil
import sys
import tempfile
from pathlib import Path

from tools.release.order import Order, run

BILLS = {"numalign": "image", "numalign-agent": "agent", "kubectl-numa": "programs"}
"""The locks by SBOM: for the wheel and the webhook's image, for the agent's image, and for the plugin."""


def build(target: str, tree: Path, into: Path) -> Path:
    """Build `wheel` or `sdist` with hatchling into a folder without others, and return its path."""
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into, folder=tree)
    [built] = into.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def make(order: Order) -> None:
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
