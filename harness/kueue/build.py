"""Finds or builds Kueue, and its chart.

`python -m harness.kueue.build` prints the folder with the program `kueue` and the chart of its module, as
`harness.jobsets.build` does. The build takes minutes, once.
"""

import sys
from pathlib import Path

from harness.gotools import Version, Workshop, run
from harness.operators import Operator

MODULE = "sigs.k8s.io/kueue"
PROGRAM = "kueue"
CHART = "charts/kueue"

OPERATOR = Operator(
    Workshop(
        PROGRAM,
        Path(__file__).resolve().parent,
        variables=Version(MODULE, f"{MODULE}/pkg/version.GitVersion"),
    ),
    MODULE,
    package=f"{MODULE}/cmd/kueue",
    files={CHART: CHART},
)

find = OPERATOR.find

if __name__ == "__main__":
    sys.exit(run(OPERATOR.shop, find()))
