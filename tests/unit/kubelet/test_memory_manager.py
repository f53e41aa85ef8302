"""The memory manager under policy Static: its hints, its groups of zones, and what init containers leave."""

from dataclasses import replace

import pytest

from numalign.kubelet import memory_manager
from numalign.kubelet.memory_manager import MemoryState
from numalign.kubelet.topology_manager import TopologyHint
from numalign.model.bitset import bits
from numalign.model.demand import Step
from numalign.model.node import Node
from tests.worlds.notation import asks, bag, node, table

GIB = 2**30


def wants(text: str) -> Step:
    """A step of a Guaranteed pod: `init mem=6Gi`."""
    [step] = asks(f"{text} cpu=500m").steps
    return step


def memory_of(host: Node) -> MemoryState:
    state = memory_manager.state(host)
    assert state
    return state


def after(memory: MemoryState, containers: str) -> MemoryState:
    """The memory after containers that each got what they request for: `init mem=6Gi@0 | mem=2Gi@01`."""
    for container in containers.split("|"):
        text, _, zones = container.partition("@")
        affinity = TopologyHint(bits(map(int, zones.strip())), preferred=False)
        memory = memory_manager.allocate(memory, wants(text), affinity) or pytest.fail("too little")
    return memory


def affinity_of(text: str) -> TopologyHint:
    """An affinity as hints are written; `-` if none is stored."""
    mask = text.removesuffix("p")
    return TopologyHint(None if mask == "-" else int(mask, 2), preferred=text.endswith("p"))


def gib(amounts: tuple[int, ...]) -> list[int]:
    return [amount // GIB for amount in amounts]


EVEN = node("mem=10Gi", "mem=10Gi")
HALF = node("mem=10Gi//4Gi", "mem=10Gi//4Gi")
GROUP = node("mem=10Gi//5Gi", "mem=10Gi//5Gi", "mem=10Gi", blocks=[(0, 1)])


ALLOCATED = [
    # what it shows                                  node    request               affinity taken from
    ("its affinity, if it has room",                EVEN,  "mem=6Gi",          "10p", 0b10),
    ("a wider set around an affinity without room", EVEN,  "mem=12Gi",         "1",   0b11),
    ("nothing, if that is not what was promised",   HALF,  "mem=6Gi",          "1p",  None),
    ("without an affinity the best there is",       EVEN,  "mem=6Gi",          "-",   0b01),
    ("what is preferred before what is narrow",     GROUP, "mem=4Gi",          "-",   0b100),
    ("the best, if nothing was promised",           HALF,  "mem=6Gi",          "-",   0b11),
    ("nothing across the edge of a group",          GROUP, "mem=4Gi",          "110", None),
    ("only a wider set holds the affinity",         GROUP, "mem=6Gi",          "1",   0b11),
    ("nothing of pages that no zone has",           EVEN,  "huge=1Gi mem=1Gi", "1",   None),
]  # fmt: skip


@pytest.mark.parametrize(("host", "text", "affinity", "mask"), table(ALLOCATED))
def test_memory_is_allocated_from_the_best_zones(
    host: Node, text: str, affinity: str, mask: int | None
) -> None:
    memory = memory_manager.allocate(memory_of(host), wants(text), affinity_of(affinity))

    assert [block.mask for block in memory.blocks] == [mask] if memory else mask is None


def test_no_memory_request_without_affinity_is_refused() -> None:
    """The kubelet looks for the best hint, and there is none."""
    [step] = asks("cpu=1 mem=1Gi").steps
    nothing = replace(step, memory=bag(""))

    assert memory_manager.allocate(memory_of(EVEN), nothing, affinity_of("-")) is None
    assert memory_manager.allocate(memory_of(EVEN), nothing, affinity_of("1")) == memory_of(EVEN)


def test_block_on_one_zone_of_a_group_can_be_lost() -> None:
    """It takes the zone out of the group, and what the group gives back can be what it holds."""
    grouped = after(memory_of(EVEN), "mem=12Gi@01 | mem=2Gi@01")
    one = memory_manager.without_blocks(grouped, grouped.blocks[:1])
    small = memory_manager.allocate(one, wants("mem=4Gi"), affinity_of("1")) or pytest.fail("too little")
    assert (gib(small.free["memory"]), small.cells) == ([6, 8], (0b01, 0b11))

    last = memory_manager.without_blocks(small, small.blocks[1:])
    assert gib(last.free["memory"]) == [10, 8], "2 GiB of zone 1 are lost"
    assert (last.cells, last.assignments) == ((0b01, 0b10), (0, 0))
