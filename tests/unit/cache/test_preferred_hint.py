"""What all resources of a container prefer: the fewest zones that each could do with, if they agree."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from numalign.cache.preferred_hint import PreferredHint, fitting_sets, preferred_hint
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import MEMORY
from tests.worlds.columns import only_request, state, with_free
from tests.worlds.notation import GPU, Ids, asks, node, options, table


def hint(pod: str, *nodes: Node) -> PreferredHint:
    every = state(asks(pod), *nodes)
    return preferred_hint(every, only_request(every))


THREE = node(*["cpu=8 mem=8Gi gpu=2"] * 3, policy="restricted")
SINGLE = replace(THREE, policy=Policy.SINGLE_NUMA_NODE)
SHARED = replace(THREE, cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)
SMALL, LARGE, FULL = (node(*[f"gpu={count}"] * 4, policy="restricted") for count in ("1", "2", "2//0"))
COSTS: dict[Ids, int] = {(0, 2): 11, (2, 0): 11, (0, 1): 30, (1, 0): 30, (1, 2): 30, (2, 1): 30}
FAR = node(*["gpu=1"] * 3, policy="restricted", costs=COSTS)
CLOSEST = replace(FAR, options=options("prefer-closest-numa-nodes"))

PREFERRED = [
    # what it shows                     nodes                                    pod, widths, masks, exists
    ("the lowest set with all", [with_free(THREE, "cpu=1", "", "")], "cpu=2 mem=1Gi gpu=1", [1], [2], [1]),
    ("resources differ in width",       [THREE], "cpu=2 mem=1Gi gpu=3", [0], [0], [0]),
    ("no set has all",                  [with_free(THREE, "cpu=1", "gpu=0", "mem=0")], "cpu=2 mem=1Gi gpu=1",
        [1], [0], [0]),
    ("nodes differ in width",           [SMALL, LARGE, FULL], "gpu=2", [2, 1, 1], [3, 1, 0], [1, 1, 0]),
    ("each kubelet has its order", [FAR, CLOSEST, FAR], "gpu=2", [2, 2, 2], [0b011, 0b101, 0b011], [1, 1, 1]),
    ("single zones beside others",      [SINGLE, THREE], "gpu=3", [1, 2], [0, 0b011], [0, 1]),
    ("what nobody manages",             [THREE, SHARED], "cpu=1 mem=1Gi gpu=3", [0, 2], [0, 0b011], [0, 1]),
    ("nothing here is managed",         [THREE, SHARED], "cpu=2 mem=1Gi", [1, 0], [1, 0], [1, 1]),
    ("and single zones count",
        [SINGLE, replace(SHARED, policy=SINGLE.policy)], "cpu=2 mem=1Gi", [1, 0], [1, 0], [1, 1]),
    ("nothing is requested",            [THREE, SINGLE], "cpu=1..", [0, 0], [0, 0], [1, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "pod", "widths", "masks", "exists"), table(PREFERRED))
def test_a_container_prefers(
    nodes: Sequence[Node], pod: str, widths: list[int], masks: list[int], exists: list[int]
) -> None:
    preferred = hint(pod, *nodes)

    assert preferred.mask.tolist() == masks
    assert preferred.exists.tolist() == [bool(one) for one in exists]
    assert (preferred.width * ~preferred.nothing).tolist() == widths


def test_groups_close_sets_to_memory_alone() -> None:
    grouped = node(*["cpu=8 mem=8Gi gpu=1"] * 3, policy="restricted", blocks=[(0, 1)])
    every = state(asks("cpu=1 mem=1Gi gpu=1"), grouped)

    def fitting(width: int, *names: str) -> list[list[bool]]:
        return list[list[bool]](fitting_sets(every, only_request(every).only(names), width).T.tolist())

    assert fitting(1, MEMORY) == fitting(1, MEMORY, GPU) == [[False, False, True]]
    assert fitting(2, MEMORY) == [[True, False, False]]
    assert fitting(1, GPU) == [[True, True, True]]
