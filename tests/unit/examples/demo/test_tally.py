"""Counts of outcomes, and the causes of denials."""

from typing import Any

import pytest

from examples.demo.calls import PodOutcome
from examples.demo.tally import OutcomeCounts, cause
from tests.worlds.notation import table

POD: dict[str, Any] = {}
DENIED = PodOutcome(POD, None, message="numalign: no")
PATCHED = PodOutcome(POD, POD, operations=({"op": "add"},))
BOTH = PodOutcome(POD, POD, operations=({"op": "add"},), warnings=("numalign: later",))


def test_patched_and_warned_are_parts_of_admitted() -> None:
    tally = OutcomeCounts()
    for answer in (DENIED, PATCHED, BOTH, PodOutcome(POD, POD)):
        tally.add(answer)
    assert str(tally) == "4 reviewed, 3 admitted (2 patched, 1 warned), 1 denied"
    assert tally.words["untouched"] == 1
    assert (dict(tally.causes), dict(tally.warnings)) == ({"no": 1}, {"later": 1})


def test_counts_add_up() -> None:
    first, second = OutcomeCounts(), OutcomeCounts()
    first.add(DENIED)
    second.add(BOTH)
    assert str(first.plus(second)) == "2 reviewed, 1 admitted (1 patched, 1 warned), 1 denied"
    assert first.plus(second).causes == first.causes


TOGETHER = "have at most N memory and at most N nvidia.com/gpu in one NUMA zone"
ENFORCED = 'namespace "prod" enforces restricted'
MISTAKE = 'metadata.annotations[numalign.io/policy]: "x" is not a known value'
LARGE = (
    'no node can align container "main" as single-numa-node (0 of 560 nodes): 183 have at most 191Gi'
    " memory and at most 4 nvidia.com/gpu in one NUMA zone, 377 have no nvidia.com/gpu."
)
OTHER_FIGURES = (
    'no node can align sidecar "x-1" as single-numa-node (0 of 1 node): 1 has at most 191Mi memory and at'
    " most 1 nvidia.com/gpu in one NUMA zone."
)
WHOLE_POD = (
    "no node can align the pod as best-effort (0 of 3 nodes, 0 of 1 node shape without nodes): 3 have at"
    ' most 1500m cpu in 2 NUMA zones (Topology Manager policy "restricted"). Set annotation x to "none".'
)
CAUSES = [
    ("nothing large enough", LARGE, TOGETHER),
    ("other amounts", OTHER_FIGURES, TOGETHER),
    ("scope pod", WHOLE_POD, 'have at most N cpu in 2 NUMA zones (Topology Manager policy "restricted")'),
    ("namespace", f"{ENFORCED}: the pod asks for nothing. Set x.", ENFORCED),
    ("mistake", f"{MISTAKE}; one of a, b", MISTAKE),
]


@pytest.mark.parametrize(("message", "expected"), table(CAUSES))
def test_cause_of_a_denial_has_no_amounts(message: str, expected: str) -> None:
    assert cause(f"numalign: {message}") == expected
