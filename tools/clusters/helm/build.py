"""Finds or builds helm, because only helm knows what a chart renders to.

`python -m tools.clusters.helm.build` prints the path of `helm`. It is the one that HELM names, if set;
otherwise one in a cache outside the tree. If the cache has none, it is built with Go from the module next to
this file, which takes minutes, once. Progress goes to standard error. Exit code 69 means that helm is not
available on this machine, 1 that HELM is wrong or the build failed.
"""

import sys
from pathlib import Path

from tools.clusters.gotools import Workshop, run

MODULE = "helm.sh/helm/v3"


def versions(workshop: Workshop) -> dict[str, str]:
    """Return the variables of helm's version and its default Kubernetes version, as in helm's Makefile."""
    minor = workshop.required("k8s.io/client-go").split(".")[1]
    parts = [f"{MODULE}/pkg/{part}.k8sVersion" for part in ("chartutil", "lint/rules")]
    kubernetes = {
        f"{part}{field}": value for part in parts for field, value in (("Major", "1"), ("Minor", minor))
    }
    return {f"{MODULE}/internal/version.version": workshop.release, **kubernetes}


WORKSHOP = Workshop("helm", Path(__file__).resolve().parent, module=MODULE, variables=versions)


async def find() -> list[Path]:
    """Return the path of helm; build it first if necessary."""
    return [await WORKSHOP.program(f"{MODULE}/cmd/helm", variable="HELM")]


if __name__ == "__main__":
    sys.exit(run(WORKSHOP, find()))
