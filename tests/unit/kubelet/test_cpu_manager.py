"""The CPU manager under policy static; recordings prove its hints and what it gives to containers."""

from dataclasses import replace

import pytest

from numalign.kubelet import cpu_manager
from numalign.kubelet.cpu_manager import CpuState
from numalign.kubelet.hint_sets import listed
from numalign.kubelet.topology_manager import ResourceHints
from numalign.model.demand import Step
from numalign.model.machine import Core, cpu_topology, render_list
from numalign.model.node import CpuManager, Node
from numalign.model.options import Options
from tests.worlds.notation import asks, machine, node, options, table, zone_ids

PLAIN = options()
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


def written(offers: list[ResourceHints]) -> str:
    """Hints as masks with p for what is preferred: `1p 10p 11`."""
    [offer] = offers
    return " ".join(f"{mask:b}{'p' * (offer.preferred >> mask & 1)}" for mask in listed(offer.possible))


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
