"""The CPU manager under policy static: its hints, and which CPUs a container gets from which zone."""

from dataclasses import replace

import pytest

from numalign.kubelet import cpu_manager
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.cpu_manager import CpuState
from numalign.kubelet.hint_sets import listed
from numalign.kubelet.topology_manager import ResourceHints
from numalign.model.demand import Step
from numalign.model.machine import Core, cpu_topology, render_list
from numalign.model.node import CpuManager, Node
from numalign.model.options import Options
from tests.worlds.notation import asks, machine, node, options, table, zone_ids

PLAIN = options()
CORES_ONLY = options("full-pcpus-only")
BY_SOCKET = options("align-by-socket")
SHARED = options("distribute-cpus-across-numa")
SPREAD = options("distribute-cpus-across-cores")


def wants(cpus: int, role: str = "") -> Step:
    [step] = asks(f"{role} cpu={cpus} mem=1Gi").steps
    return step


def cpus_of(host: Node) -> CpuState:
    state = cpu_manager.state(host)
    assert state
    return state


def given(before: CpuState, step: Step, inside: int | None = None) -> tuple[CpuState, str]:
    """The CPUs after a container, and those that it got."""
    outcome = cpu_manager.allocate(before, step, inside)
    assert not isinstance(outcome, RejectionReason)
    after, taken = outcome
    return after, render_list(taken)


def written(offers: list[ResourceHints]) -> str:
    """Hints as masks with p for what is preferred: `1p 10p 11`."""
    [offer] = offers
    return " ".join(f"{mask:b}{'p' * (offer.preferred >> mask & 1)}" for mask in listed(offer.possible))


USED = node("cpu=6//4", "cpu=6//6")
RESERVED = node("cpu=16/15", "cpu=16/15")
WIDE = node("cpu=8", "cpu=8", "cpu=8", "cpu=8")
BARE = node("cpu=8/7", "mem=10Gi", "cpu=8")
HIDDEN = node("cpu=8", "mem=10Gi", "cpu=8")


IN_USE = [
    ("in use, with reserved CPUs", node("cpu=16/15/3", "cpu=16/12/0")),
    ("with a zone that lists none", BARE),
    ("with a zone that is all reserved", HIDDEN),
    ("with cores of two threads", node("cpu=8/6/5", "cpu=8", threads=2)),
    ("that is described", machine("cpu=0-3", "cpu=4-7", reserved="0,4")),
]


@pytest.mark.parametrize("host", table(IN_USE))
def test_unused_node_has_all_its_cpus(host: Node) -> None:
    assert cpus_of(host).emptied() == cpus_of(host.emptied())


# The first one restates topology_hints_test.go of the kubelet's CPU manager.
HINTS = [
    # what it shows                            node      cpus hints
    ("one zone is enough, but only one can",     USED,     5,  "10p 11"),
    ("reserved CPUs make one zone look enough",  RESERVED, 16, "11"),
    ("one CPU more, and both are what it takes", RESERVED, 17, "11p"),
    ("a set of zones serves if its sum does",    WIDE,     20, "111p 1011p 1101p 1110p 1111"),
    ("a zone without CPUs is in no hint",        BARE,     7,  "1p 100p 101"),
    ("a zone whose CPUs are all reserved is",    HIDDEN,   8,  "1p 11 100p 101 110 111"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "cpus", "hints"), table(HINTS))
def test_hints_by_zone(host: Node, cpus: int, hints: str) -> None:
    assert written(cpu_manager.topology_hints(cpus_of(host), wants(cpus))) == hints


# Two sockets of two zones each, as topoDualSocketMultiNumaPerSocketHT of the kubelet's tests.
ZONES = [f"cpu={first}-{first + 9},{first + 40}-{first + 49}" for first in range(0, 40, 10)]
PAIRED = machine(*ZONES, threads=2, sockets=(0, 0, 1, 1), free="2-3,11")
BESIDE_BARE = machine("cpu=0-3", "cpu=4-7", "cpu=8-11", "mem=1Gi", sockets=(0, 0, 1, 1))

# The first one restates topology_hints_test.go as well.
BY_SOCKETS = [
    # what it shows, node, cpus, hints with align-by-socket, hints without it
    ("zones of one socket are as good as one", PAIRED, 2, "1p 11p 101 111 1001 1011 1101 1111",
         "1p 11 101 111 1001 1011 1101 1111"),
    ("a socket has as many zones as have CPUs", BESIDE_BARE, 5, "11p 101p 110p 111p", "11p 101p 110p 111"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "cpus", "aligned", "plain"), table(BY_SOCKETS))
def test_hints_by_socket(host: Node, cpus: int, aligned: str, plain: str) -> None:
    assert (
        written(cpu_manager.topology_hints(cpus_of(replace(host, options=BY_SOCKET)), wants(cpus))) == aligned
    )
    assert written(cpu_manager.topology_hints(cpus_of(host), wants(cpus))) == plain


def test_zone_of_several_sockets_is_not_aligned_by_socket() -> None:
    cores = [Core(zone_ids(0)[0], socket, 0, 1 << socket) for socket in (0, 1)]
    layout = cpu_topology(cores, zone_ids(0))

    assert written(cpu_manager.topology_hints(CpuState(layout, BY_SOCKET, 0, 0b11), wants(2))) == "1p"
    assert written(cpu_manager.topology_hints(CpuState(layout, BY_SOCKET, 0, 0b01), wants(1))) == "1p"


def test_assumed_machine_is_charged_in_whole_cpus_once() -> None:
    host = node("cpu=6//4500m", "cpu=6")
    assert cpus_of(host).free.bit_count() == 10
    assert cpu_manager.state(node("cpu=8", cpu_manager=CpuManager.NONE)) is None

    assert cpus_of(replace(host, stock=machine("cpu=0-5", "cpu=6-11", free="0,7").stock)).free == 1 | 1 << 7


TWO = machine("cpu=0-3,8-11", "cpu=4-7,12-15", threads=2)
CACHED = machine("cpu=0-7,16-23", threads=2, caches=("0-3,16-19", "4-7,20-23"), free="2-6,18-22")


def test_since_1_34_one_cache_serves_an_odd_number() -> None:
    by_cache = [options("prefer-align-cpus-by-uncorecache", minor=minor) for minor in (33, 34)]
    taken = [given(cpus_of(replace(CACHED, options=chosen)), wants(5), 0b01)[1] for chosen in by_cache]

    assert taken == ["2-4,18-19", "4-6,20-21"]


# full-pcpus-only: only whole cores, and of the whole node rather than of the affinity.
FOUR = machine("cpu=0-1,4-5", "cpu=2-3,6-7", threads=2, reserved="0", options=CORES_ONLY)
THREAD = machine("cpu=0-1,4-5", "cpu=2-3,6-7", threads=2, reserved="0", free="4", options=CORES_ONLY)

WHOLE = [
    # what it shows                                        node       cpus inside taken, if any
    ("no part of a core",                                 FOUR,   3, 0b10, None),
    ("the core beside the reserved CPU is none",          FOUR,   8, 0b11, None),
    ("all others together are enough",                    FOUR,   6, 0b11, "1-3,5-7"),
    ("the affinity first, even if that is no whole core", FOUR,   4, 0b01, "1-2,4-5"),
    ("only the thread beside the reserved CPU is left",   THREAD, 2, 0b01, None),
]  # fmt: skip


@pytest.mark.parametrize(("host", "cpus", "inside", "taken"), table(WHOLE))
def test_only_whole_cores_are_given_out(host: Node, cpus: int, inside: int | None, taken: str | None) -> None:
    if taken is None:
        assert cpu_manager.allocate(cpus_of(host), wants(cpus), inside) is RejectionReason.SMT_ALIGNMENT
    else:
        assert given(cpus_of(host), wants(cpus), inside)[1] == taken


RESERVING = [
    # what it shows                         options count reserved
    ("whole cores of the lowest zone",       PLAIN,  2,  "0,8"),
    ("a part of a core",                     PLAIN,  3,  "0-1,8"),
    ("as CPUs are spread, if they are",      SPREAD, 2,  "0-1"),
    ("as they are distributed, if they are", SHARED, 10, "0-2,4-6,8-9,12-13"),
]  # fmt: skip


@pytest.mark.parametrize(("chosen", "count", "reserved"), table(RESERVING))
def test_cpus_are_reserved_by_number(chosen: Options, count: int, reserved: str) -> None:
    assert render_list(cpu_manager.reserved_cpus(cpus_of(TWO).topology, chosen, count)) == reserved


DISTRIBUTING = "full-pcpus-only distribute-cpus-across-numa"


def sharing(
    *zones: str, words: str = DISTRIBUTING, minor: int = 37, reserved: str = "8,12", policy: str = "none"
) -> Node:
    """Zones of two cores of two threads each."""
    listed = zones or ("cpu=0-3", "cpu=4-7", "cpu=8-11", "cpu=12-15")
    with_options = options(words, minor=minor)
    return machine(*listed, threads=2, reserved=reserved, policy=policy, options=with_options)


ENDLESS = [
    ("cores are split in two of four zones", sharing(), (2, 3)),
    ("a core is split in one zone only", sharing(reserved="8"), ()),
    ("three zones leave no three cores", sharing("cpu=0-3", "cpu=8-11", "cpu=12-15"), ()),
    ("single threads are taken", sharing(words="distribute-cpus-across-numa"), ()),
    ("CPUs are packed", sharing(words="full-pcpus-only"), ()),
    ("from 1.38 on cores are counted", sharing(minor=38), ()),
    ("unknown cores", node(*["cpu=4/3"] * 4, threads=2, options=options(DISTRIBUTING)), ()),
]  # fmt: skip


@pytest.mark.parametrize(("made", "zones"), table(ENDLESS))
def test_zones_in_which_a_kubelet_may_search_forever(made: Node, zones: tuple[int, ...]) -> None:
    assert cpu_manager.endless(made) == zones
