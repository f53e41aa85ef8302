"""Finds or builds helm, because only helm knows what a chart renders to.

`python -m tools.clusters.helm.build` prints the path of `helm`. It is the one that HELM names, if set;
otherwise one in a cache outside the tree. If the cache has none, it is built with Go from the module next to
this file, which takes minutes, once. Progress goes to standard error. Exit code 69 means that helm is not
available on this machine, 1 that HELM is wrong or the build failed.
"""

import os
import sys
from pathlib import Path

from tools.clusters.gotools import BrokenError, Workshop, run

MODULE = "helm.sh/helm/v3"


def versions(workshop: Workshop) -> dict[str, str]:
    """Return the variables of helm's version and its default Kubernetes version, as in helm's Makefile."""
    minor = workshop.required("k8s.io/client-go").split(".")[1]
    parts = [f"{MODULE}/pkg/{part}.k8sVersion" for part in ("chartutil", "lint/rules")]
    kubernetes = {
        f"{part}{field}": value for part in parts for field, value in (("Major", "1"), ("Minor", minor))
    }
    return {f"{MODULE}/internal/version.version": workshop.required(MODULE), **kubernetes}


WORKSHOP = Workshop("helm", Path(__file__).resolve().parent, variables=versions)


async def find() -> list[Path]:
    """Return the path of helm; build it first if necessary."""
    if told := os.environ.get("HELM"):
        return [there(Path(told), variable="HELM")]
    cached = WORKSHOP.cache(WORKSHOP.required(MODULE), "helm")
    return [cached if cached.exists() else await build(cached)]


def there(program: Path, *, variable: str) -> Path:
    """Return the program that an environment variable names. Raise `BrokenError` if it does not exist."""
    if not program.is_file():
        raise BrokenError(f"{variable} names {program}, which is no file")
    return program


async def build(cached: Path) -> Path:
    """Build helm into the cache, and return its path."""
    await WORKSHOP.build(
        f"{MODULE}/cmd/helm",
        into=cached,
        begins=f"building helm {WORKSHOP.required(MODULE)}: once, and it takes minutes",
        otherwise=f"no helm here: install Go to build one, or set HELM to the path of one (not at {cached})",
    )
    return cached


if __name__ == "__main__":
    sys.exit(run(WORKSHOP, find()))
