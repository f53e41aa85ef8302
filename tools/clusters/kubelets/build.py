"""Finds or builds the kubelet, and a companion that replaces what surrounds it on a node.

`python -m tools.clusters.kubelets.build [--version v1.37.2 | --all]` prints the paths of both programs of a
version. It builds them first if the cache has no build of the same sources: this takes minutes the first
time, and seconds after an edit. Each version of Kubernetes has a go.<minor>.mod here. Exit code 69 means
that this machine lacks something (Go, root, mount namespaces), 1 that the build failed.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import UnavailableError, Workshop, by_version, main, of_version

HERE = Path(__file__).resolve().parent
USUAL = "v1.37.2"
KUBELET, COMPANION = "kubelet", "companion"
PACKAGES = {KUBELET: "k8s.io/kubernetes/cmd/kubelet", COMPANION: "."}

# A harmless trial of what the start of a kubelet does.
_TRIAL = ("unshare", "--mount", "--propagation=private", "mount", "--bind", "/proc/version", "/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Programs:
    """The kubelet of a version, and its companion: container runtime and device plugins in one program."""

    version: str
    kubelet: Path
    companion: Path


def versions() -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes whose kubelet can be built here."""
    return by_version("kubelets", HERE)


async def find(version: str = USUAL) -> Programs:
    """Return the programs of a version, built first if necessary.

    Raise `UnavailableError` with what is missing on this machine to build or run them, and `BrokenError` if
    the build fails.
    """
    shop = of_version(versions(), version, "kubelet")
    if lacking := missing():
        raise UnavailableError(f"no kubelet can run here: {'; '.join(lacking)}")
    kubelet, companion = [
        await shop.program(package, place(shop, version, name)) for name, package in PACKAGES.items()
    ]
    return Programs(version, kubelet, companion)


def missing() -> list[str]:
    """Return what this machine lacks to run these kubelets, each with a remedy; empty if nothing."""
    if sys.platform != "linux":
        return ["kubelets need Linux"]
    if os.geteuid():
        return ["want user 0: a kubelet runs as root, and so does who mounts its machine"]
    if absent := [tool for tool in ("unshare", "mount", "sh") if not shutil.which(tool)]:
        return [f"no {' and no '.join(absent)} on PATH: install util-linux"]
    tried = subprocess.run(_TRIAL, capture_output=True, check=False)  # noqa: S603  the constant above
    if tried.returncode:
        return [f"no mount namespaces (want CAP_SYS_ADMIN): {tried.stderr.decode(errors='replace').strip()}"]
    return []


def place(shop: Workshop, version: str, name: str) -> Path:
    """Return the path of a program; it changes with the content of its sources."""
    return shop.place(version, name, sorted(HERE.glob("*.go")) if name == COMPANION else ())


async def _paths(version: str) -> list[Path]:
    programs = await find(version)
    return [programs.kubelet, programs.companion]


if __name__ == "__main__":
    sys.exit(main("tools.clusters.kubelets.build", versions(), USUAL, _paths))
