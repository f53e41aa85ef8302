"""Finds or builds Karpenter with its kwok provider, and its chart.

`python -m harness.karpenter.build` prints the folder with the program `karpenter` and what its module ships,
as `harness.jobsets.build` does. The build takes minutes, once, with the toolchain that go.mod names.
"""

import sys
from pathlib import Path

from harness.gotools import Workshop, run
from harness.operators import Operator

MODULE = "sigs.k8s.io/karpenter"
PROGRAM = "karpenter"
CHART = "charts/karpenter"
DEFINITIONS = "definitions"
"""The folder with the provider's own definitions, which are not in its chart."""

OPERATOR = Operator(
    Workshop(PROGRAM, Path(__file__).resolve().parent),
    MODULE,
    package=f"{MODULE}/kwok",
    files={CHART: "kwok/charts", DEFINITIONS: "kwok/apis/crds"},
)

find = OPERATOR.find

if __name__ == "__main__":
    sys.exit(run(OPERATOR.shop, find()))
