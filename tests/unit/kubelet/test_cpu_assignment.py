"""Which CPUs are taken: recorded answers of real CPU managers, and laws."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet.cpu_assignment import StaticPolicyOptions, take_by_topology
from numalign.model.bitset import bits, members
from numalign.model.machine import Core, CpuSet, CpuTopology, cpu_topology, read_list, render_list
from numalign.model.options import OLDEST, PRE_RELEASE
from tests.worlds.notation import machine, options, zone_ids

PACKED, EVENLY = StaticPolicyOptions(), StaticPolicyOptions(distribute=True)


# Recorded: see data/README.md.

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    gzip.decompress((Path(__file__).parent / "data" / "take.json.gz").read_bytes())
)
MINORS = {"1.32": 32, "1.34": 34}


def recorded_layout(written: dict[str, Any]) -> CpuTopology:
    return cpu_topology(
        [Core(zone, socket, cache, read_list(cpus)) for zone, socket, cache, cpus in written["cores"]],
        zone_ids(*written["zones"]),
    )


CASES = [
    pytest.param(case, id=f"{at}", marks=pytest.mark.full if at % 10 else ())
    for at, case in enumerate(RECORDED["cases"])
]


@pytest.mark.parametrize("case", CASES)
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
    sets = [bits(core + thread * total for core in zone for thread in range(threads)) for zone in each]
    joined = draw(st.sampled_from((1, 2))) if zones > 1 else 1
    sockets = [at // joined for at in range(zones)]
    made = machine(*(f"cpu={render_list(cpus)}" for cpus in sets), threads=threads, sockets=sockets).machine
    assert made
    return made.topology


@st.composite
def takes(draw: st.DrawFn) -> tuple[CpuTopology, CpuSet, int]:
    """A machine, what of it is available, and how much of that is taken."""
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


@given(takes(), strategies)
def test_take_returns_the_requested_number_of_free_cpus(
    question: tuple[CpuTopology, CpuSet, int], strategy: StaticPolicyOptions
) -> None:
    layout, available, count = question
    taken = take_by_topology(layout, available, count, strategy)
    assert taken & ~available == 0
    assert taken.bit_count() == count


@given(takes(), strategies)
def test_all_cpus_can_be_taken_and_no_more(
    question: tuple[CpuTopology, CpuSet, int], strategy: StaticPolicyOptions
) -> None:
    layout, available, _ = question
    assert take_by_topology(layout, available, available.bit_count(), strategy) == available
    assert take_by_topology(layout, available, available.bit_count() + 1, strategy) == 0


@given(takes())
def test_packing_splits_no_core_beside_a_whole_one(question: tuple[CpuTopology, CpuSet, int]) -> None:
    layout, available, count = question
    whole = [core for core in layout.cores if core & available == core]
    taken = take_by_topology(layout, available, count, PACKED)
    assert sum(core & taken == core for core in whole) >= min(len(whole), count // layout.threads_per_core)


@given(machines(), st.integers(1, 48))
def test_distribution_differs_by_at_most_one_group(layout: CpuTopology, count: int) -> None:
    taken = take_by_topology(layout, layout.everything, min(count, layout.everything.bit_count()), EVENLY)
    shares = [share for zone in layout.zones if (share := (zone & taken).bit_count())]
    assert max(shares) - min(shares) <= 1


@given(takes(), strategies, st.integers(1, 5))
def test_only_the_order_of_cpu_ids_matters(
    question: tuple[CpuTopology, CpuSet, int], strategy: StaticPolicyOptions, gap: int
) -> None:
    layout, available, count = question

    def renamed(cpus: CpuSet) -> CpuSet:
        return bits(cpu * gap + gap for cpu in members(cpus))

    far = CpuTopology(
        *(tuple(map(renamed, units)) for units in (layout.zones, layout.sockets, layout.caches, layout.cores))
    )

    assert take_by_topology(far, renamed(available), count, strategy) == renamed(
        take_by_topology(layout, available, count, strategy)
    )
