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
from collections.abc import Iterable
from pathlib import Path

from tools.clusters.gotools import BrokenError, UnavailableError, Workshop, by_version, run

MODULE = Path(__file__).resolve().parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
NEEDED = ("etcd", "kube-apiserver")
USUAL = "v1.37.2"


def versions() -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes that can be built here."""
    return by_version("controlplane", MODULE)


async def find(version: str | None = None) -> list[Path]:
    """Return the folder with the programs, built first if necessary; without a version, any will do."""
    if version is None and (assets := os.environ.get("KUBEBUILDER_ASSETS")):
        return [complete(Path(assets))]
    known, wanted = versions(), version or USUAL
    if wanted not in known:
        raise UnavailableError(f"no kube-apiserver {wanted} here, only {', '.join(known)}")
    cache = known[wanted].cache(wanted)
    for name in lacking(cache, PACKAGES):
        await build(known[wanted], name, cache)
    return [complete(cache)]


def lacking(folder: Path, names: Iterable[str]) -> list[str]:
    """Return the named programs that a folder lacks."""
    return [name for name in names if not (folder / name).is_file()]


def complete(folder: Path) -> Path:
    if missing := lacking(folder, NEEDED):
        raise BrokenError(f"{folder} lacks {' and '.join(missing)}")
    return folder


async def build(shop: Workshop, name: str, cache: Path) -> None:
    """Build a program into the cache, next to the others."""
    release = shop.required(PACKAGES[name].partition("/cmd/")[0])
    await shop.build(
        PACKAGES[name],
        into=cache / name,
        begins=f"building {name} {release} for the end-to-end tests: once, and it takes minutes",
        otherwise="no kube-apiserver here: install Go to build one, or set KUBEBUILDER_ASSETS to a folder"
        f" with {' and '.join(NEEDED)} (as setup-envtest prints); looked in {cache}",
    )


def main() -> int:
    """Print the folder, and return the exit code."""
    known = versions()
    parser = argparse.ArgumentParser(prog="python -m tools.clusters.controlplane.build")
    parser.add_argument("--version", choices=known, help=f"of Kubernetes; {USUAL} if not given")
    return run(known[USUAL], find(parser.parse_args().version))


if __name__ == "__main__":
    sys.exit(main())
