"""The admission of a pod on many nodes, container by container, is that of the kubelet on each of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.cache.batch_admission import BatchAdmission, Failure, admissions
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import FreeOrEmpty, When
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.admit import PodAdmitResult, admit, after_admission
from numalign.model.bitset import bits
from numalign.model.demand import Demand
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import CPU, MILLI
from tests.laws.fleets import Case, case, drawn, machines, seeded
from tests.worlds.columns import parts_of, state, with_free
from tests.worlds.notation import Ids, asks, machine, node, options, table

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
_, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")


class Admitted(NamedTuple):
    """The admission on one node.

    By container and resource its zones, as bits, and whether all affinities are preferred; or which container
    is refused, why and for want of what, and how much of that earlier ones hold by zone.
    """

    zones: tuple[dict[str, int], ...] = ()
    together: int = 0
    preferred: bool = False
    reason: str = ""
    container: str = ""
    lacking: tuple[str, ...] = ()
    taken: tuple[tuple[int, ...], ...] = ()


def in_columns(state: ColumnState) -> dict[int, Admitted]:
    results = dict[int, Admitted]()
    for rows, admission in admissions(state):
        numbers = range(state.count) if rows is None else rows.tolist()
        results |= {row: _of_row(admission, at) for at, row in enumerate(numbers)}
    return results


def _of_row(admission: BatchAdmission, at: int) -> Admitted:
    if not admission.admitted[at]:
        (failure,) = [one for one in admission.failures if one.rows[at]]
        return _failed(failure, admission, at)
    zones = [
        {name: int(mask[at]) for name, mask in grant.zones.items() if mask[at]} for grant in admission.grants
    ]
    preferred = all(grant.preferred[at] for grant in admission.grants)
    return Admitted(tuple(zones), int(admission.zones[at]), preferred)


def _failed(failure: Failure, admission: BatchAdmission, at: int) -> Admitted:
    reason = RejectionReason.SMT_ALIGNMENT if failure.breaks_cores else RejectionReason.UNEXPECTED_ADMISSION
    if not failure.lacking:
        reason = RejectionReason.TOPOLOGY_AFFINITY
    start, now = admission.before[0], admission.before[failure.at]
    taken = ((start.free(name) - now.free(name))[:, at] for name in failure.lacking)
    return Admitted(
        reason=reason,
        container=failure.step.step.container,
        lacking=failure.lacking,
        taken=tuple(tuple(amounts.tolist()) for amounts in taken),
    )


def by_rules(node: Node, demand: Demand) -> Admitted:
    result = admit(node, demand)
    if result.refusal:
        return _rejected(node, result)
    grants = result.placement.grants
    names = {name for step in demand.steps for name in (*step.requests, *step.devices)}
    zones = [
        {name: _bits(node, zones) for name in names if (zones := grant.zones_of([name]))} for grant in grants
    ]
    preferred = all(grant.preferred for grant in grants)
    return Admitted(tuple(zones), _bits(node, result.placement.zones), preferred)


def _rejected(node: Node, result: PodAdmitResult) -> Admitted:
    refusal, after = result.refusal, after_admission(node, result)
    assert refusal
    return Admitted(
        reason=refusal.reason,
        container=refusal.step.container,
        lacking=refusal.resources,
        taken=tuple(_taken(node, after, name) for name in refusal.resources),
    )


def _taken(before: Node, after: Node, name: str) -> tuple[int, ...]:
    unit = MILLI if name == CPU else 1
    pairs = zip(before.zones, after.zones, strict=True)
    return tuple((one.free.get(name, 0) - other.free.get(name, 0)) // unit for one, other in pairs)


def _bits(node: Node, zones: frozenset[int]) -> int:
    return bits(at for at, own in enumerate(node.ids) if own in zones)


def both(pod: str, *nodes: Node) -> list[Admitted]:
    results = in_columns(state(asks(pod), *nodes))
    assert [results[row] for row in range(len(nodes))] == [by_rules(node, asks(pod)) for node in nodes]
    return [results[row] for row in range(len(nodes))]


CLOSE: dict[Ids, int] = {(0, 2): 11, (2, 0): 11, (0, 1): 30, (1, 0): 30, (1, 2): 30, (2, 1): 30}
FAR = node(*["gpu=1"] * 3, policy="restricted", costs=CLOSE)
PAIR = replace(FAR, options=options("prefer-closest-numa-nodes"))
BROKEN = machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi", threads=2, free="0,1,4-7")
ADMITTED = [
    # what it shows                          the pod            the nodes                           the zones
    ("containers have zones of their own",   "gpu=2 | gpu=1",   [RESTRICTED],                       [0b11]),
    ("in pod scope they share them",         "gpu=1 | gpu=1",   [POD, with_free(POD, "gpu=1", "")], [1, 2]),
    ("an init container leaves its devices", "init gpu=2 | gpu=2", [SINGLE],                        [0b01]),
    ("and holds no memory",                  "init cpu=500m mem=6Gi | cpu=500m mem=1Gi",
        [with_free(SINGLE, "mem=1Gi", "")],                                                         [0b01]),
    ("whole cores are taken first", "cpu=2 mem=1Gi", [BROKEN], [0b11]),
    ("a best effort is spread", "cpu=4 mem=1Gi gpu=1", [BEST, with_free(BEST, "cpu=1", "gpu=0")], [1, 3]),
    ("a sidecar stays",                      "sidecar gpu=2 | gpu=2", [SINGLE],                     [0b11]),
    ("machines differ in distances",         "gpu=2",           [FAR, PAIR, FAR],      [0b011, 0b101, 0b011]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "nodes", "zones"), table(ADMITTED))
def test_a_pod_gets_zones(pod: str, nodes: Sequence[Node], zones: list[int]) -> None:
    assert [one.together for one in both(pod, *nodes)] == zones


# Laws.

BUILDS = [
    lambda pick: case(pick, size=((8, 16), (1, 2))),
    lambda pick: machines(pick, ((1, 2), (1, 2, 3))),
]
fleets = st.builds(seeded, st.sampled_from(BUILDS), st.integers(0, 2**32))


@settings(max_examples=2 * settings().max_examples)
@given(drawn(case) | fleets, st.sampled_from([When.NOW, When.EMPTY]))
def test_an_admission_is_that_of_the_kubelet(case: Case, when: FreeOrEmpty) -> None:
    """So the CPUs, devices and memory of each container are, and how their hints are merged."""
    for part, nodes in parts_of(case, when):
        demand, results = part.plan.question.demand, in_columns(part)
        assert [results[row] for row in range(len(nodes))] == [by_rules(one, demand) for one in nodes]
