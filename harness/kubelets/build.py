"""Gets the kubelet itself, and a program that stands in for all that surrounds it on a node.

`python -m harness.kubelets.build [--version v1.34.4 | --all]` prints where the two programs of a version
are, and builds them first if no build of the same sources is in the cache: minutes at the first time,
seconds after an edit. Each version of Kubernetes has a go.<minor>.mod here. Exit code 69 says what is
missing on this machine (Go, root, mount namespaces), 1 that building went wrong.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.gotools import UnavailableError, Workshop, by_version, run

HERE = Path(__file__).resolve().parent
USUAL = "v1.34.4"
KUBELET, COMPANION = "kubelet", "companion"
PACKAGES = {KUBELET: "k8s.io/kubernetes/cmd/kubelet", COMPANION: "."}

# What every start of a kubelet does, tried once on something harmless.
_TRIAL = ("unshare", "--mount", "--propagation=private", "mount", "--bind", "/proc/version", "/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Programs:
    """The kubelet of one version, and its companion: container runtime and device plugins in one."""

    version: str
    kubelet: Path
    companion: Path


def versions() -> dict[str, Workshop]:
    """Every version of Kubernetes of which there is a kubelet here, and from what it is built."""
    return by_version("kubelets", HERE)


async def find(version: str = USUAL) -> Programs:
    """The programs of that version, built first if they must be.

    Raises `UnavailableError` with all that is missing here to build or to run them, and `BrokenError`.
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
    """What this machine lacks to run a kubelet of ours, each with what would help; nothing, if it can."""
    if sys.platform != "linux":
        return ["kubelets need Linux"]
    if os.geteuid():
        return ["want user 0: a kubelet runs as root, and so does who mounts its machine"]
    if absent := [tool for tool in ("unshare", "mount", "sh") if not shutil.which(tool)]:
        return [f"no {' and no '.join(absent)} on PATH: install util-linux"]
    tried = subprocess.run(_TRIAL, capture_output=True, check=False)  # noqa: S603  what stands above
    if tried.returncode:
        return [f"no mount namespaces (want CAP_SYS_ADMIN): {tried.stderr.decode(errors='replace').strip()}"]
    return []


def place(shop: Workshop, version: str, name: str) -> Path:
    """Where a program is kept: an edit of what it is made from is another place."""
    return shop.place(version, name, sorted(HERE.glob("*.go")) if name == COMPANION else ())


async def build(shop: Workshop, version: str, name: str, *, into: Path) -> None:
    """Builds one of them to its place."""
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
    """The script: paths on standard output."""
    known = versions()
    parser = argparse.ArgumentParser(prog="python -m harness.kubelets.build")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", choices=known, default=USUAL, help=f"of Kubernetes; {USUAL} if not given")
    which.add_argument("--all", action="store_true", help="every version, two paths each")
    options = parser.parse_args()
    return run(known[USUAL], _paths(known if options.all else [options.version]))


if __name__ == "__main__":
    sys.exit(main())
