"""Builds a kube-scheduler alone, with Go: of a version whose other programs need not be built to test it.

`python -m tools.clusters.kubescheduler` prints its path. Its `go.mod` replaces one module by the version
before it, because the Go proxy does not serve the version that Kubernetes requires.
"""

from pathlib import Path

from tools.clusters.gotools import KUBERNETES, KUBERNETES_VERSION, Workshop

WORKSHOP = Workshop("kube-scheduler", Path(__file__).resolve().parent, variables=KUBERNETES_VERSION)
VERSION = WORKSHOP.release
PROGRAM = WORKSHOP.cache(VERSION, WORKSHOP.name)
"""Its path, whether or not it was built."""


async def find() -> list[Path]:
    """Return the path of the program, built first if necessary; that takes minutes, once."""
    return [await WORKSHOP.program(f"{KUBERNETES}/cmd/{WORKSHOP.name}", PROGRAM)]
