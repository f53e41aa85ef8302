"""Finds or builds the JobSet controller, and the manifests that a cluster needs for it.

`python -m harness.jobsets.build` prints the folder with the program `jobset` and the manifests of its module.
It is in a cache outside the tree. If the cache has none, it is built with Go from the module next to this
file, which takes a minute, once. Progress goes to standard error. Exit code 69 means that it is not available
on this machine, 1 that the build failed.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.gotools import BrokenError, Version, Workshop, run

HERE = Path(__file__).resolve().parent
MODULE = "sigs.k8s.io/jobset"
PROGRAM = "jobset"

MANIFESTS = {
    "crd.yaml": "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    "role.yaml": "config/components/rbac/role.yaml",
    "webhooks.yaml": "config/components/webhook/manifests.yaml",
}
"""The files next to the program, and their paths in the module."""


SHOP = Workshop("jobset", HERE, variables=Version(MODULE, f"{MODULE}/pkg/version.GitVersion"))


async def find() -> list[Path]:
    """Return the folder with the program and the manifests, built first if necessary."""
    cache = SHOP.cache(SHOP.required(MODULE))
    if not cache.exists():
        await build(cache)
    return [cache]


async def build(cache: Path) -> None:
    """Build the program and its manifests into the cache; of two parallel builds, the later is discarded."""
    release = SHOP.required(MODULE)
    go = SHOP.compiler(
        otherwise=f"no controller of JobSets {release}: install Go to build it; not at {cache}"
    )
    SHOP.say(f"building {PROGRAM} {release}: it takes a minute, unless its packages were built before")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as unfinished:
        ready = Path(unfinished) / "ready"
        await SHOP.compile(go, MODULE, into=ready / PROGRAM)
        copy_manifests(source(go), ready)
        settle(ready, cache)


def source(go: str) -> Path:
    """Return the folder of the module's source. Raise `BrokenError` if Go does not report it."""
    asked = (go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE)
    listed = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False)  # noqa: S603  a fixed command
    if listed.returncode or not listed.stdout.strip():
        raise BrokenError(f"go does not say where {MODULE} is: {listed.stderr.strip()}")
    return Path(listed.stdout.strip())


def settle(ready: Path, cache: Path) -> None:
    if not cache.exists():
        ready.rename(cache)


def copy_manifests(module: Path, folder: Path) -> None:
    for name, shipped in MANIFESTS.items():
        # Files in Go's cache are read-only, so their modes are not copied.
        shutil.copyfile(module / shipped, folder / name)


if __name__ == "__main__":
    sys.exit(run(SHOP, find()))
