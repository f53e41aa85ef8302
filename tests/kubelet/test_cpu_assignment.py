"""
Which CPUs are taken: examples, recorded answers of real CPU managers, and laws.

A machine is written zone by zone. The cores of a zone are its CPUs side by side: under `threads=2`, zone
`0-3,8-11` has the cores 0+8, 1+9, 2+10 and 3+11. If nothing else is said, a zone is a socket and a cache.
"""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet.cpu_assignment import StaticPolicyOptions, take_by_topology
from numalign.model.bitset import bits, members
from numalign.model.machine import Core, CpuSet, CpuTopology, cpu_topology, read_list, render_list
from tests.notation import table, zone_ids


def machine(
    *zones: str, threads: int = 1, sockets: Iterable[int] = (), caches: Iterable[str] = ()
) -> CpuTopology:
    """The layout of these zones; `sockets` tells the one of each zone, `caches` the CPUs of each cache."""
    each = [(read_list(zone), at) for at, zone in enumerate(zones)]
    socket = dict(enumerate(sockets)) or {at: at for _, at in each}
    cache = [read_list(text) for text in caches] or [held for held, _ in each]
    cores = [(at, core) for held, at in each for core in cores_of(held, threads)]
    return cpu_topology(
        [
            Core(zone_ids(at)[0], socket[at], next(i for i, held in enumerate(cache) if held & core), core)
            for at, core in cores
        ],
        zone_ids(*range(len(zones))),
    )


def cores_of(held: CpuSet, threads: int) -> list[CpuSet]:
    each = list(members(held))
    count = len(each) // threads
    return [bits(each[first::count]) for first in range(count)]


TWO = machine("0-3,8-11", "4-7,12-15", threads=2)
PLAIN = machine("0-7", "8-15")
HALVED = machine("0-3", "4-7", "8-11", "12-15", sockets=(0, 0, 1, 1))
CACHED = machine("0-7,16-23", "8-15,24-31", threads=2, caches=("0-3,16-19", "4-7,20-23", "8-15,24-31"))
UNEVEN = machine("0-2", "3-7", sockets=(0, 1))
CROSSED = machine("0-5", "6-11", caches=("0-3", "4-7", "8-11"))
THREES = machine("0-5", "6-11", "12-17", "18-23", threads=2)
EIGHT = machine(*(f"{first}-{first + 3}" for first in range(0, 32, 4)))

ALL = "0-31"
LESS = "0-3,5-7,8-11,13-15"
SPLIT = "1-3,5-7,8-11,13-15"
PARTS = "2-3,4-6,9,18-19,20-22"
ODD = "0-4,6-10,12-13,15-16,18-19,21-22"
PACKED, SPREAD, BY_CACHE = (
    StaticPolicyOptions(),
    StaticPolicyOptions(spread=True),
    StaticPolicyOptions(by_cache=True),
)
OLD_CACHE = StaticPolicyOptions(by_cache=True, odd_cache_share=False)
EVENLY, IN_CORES = StaticPolicyOptions(distribute=True), StaticPolicyOptions(distribute=True, group=2)

EXAMPLES = [
    # what it shows                              machine  available    asked strategy  taken
    ("whole cores, the lowest first",             TWO,     ALL,         4,  PACKED,    "0-1,8-9"),
    ("the zone with less left is used up first",  TWO,     LESS,        4,  PACKED,    "5-6,13-14"),
    ("a free zone is taken whole before that",    TWO,     LESS,        10, PACKED,    "0-3,5,8-11,13"),
    ("a zone that is broken into is not whole",   TWO,     SPLIT,       8,  PACKED,    "1,5-7,9,13-15"),
    ("a split core gives its thread first",       TWO,     "0-3,9-11",  1,  PACKED,    "0"),
    ("but not before whole cores",                TWO,     "0-3,9-11",  3,  PACKED,    "0-1,9"),
    ("an odd thread splits a core",               TWO,     ALL,         3,  PACKED,    "0-1,8"),
    ("one whole core rather than two halves",     TWO,     "0-1,4,12",  2,  PACKED,    "4,12"),
    ("a whole socket before its zones",           HALVED,  "0-3,8-15",  8,  PACKED,    "8-15"),
    ("zones in the order of their sockets",       HALVED,  "0-1,4-15",  5,  PACKED,    "0,4-7"),
    ("spread over the cores",                     TWO,     ALL,         6,  SPREAD,    "0-3,8-9"),
    ("but a whole zone is a whole zone",          TWO,     ALL,         8,  SPREAD,    "0-3,8-11"),
    ("spread goes by sockets, not by zones",      HALVED,  "1-3,6-15",  3,  SPREAD,    "1-3"),
    ("where packing goes by zones",               HALVED,  "1-3,6-15",  3,  PACKED,    "1,6-7"),
    ("a whole cache",                             CACHED,  "1-31",      8,  BY_CACHE,  "4-7,20-23"),
    ("without the option, the lowest cores",      CACHED,  "1-31",      8,  PACKED,    "1-4,17-20"),
    ("the rest in one cache",                     CACHED,  PARTS,       6,  BY_CACHE,  "4-6,20-22"),
    ("an odd number in one cache",                CACHED,  PARTS,       5,  BY_CACHE,  "4-6,20-21"),
    ("an odd number, before 1.34",                CACHED,  PARTS,       5,  OLD_CACHE, "2-3,9,18-19"),
    ("no cache has it all",                       CACHED,  PARTS,       8,  BY_CACHE,  "2-5,18-21"),
    ("one zone does, so nothing is distributed",  PLAIN,   ALL,         6,  EVENLY,    "0-5"),
    ("half from each",                            PLAIN,   ALL,         10, EVENLY,    "0-4,8-12"),
    ("one more from the first",                   PLAIN,   ALL,         11, EVENLY,    "0-5,8-12"),
    ("unless the other has more",                 PLAIN,   "0-6,8-15",  11, EVENLY,    "0-4,8-13"),
    ("one zone has too little for a half",        PLAIN,   "0-2,8-15",  10, EVENLY,    "0-1,8-15"),
    ("whole cores from each",                     TWO,     ALL,         10, IN_CORES,  "0-2,4-5,8-10,12-13"),
    ("not a number of whole cores",               TWO,     ALL,         9,  IN_CORES,  "0-3,4,8-11"),
    ("three of four zones",                       HALVED,  ALL,         9,  EVENLY,    "0-2,4-6,8-10"),
    ("the fourth of four zones is written over",  EIGHT,   ALL,         16, EVENLY,    "0-11,28-31"),
    ("a socket is whole by the average",          UNEVEN,  "1-2,4-7",   5,  PACKED,    "3-7"),
    ("a cache over two zones counts twice",       CROSSED, "1-10",      8,  BY_CACHE,  "4-7"),
    ("nothing asked",                             TWO,     ALL,         0,  PACKED,    ""),
    ("too few",                                   TWO,     "0-3",       5,  PACKED,    ""),
    ("too few to distribute",                     TWO,     "0-3",       5,  EVENLY,    ""),
    ("the kubelet never comes back",              THREES,  ODD,         14, IN_CORES,  ""),
    ("nothing there",                             TWO,     "",          1,  PACKED,    ""),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "available", "count", "strategy", "taken"), table(EXAMPLES))
def test_example(
    layout: CpuTopology, available: str, count: int, strategy: StaticPolicyOptions, taken: str
) -> None:
    held = read_list(available) & layout.everything

    assert render_list(take_by_topology(layout, held, count, strategy)) == render_list(read_list(taken))


# Recorded: see data/README.md.

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    gzip.decompress((Path(__file__).parent / "data" / "take.json.gz").read_bytes())
)
ODD_SHARES = {"1.32": False, "1.34": True}


def recorded_layout(told: dict[str, Any]) -> CpuTopology:
    return cpu_topology(
        [Core(zone, socket, cache, read_list(held)) for zone, socket, cache, held in told["cores"]],
        zone_ids(*told["zones"]),
    )


@pytest.mark.parametrize("case", RECORDED["cases"], ids=map(str, range(len(RECORDED["cases"]))))
@pytest.mark.parametrize("version", ODD_SHARES)
def test_real_cpu_managers_take_the_same(case: dict[str, Any], version: str) -> None:
    strategy = StaticPolicyOptions(**case["options"], odd_cache_share=ODD_SHARES[version])
    layout = recorded_layout(RECORDED["machines"][case["machine"]])

    taken = take_by_topology(layout, read_list(case["available"]), case["count"], strategy)

    assert render_list(taken) == (case["taken"][version] or "")


# Laws, for machines of equal cores and sockets, where no CPU is ever taken that was not available.


@st.composite
def machines(draw: st.DrawFn) -> CpuTopology:
    """Up to six zones of as many cores, side by side or in turn, alone in their sockets or two in one."""
    zones, cores, threads = (draw(st.sampled_from(each)) for each in ((1, 2, 4, 6), (1, 2, 3, 4), (1, 2)))
    total, together = zones * cores, draw(st.booleans())
    each = [
        range(zone * cores, (zone + 1) * cores) if together else range(zone, total, zones)
        for zone in range(zones)
    ]
    held = [bits(core + thread * total for core in zone for thread in range(threads)) for zone in each]
    joined = draw(st.sampled_from((1, 2))) if zones > 1 else 1
    return machine(*map(render_list, held), threads=threads, sockets=(at // joined for at in range(zones)))


@st.composite
def asked(draw: st.DrawFn) -> tuple[CpuTopology, CpuSet, int]:
    """A machine, what of it is available, and how much of that is asked for."""
    layout = draw(machines())
    everything = layout.everything
    available = draw(st.sampled_from([everything, draw(st.integers(0, everything)) & everything]))
    return layout, available, draw(st.integers(0, available.bit_count()))


strategies = st.builds(
    StaticPolicyOptions,
    distribute=st.booleans(),
    spread=st.booleans(),
    by_cache=st.booleans(),
    odd_cache_share=st.booleans(),
)


@given(asked(), strategies)
def test_as_many_as_asked_are_taken_of_what_is_available(
    question: tuple[CpuTopology, CpuSet, int], strategy: StaticPolicyOptions
) -> None:
    layout, available, count = question

    taken = take_by_topology(layout, available, count, strategy)

    assert taken & ~available == 0
    assert taken.bit_count() == count


@given(asked(), strategies)
def test_whoever_asks_for_everything_gets_it_and_nobody_gets_more(
    question: tuple[CpuTopology, CpuSet, int], strategy: StaticPolicyOptions
) -> None:
    layout, available, _ = question

    assert take_by_topology(layout, available, available.bit_count(), strategy) == available
    assert take_by_topology(layout, available, available.bit_count() + 1, strategy) == 0


@given(asked())
def test_packing_splits_no_core_while_there_is_a_whole_one(question: tuple[CpuTopology, CpuSet, int]) -> None:
    layout, available, count = question
    whole = [core for core in layout.cores if core & available == core]

    taken = take_by_topology(layout, available, count, PACKED)

    kept_whole = sum(core & taken == core for core in whole)
    assert kept_whole >= min(len(whole), count // layout.threads_per_core)


@given(asked())
def test_whole_cores_are_distributed_where_there_are_only_whole_ones(
    question: tuple[CpuTopology, CpuSet, int],
) -> None:
    layout, available, count = question
    threads = layout.threads_per_core
    whole = bits(cpu for core in layout.cores if core & available == core for cpu in members(core))
    count = min(count, whole.bit_count()) // threads * threads

    taken = take_by_topology(layout, whole, count, StaticPolicyOptions(distribute=True, group=threads))

    assert taken.bit_count() == count
    assert all(core & taken in (0, core) for core in layout.cores)


@given(machines(), st.integers(1, 48))
def test_on_an_empty_machine_no_zone_gives_more_than_one_group_more_than_another(
    layout: CpuTopology, count: int
) -> None:
    taken = take_by_topology(layout, layout.everything, min(count, layout.everything.bit_count()), EVENLY)

    shares = [share for zone in layout.zones if (share := (zone & taken).bit_count())]
    assert max(shares) - min(shares) <= 1


@given(asked(), strategies, st.integers(1, 5))
def test_names_do_not_matter_only_their_order(
    question: tuple[CpuTopology, CpuSet, int], strategy: StaticPolicyOptions, gap: int
) -> None:
    layout, available, count = question

    def renamed(held: CpuSet) -> CpuSet:
        return bits(cpu * gap + gap for cpu in members(held))

    far = CpuTopology(
        *(tuple(map(renamed, units)) for units in (layout.zones, layout.sockets, layout.caches, layout.cores))
    )

    assert take_by_topology(far, renamed(available), count, strategy) == renamed(
        take_by_topology(layout, available, count, strategy)
    )
