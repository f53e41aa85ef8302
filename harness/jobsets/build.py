"""Gets the controller of JobSets, and what a cluster must have for it.

`python -m harness.jobsets.build` prints the folder that holds the program `jobset` and the manifests that its
module ships. It is in a cache outside the tree, or is built now with Go from the module beside this file: a
minute, once. Progress goes to standard error. Exit code 69 says that none can be had on this machine, 1 that
getting it went wrong.
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
"""What is kept beside the program, and where the module has it."""


SHOP = Workshop("jobset", HERE, variables=Version(MODULE, f"{MODULE}/pkg/version.GitVersion"))


async def find() -> list[Path]:
    """The folder with the program and the manifests, built first if it must be."""
    cache = SHOP.cache(SHOP.required(MODULE))
    if not cache.exists():
        await build(cache)
    return [cache]


async def build(cache: Path) -> None:
    """Have all of it in the cache; of two builds at the same time the second to finish is thrown away."""
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
    """Where Go keeps the source of the module. BrokenError if it does not say."""
    asked = (go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE)
    listed = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False)  # noqa: S603  as above
    if listed.returncode or not listed.stdout.strip():
        raise BrokenError(f"go does not say where {MODULE} is: {listed.stderr.strip()}")
    return Path(listed.stdout.strip())


def settle(ready: Path, cache: Path) -> None:
    if not cache.exists():
        ready.rename(cache)


def copy_manifests(module: Path, folder: Path) -> None:
    for name, shipped in MANIFESTS.items():
        # What Go keeps is read-only, and a copy of the mode would be too.
        shutil.copyfile(module / shipped, folder / name)


if __name__ == "__main__":
    sys.exit(run(SHOP, find()))
