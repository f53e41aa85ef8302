"""With which configurations a kubelet does not start, each reason at its field."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from numalign.kubelet.validation import CLASHES, Reserved, start_errors
from numalign.model.bitset import bits
from numalign.model.machine import Core, Machine
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.options import CpuOption, Options, TopologyOption
from numalign.model.resources import ZoneId
from tests.worlds.notation import bag, node, table

GIB = 2**30
ZONE = "cpu=8/7 mem=8Gi/7Gi"
NEAR: dict[tuple[int, ...], int] = {(0, 0): 10, (0, 1): 21, (1, 0): 21, (1, 1): 10}


def configured(
    plain: Node, *cpu: CpuOption, closest: Iterable[TopologyOption] = (), sockets: Iterable[int] = ()
) -> Node:
    """The node with these options and, if its sockets are given, with a machine of 8 CPUs a zone."""
    placed = [(zone.id, socket) for zone, socket in zip(plain.zones, sockets, strict=False)]
    cores = [
        Core(zone, socket, 0, bits(range(8 * at, 8 * at + 8))) for at, (zone, socket) in enumerate(placed)
    ]
    ids = tuple(zone.id for zone in plain.zones)
    machine = Machine(ids, tuple(cores), reserved=bits([0])) if cores else None
    return replace(plain, options=Options(frozenset(cpu), frozenset(closest)), machine=machine)


def reserved(memory: int | None = 2 * GIB, **zones: str) -> Reserved:
    """What is reserved by zone, `zone_0="mem=1Gi"`, and in all."""
    return Reserved({ZoneId(int(zone[-1])): bag(text) for zone, text in zones.items()}, memory)


TWO = node(ZONE, ZONE, policy="restricted")
ALL_TOGETHER = (
    CpuOption.FULL_PCPUS_ONLY,
    CpuOption.DISTRIBUTE_ACROSS_NUMA,
    CpuOption.ALIGN_BY_SOCKET,
    CpuOption.STRICT_RESERVATION,
)
CLOSEST = TopologyOption

STARTS = [
    ("no manager at all", node("gpu=1", policy="none")),
    ("every option that goes with others",
        configured(replace(TWO, zones=node(ZONE, ZONE, costs=NEAR).zones), *ALL_TOGETHER,
        closest=CLOSEST, sockets=(0, 1))),
    ("topology options ignored by policy none", node(*[ZONE] * 9, policy="none", max_zones=2)),
    ("unknown distances", configured(TWO, closest=CLOSEST)),
    ("an unknown sum", node(ZONE, ZONE), reserved(None, zone_0="mem=1Gi")),
    ("sums without a memory manager",
        node(ZONE, memory_manager=MemoryManager.NONE), reserved(zone_0="mem=1Gi", zone_7="mem=1Gi")),
    ("reserved CPUs of an unknown machine", node("cpu=8 mem=8Gi")),
]  # fmt: skip


@pytest.mark.parametrize("starts", [pytest.param(row[1:], id=str(row[0])) for row in STARTS])
def test_kubelet_starts_with_a_valid_configuration(starts: tuple[Node] | tuple[Node, Reserved]) -> None:
    assert start_errors(*starts) == []


def on_sockets(*sockets: int) -> Machine:
    """One zone of two CPUs on each of these sockets; the first CPU is reserved."""
    cores = (Core(ZoneId(0), socket, 0, 0b11 << 2 * socket) for socket in sockets)
    return Machine((ZoneId(0),), tuple(cores), reserved=bits([0]))


CPU_OPTIONS, ZONES = "cpuManagerPolicyOptions", "topologyManagerPolicyOptions.max-allowable-numa-nodes"
SUMS = "but kubeReserved, systemReserved and evictionHard reserve"

REFUSED = [
    # what it shows, node and what is reserved
    #     field, reason
    ("options for a CPU manager that is off",
        (configured(node("mem=8Gi/7Gi"), CpuOption.STRICT_RESERVATION, CpuOption.FULL_PCPUS_ONLY),),
        CPU_OPTIONS,
        "the CPU manager's policy none takes no options, not full-pcpus-only, strict-cpu-reservation"),
    ("by socket and in one zone",
        (configured(node(ZONE, policy="single-numa-node"), CpuOption.ALIGN_BY_SOCKET),),
        f"{CPU_OPTIONS}.align-by-socket",
        "it is not compatible with topologyManagerPolicy single-numa-node"),
    ("by socket with more sockets than zones that have CPUs",
        (replace(configured(node(ZONE, policy="restricted"), CpuOption.ALIGN_BY_SOCKET),
        machine=on_sockets(0, 1)),),
        f"{CPU_OPTIONS}.align-by-socket",
        "it is not compatible with a machine whose 2 sockets are more than the 1 zones that have CPUs"),
    ("more zones than by default", (node(*[ZONE] * 9, policy="best-effort"),), ZONES,
        "the machine has 9 zones, and it aligns at most 8"),
    ("fewer zones allowed than can be", (node(ZONE, policy="restricted", max_zones=7),), ZONES,
        "7 is below the minimum of 8"),
    ("closest zones of a machine without distances", (configured(TWO, closest=CLOSEST, sockets=(0, 1)),),
        "topologyManagerPolicyOptions.prefer-closest-numa-nodes",
        "the machine does not report the distances of zone 0, 1"),
    ("no CPU for the system", (replace(node(ZONE), machine=replace(on_sockets(0), reserved=0)),),
         "reservedSystemCPUs", "the CPU manager's policy static needs more than zero CPUs reserved"),
    ("no memory for the system", (configured(node("cpu=8/7 mem=8Gi/6Gi huge=2Gi"), sockets=(0,)),),
         "reservedMemory", "the memory manager's policy Static needs memory reserved on some zone"),
    ("memory of an unknown zone", (node(ZONE), reserved(zone_0="mem=1Gi", zone_3="mem=1Gi")),
         "reservedMemory", "zone 3 does not exist on this machine"),
    ("other sums", (node(ZONE, ZONE), reserved(GIB, zone_0="mem=1Gi", zone_1="mem=512Mi")), "reservedMemory",
        f"the zones reserve 1536Mi of memory, {SUMS} 1Gi"),
    ("hugepages, which no node can keep as a whole", (node(ZONE), reserved(None, zone_0="mem=1Gi huge=1Gi")),
        "reservedMemory", f"the zones reserve 1Gi of hugepages-1Gi, {SUMS} 0"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "where", "reason"), table(REFUSED))
def test_kubelet_does_not_start_with_an_invalid_field(
    given: tuple[Node] | tuple[Node, Reserved], where: str, reason: str
) -> None:
    [mistake] = start_errors(*given)
    assert (mistake.where, mistake.message) == (where, f"the kubelet would not start: {reason}")


@pytest.mark.parametrize("pair", CLASHES, ids=" and ".join)
def test_clashing_options_are_named(pair: tuple[CpuOption, CpuOption]) -> None:
    [mistake] = start_errors(configured(node(ZONE), *pair))
    assert str(mistake) == (
        "cpuManagerPolicyOptions: the kubelet would not start: "
        f"{pair[0]} and {pair[1]} cannot be used at the same time"
    )


def test_every_mistake_is_listed_at_its_field() -> None:
    wrong = configured(
        node(*[ZONE] * 9, policy="single-numa-node"), *CpuOption, closest=TopologyOption, sockets=[0]
    )
    fields = [mistake.where for mistake in start_errors(wrong, reserved(GIB, zone_9="mem=2Gi"))]
    assert fields == [
        *["cpuManagerPolicyOptions"] * len(CLASHES),
        "cpuManagerPolicyOptions.align-by-socket",
        *["reservedMemory"] * 2,
        "topologyManagerPolicyOptions.max-allowable-numa-nodes",
        "topologyManagerPolicyOptions.prefer-closest-numa-nodes",
    ]


def test_disabled_manager_needs_nothing() -> None:
    off = node("gpu=1", cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)
    bare = replace(off, machine=Machine((ZoneId(0),), (Core(ZoneId(0), 0, 0, bits([0])),)))
    assert start_errors(bare, reserved(zone_5="huge=1Gi")) == []
