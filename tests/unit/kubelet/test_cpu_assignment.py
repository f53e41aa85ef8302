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
from numalign.model.options import OLDEST, PRE_RELEASE
from tests.worlds.notation import options, zone_ids


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


PACKED, SPREAD, BY_CACHE = (
    StaticPolicyOptions(),
    StaticPolicyOptions(spread=True),
    StaticPolicyOptions(by_cache=True),
)
EVENLY, IN_CORES = StaticPolicyOptions(distribute=True), StaticPolicyOptions(distribute=True, group=2)


# Recorded: see data/README.md.

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    gzip.decompress((Path(__file__).parent / "data" / "take.json.gz").read_bytes())
)
MINORS = {"1.32": 32, "1.34": 34}


def recorded_layout(told: dict[str, Any]) -> CpuTopology:
    return cpu_topology(
        [Core(zone, socket, cache, read_list(held)) for zone, socket, cache, held in told["cores"]],
        zone_ids(*told["zones"]),
    )


@pytest.mark.parametrize("case", RECORDED["cases"], ids=map(str, range(len(RECORDED["cases"]))))
@pytest.mark.parametrize("version", MINORS)
def test_real_cpu_managers_take_the_same(case: dict[str, Any], version: str) -> None:
    strategy = StaticPolicyOptions(**case["options"], changes=options(minor=MINORS[version]).changes)
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
    by_socket=st.booleans(),
    changes=st.sampled_from([options(minor=minor).changes for minor in range(OLDEST, PRE_RELEASE + 1)]),
)


@given(asked(), strategies)
def test_take_returns_the_requested_number_of_free_cpus(
    question: tuple[CpuTopology, CpuSet, int], strategy: StaticPolicyOptions
) -> None:
    layout, available, count = question

    taken = take_by_topology(layout, available, count, strategy)

    assert taken & ~available == 0
    assert taken.bit_count() == count


@given(asked(), strategies)
def test_take_all_cpus_and_not_more(
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
def test_whole_cores_are_distributed_evenly(
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
def test_distribution_differs_by_at_most_one_group(layout: CpuTopology, count: int) -> None:
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
