"""When a record agrees with what a kubelet did."""

from collections.abc import Mapping
from typing import Any

import pytest

from tools.bench.e2e_placements import Agreement, agreement

Held = Mapping[tuple[int, ...], Mapping[str, int]]

GPU = "nvidia.com/gpu"
EIGHT = {(0,): {"cpu": 8000, GPU: 1}}


def bound(record: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {"numalign.io/placement": record}} if record else {}}


@pytest.mark.parametrize(
    ("record", "held", "expected"),
    [
        pytest.param(
            '[{"zones":["node-0"],"amount":{"cpu":"8","nvidia.com/gpu":"1"}}]',
            EIGHT,
            Agreement.SAME,
            id="the same",
        ),
        pytest.param(
            '[{"zones":["node-0"],"amount":{"cpu":"8"}},{"zones":["node-0"],"amount":{"nvidia.com/gpu":"1"}}]',
            EIGHT,
            Agreement.SAME,
            id="the same in two parts",
        ),
        pytest.param(
            '[{"zones":["node-1","node-0"],"amount":{"memory":"1Gi"}}]',
            {(0, 1): {"memory": 2**30}},
            Agreement.SAME,
            id="the same zones in another order",
        ),
        pytest.param(
            '[{"zones":["node-1"],"amount":{"cpu":"8","nvidia.com/gpu":"1"}}]',
            EIGHT,
            Agreement.DIFFERENT,
            id="another zone",
        ),
        pytest.param('[{"zones":["node-0"],"amount":{"cpu":"8"}}]', EIGHT, Agreement.DIFFERENT, id="less"),
        pytest.param("[]", EIGHT, Agreement.DIFFERENT, id="nothing"),
        pytest.param("[]", {}, Agreement.SAME, id="nothing, and rightly"),
        pytest.param(None, EIGHT, Agreement.UNRECORDED, id="no record"),
        pytest.param(None, {(): {}}, Agreement.NEEDLESS, id="no record, and none needed"),
    ],
)
def test_a_record_is_compared_with_what_a_kubelet_gave(
    record: str | None, held: Held, expected: Agreement
) -> None:
    assert agreement(bound(record), held) is expected
