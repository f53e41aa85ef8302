"""The CPU manager under policy static: its hints, and how many CPUs come from which zone."""

import pytest

from numalign.rules.demand import Step
from numalign.rules.kubelet import cpu
from numalign.rules.kubelet.merge import Offer
from numalign.rules.kubelet.pool import Pool
from numalign.rules.topology import CpuManager, Node
from tests.notation import asks, node, table


def wants(cpus: int, role: str = "") -> Step:
    [step] = asks(f"{role} cpu={cpus} mem=1Gi").steps
    return step


def pool_of(told: Node) -> Pool:
    found = cpu.of(told)
    assert found
    return found


def written(offers: list[Offer]) -> str:
    """Hints as masks with p for what is preferred: `1p 2p 3`."""
    [offer] = offers
    return " ".join(f"{mask:b}{'p' * (mask in offer.preferred)}" for mask in offer.possible)


USED = node("cpu=6//4", "cpu=6//6")
RESERVED = node("cpu=16/15", "cpu=16/15")
WIDE = node("cpu=8", "cpu=8", "cpu=8", "cpu=8")
BARE = node("cpu=8", "mem=10Gi", "cpu=8")

# The first four restate topology_hints_test.go of the kubelet's CPU manager.
HINTS = [
    # what it shows                             node      cpus hints
    ("one zone is enough, and either can",       USED,     2,  "1p 10p 11"),
    ("one zone is enough, but only one can",     USED,     5,  "10p 11"),
    ("it takes both",                            USED,     7,  "11p"),
    ("too few are free: impossible",             USED,     11, ""),
    ("reserved CPUs make one zone look enough",  RESERVED, 16, "11"),
    ("one CPU more, and both are what it takes", RESERVED, 17, "11p"),
    ("more than the hardware has: impossible",   RESERVED, 33, ""),
    ("a set of zones serves if its sum does",    WIDE,     20, "111p 1011p 1101p 1110p 1111"),
    ("a zone without CPUs is in no hint",        BARE,     8,  "1p 100p 101"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "cpus", "hints"), table(HINTS))
def test_hints(told: Node, cpus: int, hints: str) -> None:
    assert written(cpu.offers(pool_of(told), wants(cpus))) == hints


def test_who_asks_for_no_cpu_of_its_own_gives_no_hint() -> None:
    [step] = asks("cpu=500m mem=1Gi").steps

    assert cpu.offers(pool_of(USED), step) == []


def test_a_manager_that_is_off_knows_of_no_cpu() -> None:
    assert cpu.of(node("cpu=8", cpu_manager=CpuManager.NONE)) is None


def test_parts_of_a_cpu_cannot_be_given_out() -> None:
    assert pool_of(node("cpu=8//7500m")).free == (7000,)


def test_what_an_init_container_left_holds_later_containers_to_its_zones() -> None:
    after, _ = cpu.allocate(pool_of(node("cpu=8", "cpu=8")), wants(2, "init"), 0b01) or pytest.fail("too few")

    assert written(cpu.offers(after, wants(8))) == "1p 11"
    assert written(cpu.offers(after, wants(9))) == "11p"


WIDTHS = [
    ("busy and reserved CPUs count", (8, 8), 8, 1),
    ("several zones", (8, 8), 9, 2),
    ("zones without CPUs do not", (8, 0, 8), 16, 2),
    ("more than there is: all zones with CPUs", (8, 0, 8), 17, 2),
]


@pytest.mark.parametrize(("total", "cpus", "zones"), table(WIDTHS))
def test_the_fewest_zones_by_hardware(total: tuple[int, ...], cpus: int, zones: int) -> None:
    assert cpu.width(total, cpus) == zones


TAKEN = [
    # what it shows                              node                             cpus inside  taken
    ("inside the affinity",                       node("cpu=16", "cpu=16"),        4,  0b10,   (0, 4)),
    ("a whole zone before the fuller one",        node("cpu=16//16", "cpu=16//6"), 18, 0b11,   (16, 2)),
    ("else the fuller zone first",                node("cpu=16//14", "cpu=16//6"), 18, 0b11,   (12, 6)),
    ("equally full zones by their ids",           node("cpu=16/15", "cpu=16/15"),  17, 0b11,   (15, 2)),
    ("a zone with a reserved CPU is never whole", node("cpu=16/15", "cpu=16"),     17, 0b11,   (1, 16)),
    ("what the affinity lacks from anywhere",     node("cpu=16//4", "cpu=16"),     10, 0b01,   (4, 6)),
    ("without an affinity by the same rules",     node("cpu=16//4", "cpu=16//6"),  5,  None,   (4, 1)),
    ("several whole zones",                       WIDE,                            20, 0b0111, (8, 8, 4, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("told", "cpus", "inside", "taken"), table(TAKEN))
def test_cpus_are_taken(told: Node, cpus: int, inside: int | None, taken: tuple[int, ...]) -> None:
    before = pool_of(told)
    after, found = cpu.allocate(before, wants(cpus), inside) or pytest.fail("too few")

    assert found == tuple(count * 1000 for count in taken)
    assert tuple(map(sum, zip(after.free, found, strict=True))) == before.free


def test_too_few_cpus_on_all_zones_cannot_be_allocated() -> None:
    assert cpu.allocate(pool_of(USED), wants(11), None) is None


def test_an_app_takes_the_cpus_of_an_init_container_again() -> None:
    after, _ = cpu.allocate(pool_of(USED), wants(4, "init"), 0b01) or pytest.fail("too few")
    last, taken = cpu.allocate(after, wants(4), 0b01) or pytest.fail("too few")

    assert taken == (4000, 0)
    assert (last.free, last.reusable) == ((0, 6000), (0, 0))
