"""The memory manager under policy Static: its hints, its groups of zones, and what init containers leave."""

from dataclasses import replace

import pytest

from numalign.kubelet import memory_manager
from numalign.kubelet.hint_sets import listed
from numalign.kubelet.memory_manager import Block, MemoryState
from numalign.kubelet.topology_manager import TopologyHint
from numalign.model.bitset import bits
from numalign.model.demand import Step
from numalign.model.node import MemoryManager, Node
from tests.notation import HUGE, asks, bag, node, table

GIB = 2**30


def wants(text: str) -> Step:
    """A step of a Guaranteed pod: `init mem=6Gi`."""
    [step] = asks(f"{text} cpu=500m").steps
    return step


def memory_of(told: Node) -> MemoryState:
    found = memory_manager.state(told)
    assert found
    return found


def written(held: MemoryState, text: str) -> str:
    """Hints as masks with p for what is preferred; all names have the same."""
    offers = memory_manager.topology_hints(held, wants(text).memory)
    texts = {
        " ".join(f"{mask:b}{'p' * (offer.preferred >> mask & 1)}" for mask in listed(offer.possible))
        for offer in offers
    }
    return " and ".join(texts)


def after(held: MemoryState, containers: str) -> MemoryState:
    """The memory after containers that each got what they asked for: `init mem=6Gi@0 | mem=2Gi@01`."""
    for container in containers.split("|"):
        text, _, zones = container.partition("@")
        affinity = TopologyHint(bits(map(int, zones.strip())), preferred=False)
        held = memory_manager.allocate(held, wants(text), affinity) or pytest.fail("too little")
    return held


def affinity_of(text: str) -> TopologyHint:
    """An affinity as hints are written; `-` if none is stored."""
    mask = text.removesuffix("p")
    return TopologyHint(None if mask == "-" else int(mask, 2), preferred=text.endswith("p"))


def gib(amounts: tuple[int, ...]) -> list[int]:
    return [amount // GIB for amount in amounts]


EVEN = node("mem=10Gi", "mem=10Gi")
HALF = node("mem=10Gi//4Gi", "mem=10Gi//4Gi")
GROUP = node("mem=10Gi//5Gi", "mem=10Gi//5Gi", "mem=10Gi", blocks=[(0, 1)])
SINGLE = node("mem=10Gi//8Gi", "mem=10Gi", blocks=[(0,)])
PAGES = node("mem=10Gi", "mem=10Gi huge=8Gi")

HINTS = [
    # what it shows                                       node    asked               hints
    ("one zone is enough, and either can",                 EVEN,   "mem=6Gi",          "1p 10p 11"),
    ("it takes both",                                      EVEN,   "mem=11Gi",         "11p"),
    ("more than there is: no hint, not an impossible one", EVEN,   "mem=21Gi",         ""),
    ("what is given out counts for the fewest zones",      HALF,   "mem=6Gi",          "11"),
    ("too little is free: no hint either",                 HALF,   "mem=9Gi",          ""),
    ("a group serves as it is, a zone outside by itself",  GROUP,  "mem=4Gi",          "11 100p"),
    ("a group takes no other zone in",                     GROUP,  "mem=12Gi",         ""),
    ("a zone with its own block joins no group",           SINGLE, "mem=4Gi",          "1p 10p"),
    ("even if that is what it takes",                      SINGLE, "mem=12Gi",         ""),
    ("all names have the hints that suit all",             PAGES,  "mem=4Gi huge=2Gi", "10p 11"),
    ("pages that no zone has",                             EVEN,   "mem=4Gi huge=2Gi", ""),
]  # fmt: skip


@pytest.mark.parametrize(("told", "asked", "hints"), table(HINTS))
def test_hints(told: Node, asked: str, hints: str) -> None:
    assert written(memory_of(told), asked) == hints


def test_every_name_that_is_asked_for_gets_the_hints() -> None:
    offers = memory_manager.topology_hints(memory_of(PAGES), wants("mem=4Gi huge=2Gi").memory)

    assert [offer.resource for offer in offers] == [HUGE, "memory"]


def test_a_manager_that_is_off_knows_of_no_memory() -> None:
    assert memory_manager.state(node("mem=1Gi", memory_manager=MemoryManager.NONE)) is None


WIDTHS = [
    ("what is given out counts", HALF, "mem=10Gi", 1),
    ("it takes both", EVEN, "mem=11Gi", 2),
    ("of all names together", PAGES, "mem=12Gi huge=1Gi", 2),
    ("more than there is: all zones", EVEN, "mem=21Gi", 2),
    ("pages that no zone has: all zones", EVEN, "huge=1Gi mem=1Gi", 2),
]


@pytest.mark.parametrize(("told", "asked", "zones"), table(WIDTHS))
def test_the_fewest_zones_that_could_hold_it(told: Node, asked: str, zones: int) -> None:
    assert memory_manager.min_affinity_size(memory_of(told), wants(asked).memory) == zones


ALLOCATED = [
    # what it shows                                  node    asked               affinity taken from
    ("its affinity, if it has room",                  EVEN,   "mem=6Gi",          "10p", 0b10),
    ("a wider set around an affinity without room",   EVEN,   "mem=12Gi",         "1",   0b11),
    ("nothing, if that is not what was promised",     HALF,   "mem=6Gi",          "1p",  None),
    ("a wider set that is what it takes",             EVEN,   "mem=12Gi",         "1p",  0b11),
    ("without an affinity the best there is",         EVEN,   "mem=6Gi",          "-",   0b01),
    ("what is preferred before what is narrow",       GROUP,  "mem=4Gi",          "-",   0b100),
    ("nothing, if the best is not what was promised", HALF,   "mem=6Gi",          "-p",  None),
    ("the best, if nothing was promised",             HALF,   "mem=6Gi",          "-",   0b11),
    ("nothing, if there is too little",               HALF,   "mem=9Gi",          "11",  None),
    ("nothing across a zone with its own block",      SINGLE, "mem=4Gi",          "11",  None),
    ("nothing across the edge of a group",            GROUP,  "mem=4Gi",          "110", None),
    ("a group as it is",                              GROUP,  "mem=4Gi",          "11",  0b11),
    ("one zone of a group is not stopped",            GROUP,  "mem=4Gi",          "1",   0b01),
    ("only a wider set holds the affinity",           GROUP,  "mem=6Gi",          "1",   0b11),
    ("the best there is, as it was promised",         EVEN,   "mem=6Gi",          "-p",  0b01),
    ("nothing of pages that no zone has",             EVEN,   "huge=1Gi mem=1Gi", "1",   None),
]  # fmt: skip


@pytest.mark.parametrize(("told", "asked", "affinity", "mask"), table(ALLOCATED))
def test_memory_is_allocated_from(told: Node, asked: str, affinity: str, mask: int | None) -> None:
    held = memory_manager.allocate(memory_of(told), wants(asked), affinity_of(affinity))

    assert [block.mask for block in held.blocks] == [mask] if held else mask is None


def test_a_block_fills_the_lowest_zone_first_and_groups_all_its_zones() -> None:
    held = after(memory_of(EVEN), "mem=12Gi@01")

    assert gib(held.free["memory"]) == [0, 8]
    assert held.cells == (0b11, 0b11)
    assert held.assignments == (1, 1)


def test_each_name_is_a_block_of_its_own() -> None:
    held = after(memory_of(PAGES), "mem=4Gi huge=2Gi@1")

    assert held.assignments == (0, 2)
    assert (gib(held.free["memory"]), gib(held.free[HUGE])) == ([10, 6], [0, 6])


REUSED = [
    # what it shows                   containers                                     free     once they run
    ("an app uses it again",           "init mem=6Gi@0 | mem=2Gi@0",                  [4, 10], [8, 10]),
    ("an app that needs more",         "init mem=2Gi@0 | mem=6Gi@0",                  [4, 10], [4, 10]),
    ("an app elsewhere takes its own", "init mem=6Gi@0 | mem=2Gi@1",                  [4, 8],  [10, 8]),
    ("by other init containers",       "init mem=6Gi@0 | init mem=7Gi@0 | mem=2Gi@0", [3, 10], [8, 10]),
    ("two apps share it",              "init mem=6Gi@0 | mem=4Gi@0 | mem=4Gi@0",      [2, 10], [2, 10]),
    ("a sidecar's is not used again",  "sidecar mem=6Gi@0 | mem=2Gi@0",               [2, 10], [2, 10]),
    ("it returns to the lowest zone",  "init mem=12Gi@01 | mem=2Gi@01",               [0, 8],  [10, 8]),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "free", "later"), table(REUSED))
def test_what_an_init_container_leaves(containers: str, free: list[int], later: list[int]) -> None:
    held = after(memory_of(EVEN), containers)

    assert gib(held.free["memory"]) == free
    assert gib(memory_manager.containers_started(held).free["memory"]) == later


def test_a_group_ends_with_its_last_block() -> None:
    held = memory_manager.containers_started(after(memory_of(EVEN), "init mem=12Gi@01"))

    assert (held.cells, held.assignments) == ((0b01, 0b10), (0, 0))
    assert held.blocks == ()


def test_a_group_stays_while_a_block_is_on_it() -> None:
    held = memory_manager.containers_started(after(memory_of(EVEN), "init mem=12Gi@01 | mem=2Gi@01"))

    assert (held.cells, held.assignments) == ((0b11, 0b11), (1, 1))
    assert [block.size for block in held.blocks] == [2 * GIB]


def test_what_an_init_container_left_counts_for_hints_of_its_own_zones_alone() -> None:
    held = after(memory_of(EVEN), "init mem=8Gi@0")

    assert written(held, "mem=9Gi") == "1p 10p"


BOTH = [
    # what it shows                        containers                                          blocks
    ("an app",                              "init mem=6Gi@0 | mem=2Gi@0",                       [4, 2]),
    ("a sidecar",                           "init mem=6Gi@0 | sidecar mem=2Gi@0",               [4, 2]),
    ("an app that needs more",              "init mem=2Gi@0 | mem=6Gi@0",                       [0, 6]),
    ("another init container, less",        "init mem=6Gi@0 | init mem=2Gi@0",                  [4, 2]),
    ("and one after that",                  "init mem=6Gi@0 | init mem=2Gi@0 | mem=5Gi@0",      [0, 1, 5]),
    ("of the first block, what it has left", "init mem=3Gi@0 | init mem=5Gi@0 | mem=1Gi@0",      [0, 4, 1]),
    ("not an app elsewhere",                "init mem=6Gi@0 | mem=2Gi@1",                       [6, 2]),
    ("not from wider sets of zones",        "init mem=6Gi@0 | mem=2Gi@01",                      [6, 2]),
    ("not of a sidecar",                    "sidecar mem=6Gi@0 | mem=2Gi@0",                    [6, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "blocks"), table(BOTH))
def test_what_is_used_again_leaves_the_block_of_the_init_container(
    containers: str, blocks: list[int]
) -> None:
    held = memory_of(EVEN)
    for at, container in enumerate(containers.split("|")):
        text, _, zones = container.partition("@")
        step = wants(text)
        block = Block(f"c{at}", step.role, "memory", bits(map(int, zones.strip())), step.memory["memory"])
        held = memory_manager.with_blocks(held, [block])

    assert gib(tuple(block.size for block in held.blocks)) == blocks


LEFT = [
    # what it shows                         containers                              for later ones
    ("all of an init container",             "init mem=6Gi@0",                       6),
    ("of several, as much as of the largest", "init mem=6Gi@0 | init mem=2Gi@0",      6),
    ("whichever comes first",                "init mem=2Gi@0 | init mem=6Gi@0",      6),
    ("less what a sidecar takes",            "init mem=6Gi@0 | sidecar mem=2Gi@0",   4),
    ("less what an app takes",               "init mem=6Gi@0 | mem=2Gi@0",           4),
    ("nothing, if that is more",             "init mem=2Gi@0 | mem=6Gi@0",           0),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "left"), table(LEFT))
def test_what_is_left_for_later_containers(containers: str, left: int) -> None:
    assert after(memory_of(EVEN), containers).reusable[0b01, "memory"] == left * GIB


# Without an affinity (policy none, or single-numa-node without an opinion) hints are made for the container.
DEFAULTS = [
    # what it shows                              before              asked       affinity  taken from
    ("what was left counts, on its own zones",    "init mem=8Gi@0",   "mem=9Gi",  "-",      [1, 10]),
    ("it counts where there is an affinity too",  "init mem=8Gi@0",   "mem=9Gi",  "1p",     [1, 10]),
    ("with all that is free",                    "init mem=8Gi@0",   "mem=10Gi", "-",      [0, 10]),
    ("not across the zone of the other block",    "init mem=8Gi@0",   "mem=12Gi", "-",      None),
    ("of both zones, where they are a group",     "init mem=12Gi@01", "mem=14Gi", "-",      [0, 6]),
    ("not for one of the group",                  "init mem=12Gi@01", "mem=9Gi",  "10p",    None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "asked", "affinity", "free"), table(DEFAULTS))
def test_what_an_init_container_left_is_counted_by_hints_and_not_by_room(
    before: str, asked: str, affinity: str, free: list[int] | None
) -> None:
    held = memory_manager.allocate(after(memory_of(EVEN), before), wants(asked), affinity_of(affinity))

    assert (held and gib(held.free["memory"])) == free


def test_who_asks_for_no_memory_without_an_affinity_is_refused() -> None:
    """The kubelet looks for the best hint, and there is none."""
    [step] = asks("cpu=1 mem=1Gi").steps
    nothing = replace(step, memory=bag(""))

    assert memory_manager.allocate(memory_of(EVEN), nothing, affinity_of("-")) is None
    assert memory_manager.allocate(memory_of(EVEN), nothing, affinity_of("1")) == memory_of(EVEN)


# What two pods of a group, of 12 and 4 GiB, leave when they go: 4 GiB came from zone 1 alone.
GROUPED = "mem=12Gi@01 | mem=4Gi@01"

GONE = [
    # what it shows                            who     free     groups
    ("nobody",                                  [],     [0, 4],  (0b11, 0b11), (2, 2)),
    ("the first gives back from the lowest",    [0],    [10, 6], (0b11, 0b11), (1, 1)),
    ("so does the second, whatever it took",    [1],    [4, 4],  (0b11, 0b11), (1, 1)),
    ("both",                                    [0, 1], [10, 10], (0b01, 0b10), (0, 0)),
    ("both, the other way around",              [1, 0], [10, 10], (0b01, 0b10), (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("who", "free", "cells", "assignments"), table(GONE))
def test_what_a_group_has_left_depends_on_who_goes_first(
    who: list[int], free: list[int], cells: tuple[int, ...], assignments: tuple[int, ...]
) -> None:
    held = after(memory_of(EVEN), GROUPED)
    later = memory_manager.without_blocks(held, [held.blocks[at] for at in who])

    assert gib(later.free["memory"]) == free
    assert (later.cells, later.assignments) == (cells, assignments)


def test_a_block_on_one_zone_of_a_group_can_be_lost() -> None:
    """It takes the zone out of the group, and what the group gives back can be what it holds."""
    grouped = after(memory_of(EVEN), "mem=12Gi@01 | mem=2Gi@01")
    one = memory_manager.without_blocks(grouped, grouped.blocks[:1])
    small = memory_manager.allocate(one, wants("mem=4Gi"), affinity_of("1")) or pytest.fail("too little")
    assert (gib(small.free["memory"]), small.cells) == ([6, 8], (0b01, 0b11))

    last = memory_manager.without_blocks(small, small.blocks[1:])
    assert gib(last.free["memory"]) == [10, 8], "2 GiB of zone 1 belong to nobody"
    assert (last.cells, last.assignments) == ((0b01, 0b10), (0, 0))


def test_zones_that_were_told_without_a_group_are_alone() -> None:
    assert memory_of(EVEN).cells == (0b01, 0b10)
    assert memory_of(GROUP).cells == (0b011, 0b011, 0b100)
    assert memory_of(GROUP).groups == ((0, 0b011), (1, 0b011))
