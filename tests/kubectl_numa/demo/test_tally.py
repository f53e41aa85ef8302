"""Counts, the line that sums them up, and refusals by cause."""

from typing import Any

import pytest

from kubectl_numa.demo.calls import Answer
from kubectl_numa.demo.tally import Tally, cause
from tests.notation import table

POD: dict[str, Any] = {}
DENIED = Answer(POD, None, message="numalign: no")
PATCHED = Answer(POD, POD, operations=({"op": "add"},))
BOTH = Answer(POD, POD, operations=({"op": "add"},), warnings=("numalign: later",))


def test_patched_and_warned_are_parts_of_admitted() -> None:
    tally = Tally()
    for answer in (DENIED, PATCHED, BOTH, Answer(POD, POD)):
        tally.add(answer)
    assert str(tally) == "4 reviewed, 3 admitted (2 patched, 1 warned), 1 denied"
    assert tally.words["untouched"] == 1
    assert (dict(tally.causes), dict(tally.warnings)) == ({"no": 1}, {"later": 1})


def test_two_tallies_add_up() -> None:
    first, second = Tally(), Tally()
    first.add(DENIED)
    second.add(BOTH)
    assert str(first.plus(second)) == "2 reviewed, 1 admitted (1 patched, 1 warned), 1 denied"
    assert first.plus(second).causes == first.causes


TOO_LARGE = (
    'no node can align container "main": single-numa-node needs 9Gi memory and 8 nvidia.com/gpu in one zone; '
    "the most any zone has is 191Gi and 4 (class 2x48cpu-4gpu-x, 183 nodes). 377 nodes say the same."
)
OTHER_FIGURES = (
    'no node can align sidecar "x-1": single-numa-node needs 300Mi memory and 2 nvidia.com/gpu in one zone; '
    "the most any zone has is 191Mi and 1 (class y, 1 node)."
)
WHOLE_POD = (
    "no node can align the pod: the kubelet's own restricted needs 1500m cpu in 2 zones; "
    "the most any 2 zones have is 1 (class z, 3 nodes)."
)
TOGETHER = "single-numa-node needs so much memory and so much nvidia.com/gpu in one zone"
ENFORCED = 'namespace "prod" enforces restricted'
MISTAKE = 'metadata.annotations[numalign.io/policy]: "x" is none of the known words'


@pytest.mark.parametrize(
    ("message", "expected"),
    table(
        [
            ("what no zone has", TOO_LARGE, TOGETHER),
            ("another pod with other figures", OTHER_FIGURES, TOGETHER),
            ("the pod as a whole", WHOLE_POD, "the kubelet's own restricted needs so much cpu in 2 zones"),
            (
                "a namespace that enforces",
                f"{ENFORCED}: the pod asks for nothing. Set annotation x.",
                ENFORCED,
            ),
            ("a mistake in an annotation", f"{MISTAKE}; one of a, b", MISTAKE),
        ]
    ),
)
def test_a_refusal_comes_down_to_its_cause(message: str, expected: str) -> None:
    assert cause(f"numalign: {message}") == expected
