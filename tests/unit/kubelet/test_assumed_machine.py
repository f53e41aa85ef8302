"""The machine that is assumed behind counts: cores, sockets, and which CPUs are reserved and free."""

import pytest

from numalign.kubelet import assumed_machine
from numalign.lru import MOST_BYTES
from numalign.model.machine import render_list
from numalign.model.node import Node
from tests.worlds.notation import Ids, node, options, table

CORES_ONLY = options("full-pcpus-only")


def lists(sets: tuple[int, ...]) -> str:
    """Sets of CPUs, one after another; `-` is an empty one."""
    return " ".join(render_list(held) or "-" for held in sets)


THREADS = [
    # what it shows                              node                                        cores
    ("cores of one thread, by default",           node("cpu=2", "cpu=2"),                     "0 1 2 3"),
    ("of as many as the label says",              node("cpu=4", "cpu=4", threads=4),          "0-3 4-7"),
    ("of two where cores are given out whole",    node("cpu=4", options=CORES_ONLY),          "0-1 2-3"),
    ("the label before that",                     node("cpu=2", options=CORES_ONLY, threads=1), "0 1"),
    ("no core lies across two zones",             node("cpu=3", "cpu=3", threads=2),          "0-1 2 3-4 5"),
    ("a part of a CPU is none",                   node("cpu=2500m"),                          "0 1"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "cores"), table(THREADS))
def test_cores(told: Node, cores: str) -> None:
    assert lists(assumed_machine.assume(told).topology.cores) == cores


def square(text: str) -> dict[Ids, int]:
    """Distances as they stand in a table, row by row."""
    rows = [list(map(int, row.split())) for row in text.split("|")]
    return {(here, there): cost for here, row in enumerate(rows) for there, cost in enumerate(row)}


SOCKETS = [
    # what it shows                             distances                                     sockets
    ("each zone by itself, if nobody told",      None,                                         "0 1 2"),
    ("remote zones have sockets of their own",   square("10 21 21 | 21 10 21 | 21 21 10"),     "0 1 2"),
    ("near zones share one",                     square("10 12 32 | 12 10 32 | 32 32 10"),     "0-1 2"),
    ("whatever lies between their ids",          square("10 32 12 | 32 10 32 | 12 32 10"),     "0,2 1"),
    ("near from 19 down",                        square("10 20 19 | 20 10 20 | 19 20 10"),     "0,2 1"),
    ("all of them",                              square("10 11 12 | 11 10 11 | 12 11 10"),     "0-2"),
    ("near to one that is near to another",      square("10 11 21 | 11 10 11 | 21 11 10"),     "0-2"),
]  # fmt: skip


@pytest.mark.parametrize(("costs", "sockets"), table(SOCKETS))
def test_sockets_are_read_off_the_distances(costs: dict[Ids, int] | None, sockets: str) -> None:
    assert (
        lists(assumed_machine.assume(node("cpu=1", "cpu=1", "cpu=1", costs=costs)).topology.sockets)
        == sockets
    )


HELD = [
    # what it shows                              zones                            reserved free
    ("reserved first",                            ["cpu=4/3", "cpu=4/2"],          "0,4-5", "1-3,6-7"),
    ("free last",                                 ["cpu=4/3/1", "cpu=4/4/2"],      "0",     "3,6-7"),
    ("nothing free",                              ["cpu=4/3/0", "cpu=4/3/0"],      "0,4",   ""),
    ("parts of a CPU are not free",               ["cpu=4/3/2500m"],               "0",     "2-3"),
    ("nor can they be had, so they are reserved", ["cpu=4/3500m"],                 "0",     "1-3"),
    ("a zone without CPUs",                       ["cpu=4/3", "mem=1Gi", "cpu=2"], "0",     "1-5"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "reserved", "free"), table(HELD))
def test_reserved_cpus_stand_first_and_free_ones_last(zones: list[str], reserved: str, free: str) -> None:
    told = node(*zones)
    laid, kept = assumed_machine.assume(told)

    assert render_list(kept) == reserved
    assert render_list(assumed_machine.free_cpus(told, laid)) == free


HIDDEN = [
    # what it shows                                 zones                             all, reserved
    ("some CPU is always reserved, so it is there",   ["mem=1Gi", "cpu=4"],             "0-3 4-7", "0-3"),
    ("as many as the smallest other zone has",        ["cpu=4", "cpu=2", "mem=1Gi"],    "0-3 4-5 6-7", "6-7"),
    ("in the first zone that lists none",             ["mem=1Gi", "cpu=2", "mem=1Gi"],  "0-1 2-3 -", "0-1"),
    ("not if some are reserved elsewhere",            ["mem=1Gi", "cpu=4/3"],           "- 0-3", "0"),
    ("not if the zone says that it has none",         ["cpu=0", "cpu=4"],               "- 0-3", ""),
    ("not if no zone lists any",                      ["mem=1Gi", "mem=1Gi"],           "- -", ""),
    ("a zone with no CPU at all is not the smallest", ["cpu=0", "cpu=4", "mem=1Gi"],    "- 0-3 4-7", "4-7"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "all_of_them", "reserved"), table(HIDDEN))
def test_a_zone_that_is_reserved_as_a_whole_is_not_listed(
    zones: list[str], all_of_them: str, reserved: str
) -> None:
    told = node(*zones)
    laid, kept = assumed_machine.assume(told)

    assert lists(laid.zones) == all_of_them
    assert render_list(kept) == reserved
    assert assumed_machine.free_cpus(told, laid) & kept == 0


@pytest.mark.full
def test_large_machines_are_remembered_by_their_bytes() -> None:
    """Whoever may write topologies writes as many as he likes, of as many CPUs as Linux knows."""
    for at in range(15):
        assumed_machine.assume(node(f"cpu={8000 + at}"))

    remembered = assumed_machine.remembered()
    assert (1 < len(remembered) < 15, remembered.bytes <= 2 * MOST_BYTES) == (True, True)
