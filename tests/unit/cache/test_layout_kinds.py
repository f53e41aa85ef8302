"""Layouts are told apart by what a question turns on, and by nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from numalign.cache.layout_kinds import LayoutKind, LayoutKinds, Trait
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.worlds.in_columns import columns, layout, zone_table
from tests.worlds.notation import GPU, NIC, bag, node, options, table

ASKED = frozenset({CPU, GPU})
STRICT = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy="restricted")
LOOSE = replace(STRICT, policy=node(policy="none").policy)
HIDDEN = replace(
    STRICT, zones=tuple(replace(zone, allocatable=bag("cpu=8"), free=bag("")) for zone in STRICT.zones)
)


def kinds(*nodes: Node) -> LayoutKinds:
    """The kinds of nodes to who asks for CPUs and GPUs."""
    return LayoutKinds(columns(*nodes), ASKED)


# Which kinds there are.


@pytest.mark.parametrize(
    "other",
    table(
        [
            ("how much there is", node("cpu=4 mem=1Gi gpu=1", "cpu=4 mem=1Gi gpu=1", policy="restricted")),
            ("ids of zones", node(*["cpu=8 mem=8Gi gpu=2"] * 2, ids=(0, 3), policy="restricted")),
            ("a resource that is not asked for", node("cpu=8 mem=8Gi gpu=2 nic=1", "", policy="restricted")),
            (
                "how far apart zones are",
                node(*["cpu=8 mem=1Gi gpu=2"] * 2, costs={(0, 1): 20}, policy="restricted"),
            ),
        ]
    ),
)
def test_nodes_that_differ_in_this_are_of_one_kind(other: Node) -> None:
    assert len(kinds(STRICT, other).kinds) == 1


@pytest.mark.parametrize(
    "other",
    table(
        [
            ("the policy", LOOSE),
            ("a manager", replace(STRICT, cpu_manager=CpuManager.NONE)),
            ("a device that is asked for", node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted")),
            ("what zones may give", HIDDEN),
            ("whether totals are told", replace(STRICT, totals=bag("cpu=16 gpu=4"))),
            ("threads of cores", replace(STRICT, threads=2)),
        ]
    ),
)
def test_nodes_that_differ_in_this_are_of_two_kinds(other: Node) -> None:
    assert len(kinds(STRICT, other).kinds) == 2


def test_a_kind_tells_of_what_is_asked_for_alone() -> None:
    kind = LayoutKind.of(layout(replace(STRICT, cpu_manager=CpuManager.NONE)), frozenset({CPU, GPU, NIC}))

    assert kind.given == kind.devices == {GPU}
    assert kind.listed == {CPU, GPU}
    assert not kind.totals_known
    assert not kind.single_zone


@pytest.mark.parametrize(
    ("policy", "scope", "together"),
    [("restricted", "pod", True), ("best-effort", "container", False), ("none", "pod", False)],
)
def test_pods_are_decided_about_together_where(policy: str, scope: str, *, together: bool) -> None:
    one = node("cpu=8", "cpu=8", policy=policy, scope=scope)

    assert LayoutKind.of(layout(one), ASKED).together is together


@pytest.mark.parametrize(
    ("trait", "one"),
    table(
        [
            ("it refuses what it cannot align", Trait.STRICT, STRICT),
            ("only one zone will do", Trait.SINGLE, node("cpu=8", "cpu=8", policy="single-numa-node")),
            ("it aligns nothing", Trait.SILENT, LOOSE),
            ("it hints where devices are", Trait.NEAR, replace(STRICT, options=options(minor=36))),
            (
                "it gives out whole cores",
                Trait.WHOLE_CORES,
                replace(STRICT, options=options("full-pcpus-only")),
            ),
            ("it gives out CPUs", Trait.KEEPS_CPUS, STRICT),
            ("it gives out memory", Trait.KEEPS_MEMORY, STRICT),
            ("it tells totals", Trait.TOTALS_KNOWN, replace(STRICT, totals=bag("cpu=16"))),
        ]
    ),
)
def test_a_kind_has_a_trait_if(trait: Trait, one: Node) -> None:
    assert kinds(one).trait(trait).all()


PLAIN = replace(
    node("cpu=8 gpu=1", "cpu=8", policy="best-effort", options=options(minor=34)),
    cpu_manager=CpuManager.NONE,
    memory_manager=MemoryManager.NONE,
)


@pytest.mark.parametrize("trait", Trait)
def test_a_plain_kind_has_none_of_them(trait: Trait) -> None:
    assert not kinds(PLAIN).trait(trait).any()


# By row.


def test_rows_have_the_traits_of_their_kind() -> None:
    found, some = kinds(STRICT, LOOSE, STRICT, PLAIN), np.array([3, 0])

    assert found.of_rows(None).tolist() == [0, 1, 0, 2]
    assert found.of_rows(some).tolist() == [2, 0]
    assert found.with_trait(Trait.STRICT, None).tolist() == [True, False, True, False]
    assert found.with_trait(Trait.STRICT, some).tolist() == [False, True]


def test_rows_give_what_managers_of_their_kind_give() -> None:
    plain = replace(PLAIN, cpu_manager=CpuManager.STATIC)
    found = LayoutKinds(columns(STRICT, plain), frozenset({MEMORY, CPU}))

    assert found.giving(MEMORY, None).tolist() == [True, False]
    assert found.giving(CPU, np.array([1])).tolist() == [True]
    assert found.giving(NIC, None).tolist() == [False, False]


def test_a_resource_may_be_called_like_a_trait() -> None:
    found = kinds(STRICT)

    assert found.with_trait(Trait.STRICT, None).tolist() == [True]
    assert found.giving(Trait.STRICT.value, None).tolist() == [False]


def test_examples_are_nodes_of_their_kind() -> None:
    found = kinds(STRICT, LOOSE, STRICT)

    assert found.examples == (STRICT, LOOSE)


def test_nodes_that_come_and_go_are_followed() -> None:
    made = zone_table(STRICT, LOOSE)
    found = made.kinds(ASKED)
    assert found.with_trait(Trait.STRICT, None).tolist() == [True, False]

    made.add(2, layout(STRICT), STRICT)
    assert made.kinds(ASKED) is found, "there is no other layout"
    assert found.with_trait(Trait.STRICT, None).tolist() == [True, False, True]
    made.columns.put(2, layout(LOOSE), LOOSE)
    assert found.with_trait(Trait.STRICT, None).tolist() == [True, False, False]


def test_another_layout_makes_other_kinds() -> None:
    made = zone_table(STRICT)
    before = made.kinds(ASKED)
    made.add(1, layout(PLAIN), PLAIN)

    assert made.kinds(ASKED) is not before
    assert made.kinds(ASKED).of_rows(None).tolist() == [0, 1]


def test_a_layout_that_nobody_has_is_of_no_kind() -> None:
    made = zone_table(STRICT, LOOSE, PLAIN)
    made.columns.put(0, layout(LOOSE), LOOSE)

    assert [kind.config.policy for kind in made.kinds(ASKED).kinds] == [LOOSE.policy, PLAIN.policy]
    assert made.kinds(ASKED).of_rows(None).tolist() == [0, 0, 1]
