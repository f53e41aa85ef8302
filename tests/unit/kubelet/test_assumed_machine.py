"""The machine that is assumed behind counts: cores, sockets, and which CPUs are reserved and free."""

import pytest

from numalign.kubelet import assumed_machine
from numalign.model.machine import render_list
from numalign.model.node import Node
from tests.worlds.notation import Ids, node, options, table

CORES_ONLY = options("full-pcpus-only")


def lists(sets: tuple[int, ...]) -> str:
    """Sets of CPUs, one after another; `-` is an empty one."""
    return " ".join(render_list(held) or "-" for held in sets)


THREADS = [
    # what it shows                            node                                          cores
    ("cores of one thread, by default",        node("cpu=2", "cpu=2"),                       "0 1 2 3"),
    ("of two where cores are given out whole", node("cpu=4", options=CORES_ONLY),            "0-1 2-3"),
    ("the label before that",                  node("cpu=2", options=CORES_ONLY, threads=1), "0 1"),
    ("no core lies across two zones",          node("cpu=3", "cpu=3", threads=2),            "0-1 2 3-4 5"),
    ("a part of a CPU is none",                node("cpu=2500m"),                            "0 1"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "cores"), table(THREADS))
def test_cores_by_label_or_option(host: Node, cores: str) -> None:
    assert lists(assumed_machine.assume(host).topology.cores) == cores


def square(text: str) -> dict[Ids, int]:
    """Distances as in a table, row by row."""
    rows = [list(map(int, row.split())) for row in text.split("|")]
    return {(one, other): cost for one, row in enumerate(rows) for other, cost in enumerate(row)}


SOCKETS = [
    # what it shows                         distances                                 sockets
    ("each zone by itself, if unknown",     None,                                     "0 1 2"),
    ("near zones share one",                square("10 12 32 | 12 10 32 | 32 32 10"), "0-1 2"),
    ("with other ids between them",         square("10 32 12 | 32 10 32 | 12 32 10"), "0,2 1"),
    ("near from 19 down",                   square("10 20 19 | 20 10 20 | 19 20 10"), "0,2 1"),
    ("near to one that is near to another", square("10 11 21 | 11 10 11 | 21 11 10"), "0-2"),
]  # fmt: skip


@pytest.mark.parametrize(("costs", "sockets"), table(SOCKETS))
def test_near_zones_share_a_socket(costs: dict[Ids, int] | None, sockets: str) -> None:
    assert (
        lists(assumed_machine.assume(node("cpu=1", "cpu=1", "cpu=1", costs=costs)).topology.sockets)
        == sockets
    )


HELD = [
    # what it shows                              zones                            reserved free
    ("reserved first",                            ["cpu=4/3", "cpu=4/2"],          "0,4-5", "1-3,6-7"),
    ("free last",                                 ["cpu=4/3/1", "cpu=4/4/2"],      "0",     "3,6-7"),
    ("parts of a CPU are not free",               ["cpu=4/3/2500m"],               "0",     "2-3"),
    ("nor can they be had, so they are reserved", ["cpu=4/3500m"],                 "0",     "1-3"),
    ("a zone without CPUs",                       ["cpu=4/3", "mem=1Gi", "cpu=2"], "0",     "1-5"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "reserved", "free"), table(HELD))
def test_reserved_cpus_are_first_and_free_ones_last(zones: list[str], reserved: str, free: str) -> None:
    host = node(*zones)
    laid, cpus = assumed_machine.assume(host)
    assert render_list(cpus) == reserved
    assert render_list(assumed_machine.free_cpus(host, laid)) == free


HIDDEN = [
    # what it shows                                 zones                             all, reserved
    ("some CPU is always reserved, so it is there",   ["mem=1Gi", "cpu=4"],            "0-3 4-7",   "0-3"),
    ("in the first zone that lists none",             ["mem=1Gi", "cpu=2", "mem=1Gi"], "0-1 2-3 -", "0-1"),
    ("not if some are reserved elsewhere",            ["mem=1Gi", "cpu=4/3"],          "- 0-3",     "0"),
    ("not if the zone lists zero",                    ["cpu=0", "cpu=4"],              "- 0-3",     ""),
    ("not if no zone lists any",                      ["mem=1Gi", "mem=1Gi"],          "- -",       ""),
    ("a zone with no CPU at all is not the smallest", ["cpu=0", "cpu=4", "mem=1Gi"],   "- 0-3 4-7", "4-7"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "all_of_them", "reserved"), table(HIDDEN))
def test_zone_without_listed_cpus_is_all_reserved(zones: list[str], all_of_them: str, reserved: str) -> None:
    host = node(*zones)
    laid, cpus = assumed_machine.assume(host)
    assert lists(laid.zones) == all_of_them
    assert render_list(cpus) == reserved
    assert assumed_machine.free_cpus(host, laid) & cpus == 0


@pytest.mark.parametrize(("cpus", "cached"), [(96, True), (8000, False)])
def test_few_large_machines_are_cached(cpus: int, *, cached: bool) -> None:
    hosts = [node(f"cpu={cpus + at}") for at in range(10)]
    first = assumed_machine.assume(hosts[0])
    for host in hosts:
        assumed_machine.assume(host)
    assert (assumed_machine.assume(hosts[0]) is first) == cached
