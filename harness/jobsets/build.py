"""Finds or builds the JobSet controller, and the manifests that a cluster needs for it.

`python -m harness.jobsets.build` prints the folder with the program `jobset` and the manifests of its module.
It is in a cache outside the tree. If the cache has none, it is built with Go from the module next to this
file, which takes a minute, once. Progress goes to standard error. Exit code 69 means that it is not available
on this machine, 1 that the build failed.
"""

import sys
from pathlib import Path

from harness.gotools import Version, Workshop, run
from harness.operators import Operator

MODULE = "sigs.k8s.io/jobset"
PROGRAM = "jobset"

OPERATOR = Operator(
    Workshop(
        PROGRAM,
        Path(__file__).resolve().parent,
        variables=Version(MODULE, f"{MODULE}/pkg/version.GitVersion"),
    ),
    MODULE,
    package=MODULE,
    files={
        "crd.yaml": "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        "role.yaml": "config/components/rbac/role.yaml",
        "webhooks.yaml": "config/components/webhook/manifests.yaml",
    },
)

find = OPERATOR.find

if __name__ == "__main__":
    sys.exit(run(OPERATOR.shop, find()))
