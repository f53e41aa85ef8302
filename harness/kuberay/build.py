"""Finds or builds the KubeRay operator, and the manifests that a cluster needs for it.

`python -m harness.kuberay.build` prints the folder with the program `kuberay` and the manifests of its
module, as `harness.jobsets.build` does. The build takes a minute, once.
"""

import sys
from pathlib import Path

from harness.gotools import Workshop, run
from harness.operators import Operator

MODULE = "github.com/ray-project/kuberay/ray-operator"
PROGRAM = "kuberay"

OPERATOR = Operator(
    Workshop(PROGRAM, Path(__file__).resolve().parent),
    MODULE,
    package=MODULE,
    files={
        "definitions": "config/crd/bases",
        "role.yaml": "config/rbac/role.yaml",
        "binding.yaml": "config/rbac/role_binding.yaml",
    },
)

find = OPERATOR.find

if __name__ == "__main__":
    sys.exit(run(OPERATOR.shop, find()))
