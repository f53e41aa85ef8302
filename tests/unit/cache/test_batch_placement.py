"""The zones of a placement, its alignment and its scores, in columns, are those of the rules."""

from collections.abc import Sequence

import pytest

from numalign.cache import batch_placement
from numalign.cache.batch_placement import REFUSED
from numalign.cache.feasibility import Trial
from numalign.decision import scoring
from numalign.decision.evaluate import evaluate
from numalign.model.intent import Policy
from numalign.model.node import Node
from tests.worlds.columns import state, with_free
from tests.worlds.notation import asks, means, node, table

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, _ = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")
ALONE, NO_GPUS = node(TWO[0]), with_free(RESTRICTED, "gpu=1", "gpu=1")
SPREAD = with_free(BEST, "cpu=1", "gpu=0")

PLACED = [
    # what it shows                   the pod                          intent         nodes, zones, aligned
    ("by its hint or in steps",       "cpu=4 mem=1Gi gpu=1",           "none",        [BEST, SPREAD, NONE],
                                                                                      [1, 2, 1], [1, 0, 0]),
    ("zones count once", "gpu=1 | gpu=1", "none", [RESTRICTED, with_free(RESTRICTED, "gpu=1", "")],
                                                                                      [1, 2],    [1, 1]),
    ("of a refused pod none",         "gpu=2",                         "none",        [NO_GPUS, RESTRICTED],
                                                                                      [REFUSED, 1], [0, 1]),
    ("nothing to align",              "cpu=1..",                       "none",        [RESTRICTED, NONE],
                                                                                      [0, 0],    [1, 1]),
    ("a single zone",                 "gpu=1 | gpu=1",                 "none",        [ALONE],   [1], [1]),
    ("memory in two zones",           "cpu=1 mem=10Gi",                "none",        [BEST, NONE],
                                                                                      [2, 2],    [0, 0]),
    ("a device that is only named", "gpu=0", "none", [NONE, BEST], [0, 0], [1, 1]),
    ("best-effort is kept or not",    "gpu=3",                         "best-effort", [BEST, NONE],
                                                                                      [2, 2],    [1, 0]),
    ("for what lies together",        "cpu=9 mem=1Gi gpu=1",       "best-effort gpu", [BEST],    [2], [1]),
    ("in pod scope as one",           "gpu=1 | gpu=2",                 "none",        [POD],     [2], [1]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "words", "nodes", "zones", "aligned"), table(PLACED))
def test_a_placement_has_zones_and_is_aligned(
    pod: str, words: str, nodes: Sequence[Node], zones: list[int], aligned: list[int]
) -> None:
    demand, intent = asks(pod), means(words)
    trial = Trial(state(demand, *nodes, intent=intent))

    assert batch_placement.zones(trial).tolist() == zones
    assert batch_placement.aligned(trial).tolist() == [bool(one) for one in aligned]
    for one, count, well in zip(nodes, zones, aligned, strict=True):
        verdict = evaluate(one, demand, intent)
        assert count == (len(verdict.placement.zones) if verdict.admitted else REFUSED)
        if verdict.admitted:
            assert scoring.aligned(one, demand, verdict.placement, intent) is bool(well)
