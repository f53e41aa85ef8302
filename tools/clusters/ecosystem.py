"""The programs of other projects that run beside numalign in tests, each built from its Go module.

`python -m tools.clusters.ecosystem` prints a folder for each, with the program and what its module ships for
it. They are in a cache outside the tree. What the cache lacks is built first: minutes for each program, once.
With `--cached`, nothing is built. Progress goes to standard error. Exit code 69 means that some are not
available on this machine, 1 that a build failed.
"""

import argparse
import os
import sys
from pathlib import Path

from tools.clusters.gotools import Version, Workshop, run
from tools.clusters.operators import Operator

HERE = Path(__file__).resolve().parent

_JOBSET, _KUEUE, _KARPENTER = (f"sigs.k8s.io/{name}" for name in ("jobset", "kueue", "karpenter"))
_RAY = "github.com/ray-project/kuberay/ray-operator"
_TRAINER = "github.com/kubeflow/trainer/v2"
_DESCHEDULER = "sigs.k8s.io/descheduler"

JOBSET = Operator(
    Workshop(
        "jobset",
        HERE / "jobsets",
        module=_JOBSET,
        variables=Version(_JOBSET, f"{_JOBSET}/pkg/version.GitVersion"),
    ),
    package=_JOBSET,
    files={
        "crd.yaml": "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        "role.yaml": "config/components/rbac/role.yaml",
        "webhooks.yaml": "config/components/webhook/manifests.yaml",
    },
)
KUEUE = Operator(
    Workshop(
        "kueue", HERE / "kueue", module=_KUEUE, variables=Version(_KUEUE, f"{_KUEUE}/pkg/version.GitVersion")
    ),
    package=f"{_KUEUE}/cmd/kueue",
    files={"charts/kueue": "charts/kueue"},
)
KARPENTER = Operator(
    Workshop("karpenter", HERE / "karpenter", module=_KARPENTER),
    package=f"{_KARPENTER}/kwok",
    # The provider's own definitions are not in its chart.
    files={"charts/karpenter": "kwok/charts", "definitions": "kwok/apis/crds"},
)
KUBERAY = Operator(
    Workshop("kuberay", HERE / "kuberay", module=_RAY),
    package=_RAY,
    files={
        "definitions": "config/crd/bases",
        "role.yaml": "config/rbac/role.yaml",
        "binding.yaml": "config/rbac/role_binding.yaml",
    },
)
TRAINER = Operator(
    Workshop("trainer", HERE / "trainer", module=_TRAINER),
    package=f"{_TRAINER}/cmd/trainer-controller-manager",
    # Its chart depends on others that are not in its module.
    files={
        "definitions": "charts/kubeflow-trainer/crds",
        "role.yaml": "manifests/base/rbac/role.yaml",
        "binding.yaml": "manifests/base/rbac/role_binding.yaml",
        "webhooks.yaml": "manifests/base/webhook/manifests.yaml",
    },
)
DESCHEDULER = Operator(
    Workshop("descheduler", HERE / "descheduler", module=_DESCHEDULER),
    package=f"{_DESCHEDULER}/cmd/descheduler",
    files={"charts/descheduler": "charts/descheduler"},
)

ALL = (JOBSET, KUEUE, KARPENTER, KUBERAY, TRAINER, DESCHEDULER)


def main() -> int:
    """Print the folders, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.clusters.ecosystem")
    parser.add_argument("--cached", action="store_true", help="build nothing")
    if parser.parse_args().cached and (missing := [each for each in ALL if not each.cache.exists()]):
        names = ", ".join(f"{each.shop.name} {each.release}" for each in missing)
        sys.stderr.write(f"not in the cache: {names}\n")
        return os.EX_UNAVAILABLE
    return next(filter(None, (run(each.shop, each.find()) for each in ALL)), 0)


if __name__ == "__main__":
    sys.exit(main())
