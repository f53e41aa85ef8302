"""Gets the programs of a real control plane, because a fake one knows only what its author knew.

`python -m harness.controlplane.build` prints the folder that holds `etcd` and `kube-apiserver`. It is the
one named by KUBEBUILDER_ASSETS if that is set (the convention of Kubernetes' own test tools), else a cache
outside the tree, else one that is built now with Go from the module beside this file: minutes, once. Progress
goes to standard error. Exit code 69 says that none can be had on this machine, 1 that getting it went wrong.
"""

import os
import sys
import tempfile
from pathlib import Path

from harness.gotools import BrokenError, Workshop, run

MODULE = Path(__file__).resolve().parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
NEEDED = ("etcd", "kube-apiserver")
WORKSHOP = Workshop(name="controlplane", folder=MODULE)


async def find() -> list[Path]:
    """The folder with the programs, built first if it must be."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return [complete(Path(assets))]
    cache = WORKSHOP.cache(WORKSHOP.required("k8s.io/kubernetes"))
    return [complete(cache) if cache.exists() else await build(cache)]


def complete(folder: Path) -> Path:
    if missing := [name for name in NEEDED if not (folder / name).is_file()]:
        raise BrokenError(f"{folder} lacks {' and '.join(missing)}")
    return folder


async def build(cache: Path) -> Path:
    """Builds every program into the cache, all of them or none.

    Two builds at the same time do each other no harm: the second to finish is thrown away.
    """
    go = WORKSHOP.compiler(
        otherwise="no kube-apiserver here: install Go to build one, or set KUBEBUILDER_ASSETS to a folder"
        f" with {' and '.join(NEEDED)} (as setup-envtest prints); looked in {cache}"
    )
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as unfinished:
        for name, package in PACKAGES.items():
            release = WORKSHOP.required(package.partition("/cmd/")[0])
            WORKSHOP.say(f"building {name} {release} for the end-to-end tests: once, and it takes minutes")
            await WORKSHOP.compile(go, package, into=Path(unfinished) / name)
        settle(Path(unfinished), cache)
    return complete(cache)


def settle(unfinished: Path, cache: Path) -> None:
    ready = unfinished / "ready"
    ready.mkdir()
    for name in PACKAGES:
        (unfinished / name).rename(ready / name)
    if not cache.exists():
        ready.rename(cache)


if __name__ == "__main__":
    sys.exit(run(WORKSHOP, find()))
