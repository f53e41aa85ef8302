"""Finds or builds the kubelet, and a companion that replaces what surrounds it on a node.

`python -m tools.clusters.kubelets.build [--version v1.37.2 | --all]` prints the paths of both programs of a
version. It builds them first if the cache has no build of the same sources: this takes minutes the first
time, and seconds after an edit. Each version of Kubernetes has a go.<minor>.mod here. Exit code 69 means
that this machine lacks something (Go, root, mount namespaces), 1 that the build failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import UnavailableError, Workshop, by_version, run

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
    known = versions()
    if version not in known:
        raise UnavailableError(f"no kubelet {version} here, only {', '.join(known)}")
    if lacking := missing():
        raise UnavailableError(f"no kubelet can run here: {'; '.join(lacking)}")
    for name in PACKAGES:
        if not (program := place(known[version], version, name)).exists():
            await build(known[version], version, name, into=program)
    kubelet, companion = (place(known[version], version, name) for name in PACKAGES)
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


async def build(shop: Workshop, version: str, name: str, *, into: Path) -> None:
    """Build one of the programs into its place."""
    await shop.build(
        PACKAGES[name],
        into=into,
        begins=f"building {name} {version}: it takes minutes, unless its packages were built before",
        otherwise=f"no {name} {version} here: install Go to build it; looked for {into}",
    )


async def _paths(wanted: Iterable[str]) -> list[Path]:
    every = [await find(version) for version in wanted]
    return [path for programs in every for path in (programs.kubelet, programs.companion)]


def main() -> int:
    """Print the paths, and return the exit code."""
    known = versions()
    parser = argparse.ArgumentParser(prog="python -m tools.clusters.kubelets.build")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", choices=known, default=USUAL, help=f"of Kubernetes; {USUAL} if not given")
    which.add_argument("--all", action="store_true", help="every version, two paths each")
    options = parser.parse_args()
    return run(known[USUAL], _paths(known if options.all else [options.version]))


if __name__ == "__main__":
    sys.exit(main())
