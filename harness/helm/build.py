"""Gets helm, because only helm knows what a chart comes to.

`python -m harness.helm.build` prints the path of `helm`. It is the one named by HELM if that is set,
else one in a cache outside the tree, else one that is built now with Go from the module beside this file:
minutes, once. Progress goes to standard error. Exit code 69 says that none can be had on this machine, 1 that
getting it went wrong.
"""

import os
import sys
from pathlib import Path

from harness.gotools import BrokenError, Workshop, run

MODULE = "helm.sh/helm/v3"


def versions(workshop: Workshop) -> dict[str, str]:
    """Helm's version and that of Kubernetes, by which it judges charts, set as by its own Makefile."""
    minor = workshop.required("k8s.io/client-go").split(".")[1]
    parts = [f"{MODULE}/pkg/{part}.k8sVersion" for part in ("chartutil", "lint/rules")]
    kubernetes = {
        f"{part}{field}": value for part in parts for field, value in (("Major", "1"), ("Minor", minor))
    }
    return {f"{MODULE}/internal/version.version": workshop.required(MODULE), **kubernetes}


WORKSHOP = Workshop("helm", Path(__file__).resolve().parent, variables=versions)


async def find() -> list[Path]:
    """Where helm is, built first if it must be."""
    if told := os.environ.get("HELM"):
        return [there(Path(told), variable="HELM")]
    cached = WORKSHOP.cache(WORKSHOP.required(MODULE), "helm")
    return [cached if cached.exists() else await build(cached)]


def there(program: Path, *, variable: str) -> Path:
    """The program that a variable of the environment names; raises `BrokenError` where there is none."""
    if not program.is_file():
        raise BrokenError(f"{variable} names {program}, which is no file")
    return program


async def build(cached: Path) -> Path:
    """Builds it into the cache."""
    await WORKSHOP.build(
        f"{MODULE}/cmd/helm",
        into=cached,
        begins=f"building helm {WORKSHOP.required(MODULE)}: once, and it takes minutes",
        otherwise=f"no helm here: install Go to build one, or set HELM to the path of one (not at {cached})",
    )
    return cached


if __name__ == "__main__":
    sys.exit(run(WORKSHOP, find()))
