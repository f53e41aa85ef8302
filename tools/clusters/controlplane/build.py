"""Finds or builds the programs of a real control plane, because a fake one knows only what its author knew.

`python -m tools.clusters.controlplane.build [--version v1.37.2]` prints the folder with `etcd`,
`kube-apiserver`, `kube-scheduler` and `kube-controller-manager`. Without --version, it is the folder that
KUBEBUILDER_ASSETS names, if set; this is the convention of Kubernetes' own test tools, which always contain
the first two programs only. Otherwise it is a cache outside the tree. Programs that the cache lacks are
built with Go from the go.<minor>.mod next to this file, which takes minutes, once. Progress goes to standard
error. Exit code 69 means that the programs are not available on this machine, 1 that the build failed.
"""

import argparse
import os
import sys
from pathlib import Path

from tools.clusters.gotools import BrokenError, Workshop, by_version, of_version, run

MODULE = Path(__file__).resolve().parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
NEEDED = ("etcd", "kube-apiserver")
USUAL = "v1.37.2"
REMEDY = f"or set KUBEBUILDER_ASSETS to a folder with {' and '.join(NEEDED)} (as setup-envtest prints)"


def versions() -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes that can be built here."""
    return by_version("controlplane", MODULE)


async def find(version: str | None = None) -> list[Path]:
    """Return the folder with the programs, built first if necessary; without a version, any will do."""
    if version is None and (assets := os.environ.get("KUBEBUILDER_ASSETS")):
        return [complete(Path(assets))]
    wanted = version or USUAL
    shop = of_version(versions(), wanted, "kube-apiserver")
    cache = shop.cache(wanted)
    for name, package in PACKAGES.items():
        await shop.program(package, cache / name, remedy=REMEDY)
    return [cache]


def complete(folder: Path) -> Path:
    if missing := [name for name in NEEDED if not (folder / name).is_file()]:
        raise BrokenError(f"{folder} lacks {' and '.join(missing)}")
    return folder


def main() -> int:
    known = versions()
    parser = argparse.ArgumentParser(prog="python -m tools.clusters.controlplane.build")
    parser.add_argument("--version", choices=known, help=f"of Kubernetes; {USUAL} if not given")
    return run(known[USUAL], find(parser.parse_args().version))


if __name__ == "__main__":
    sys.exit(main())
