"""What becomes of a pod on many nodes, container by container, is what becomes of it on each of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
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
from tests.laws.fleets import Case, case, drawn, seeded
from tests.worlds.cases_in_columns import parts_of
from tests.worlds.in_columns import left, state
from tests.worlds.notation import GPU, Ids, asks, node, options

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")


class Admitted(NamedTuple):
    """What becomes of a pod on one node.

    By container and resource the zones that it gets, as bits, and whether all affinities are preferred; or
    which container is refused, how and for want of what, and how much of that those before it hold by zone.
    """

    zones: tuple[dict[str, int], ...] = ()
    together: int = 0
    preferred: bool = False
    reason: str = ""
    container: str = ""
    lacking: tuple[str, ...] = ()
    held: tuple[tuple[int, ...], ...] = ()


def in_columns(state: ColumnState) -> dict[int, Admitted]:
    """What becomes of the pod in each row."""
    found = dict[int, Admitted]()
    for rows, admission in admissions(state):
        numbers = range(state.count) if rows is None else rows.tolist()
        found |= {row: _of_row(admission, at) for at, row in enumerate(numbers)}
    return found


def _of_row(admission: BatchAdmission, at: int) -> Admitted:
    if not admission.admitted[at]:
        (failure,) = [each for each in admission.failures if each.rows[at]]
        return _failed(failure, admission, at)
    zones = [
        {name: int(held[at]) for name, held in grant.zones.items() if held[at]} for grant in admission.grants
    ]
    preferred = all(grant.preferred[at] for grant in admission.grants)
    return Admitted(tuple(zones), int(admission.zones[at]), preferred)


def _failed(failure: Failure, admission: BatchAdmission, at: int) -> Admitted:
    reason = RejectionReason.SMT_ALIGNMENT if failure.breaks_cores else RejectionReason.UNEXPECTED_ADMISSION
    if not failure.lacking:
        reason = RejectionReason.TOPOLOGY_AFFINITY
    start, found = admission.before[0], admission.before[failure.at]
    held = ((start.free(name) - found.free(name))[:, at] for name in failure.lacking)
    return Admitted(
        reason=reason,
        container=failure.step.step.container,
        lacking=failure.lacking,
        held=tuple(tuple(each.tolist()) for each in held),
    )


def by_rules(one: Node, demand: Demand) -> Admitted:
    """What the kubelet of a node makes of the pod."""
    result = admit(one, demand)
    if result.refusal:
        return _rejected(one, result)
    grants = result.placement.grants
    names = {name for step in demand.steps for name in (*step.requests, *step.devices)}
    zones = [
        {name: _bits(one, held) for name in names if (held := grant.zones_of([name]))} for grant in grants
    ]
    return Admitted(
        tuple(zones), _bits(one, result.placement.zones), all(grant.preferred for grant in grants)
    )


def _rejected(one: Node, result: PodAdmitResult) -> Admitted:
    refusal, found = result.refusal, after_admission(one, result)
    assert refusal
    held = (_held(one, found, name) for name in refusal.resources)
    return Admitted(
        reason=refusal.reason, container=refusal.step.container, lacking=refusal.resources, held=tuple(held)
    )


def _held(one: Node, found: Node, name: str) -> tuple[int, ...]:
    unit = MILLI if name == CPU else 1
    pairs = zip(one.zones, found.zones, strict=True)
    return tuple((before.free.get(name, 0) - after.free.get(name, 0)) // unit for before, after in pairs)


def _bits(one: Node, zones: frozenset[int]) -> int:
    return bits(at for at, own in enumerate(one.ids) if own in zones)


def both(pod: str, *nodes: Node) -> list[Admitted]:
    """What becomes of a pod on nodes that decide alike; the rules say the same."""
    asked = state(asks(pod), *nodes)
    found = in_columns(asked)
    assert [found[row] for row in range(len(nodes))] == [by_rules(one, asks(pod)) for one in nodes]
    return [found[row] for row in range(len(nodes))]


# Examples.


def test_each_container_gets_zones_of_its_own() -> None:
    first, second = both("gpu=2 | gpu=1", RESTRICTED, left(RESTRICTED, "gpu=1", ""))

    assert (first.zones, first.together) == (({GPU: 0b01}, {GPU: 0b10}), 0b11)
    assert (second.zones, second.together) == (({GPU: 0b10}, {GPU: 0b01}), 0b11)


def test_containers_of_a_pod_that_is_aligned_as_one_share_their_zones() -> None:
    every, fits, neither = both("gpu=1 | gpu=1", POD, left(POD, "gpu=1", ""), left(POD, "gpu=1", "gpu=1"))

    assert (every.together, fits.together) == (0b01, 0b10)
    assert (neither.reason, neither.container) == (RejectionReason.TOPOLOGY_AFFINITY, "")


@pytest.mark.parametrize(
    ("role", "zones"), [("init", [0b01, 0b01]), ("sidecar", [0b01, 0b10])], ids=["init", "sidecar"]
)
def test_only_what_an_init_container_had_is_there_for_the_next(role: str, zones: list[int]) -> None:
    pod = f"{role} cpu=8 mem=8Gi gpu=2 | cpu=8 mem=8Gi gpu=2"

    (found,) = both(pod, SINGLE)
    assert [each[CPU] for each in found.zones] == [each[GPU] for each in found.zones] == zones


def test_a_pod_does_not_hold_the_memory_of_finished_init_containers() -> None:
    (found,) = both("init cpu=1 mem=10Gi | cpu=1 mem=1Gi", NONE)
    assert ([each["memory"] for each in found.zones], found.together) == ([0b11, 0b11], 0b11)

    (apart,) = both("init mem=6Gi cpu=500m | mem=1Gi cpu=500m", left(SINGLE, "mem=1Gi", ""))
    assert ([each["memory"] for each in apart.zones], apart.together) == ([0b10, 0b01], 0b01)


def test_a_best_effort_that_fails_takes_what_is_nearest_to_it() -> None:
    apart = left(BEST, "cpu=1", "gpu=0")

    served, spread = both("cpu=4 mem=1Gi gpu=1", BEST, apart)
    assert (served.preferred, served.together) == (True, 0b01)
    assert (spread.preferred, spread.zones) == (False, ({CPU: 0b11, GPU: 0b01, "memory": 0b01},))


def test_the_container_that_finds_nothing_refuses_and_what_others_hold_by_then_is_known() -> None:
    pod = "cpu=2 mem=1Gi gpu=1 | cpu=6 mem=1Gi gpu=3"
    served, gpus, cpus = both(pod, NONE, left(NONE, "gpu=1", "gpu=2"), left(NONE, "cpu=3", "cpu=2"))

    assert served.reason == ""
    assert gpus[3:] == (RejectionReason.UNEXPECTED_ADMISSION, "c1", (GPU,), ((1, 0),))
    assert cpus[3:] == (RejectionReason.UNEXPECTED_ADMISSION, "c1", (CPU,), ((0, 2),))


def test_the_first_manager_that_has_too_little_refuses() -> None:
    short = (left(NONE, text, text) for text in ("gpu=0", "gpu=0 cpu=0", "cpu=0 mem=0", "mem=0"))

    assert [each.lacking for each in both("cpu=2 mem=1Gi gpu=1", *short)] == [
        (GPU,),
        (GPU,),
        (CPU,),
        ("memory",),
    ]


def test_who_gives_out_whole_cores_refuses_to_break_one() -> None:
    pairs = node(*TWO, threads=2, options=options("full-pcpus-only"))

    (found,) = both("cpu=2 mem=1Gi | cpu=3 mem=1Gi", pairs)
    assert (found.reason, found.container) == (RejectionReason.SMT_ALIGNMENT, "c1")


def test_machines_that_differ_are_asked_one_sort_after_the_other() -> None:
    close: dict[Ids, int] = {(0, 2): 11, (2, 0): 11, (0, 1): 30, (1, 0): 30, (1, 2): 30, (2, 1): 30}
    far = node(*["gpu=1"] * 3, policy="restricted", costs=close)
    near = replace(far, options=options("prefer-closest-numa-nodes"))

    assert [each.together for each in both("gpu=2", far, near, far)] == [0b011, 0b101, 0b011]


# Laws.


def assert_alike(part: ColumnState, nodes: Sequence[Node]) -> None:
    demand, found = part.plan.question.demand, in_columns(part)
    for row, one in enumerate(nodes):
        assert found[row] == by_rules(one, demand)


@given(drawn(case), st.sampled_from([When.NOW, When.EMPTY]))
def test_what_becomes_of_a_pod_is_what_its_kubelet_makes_of_it(asked: Case, when: FreeOrEmpty) -> None:
    for part, nodes in parts_of(asked, when):
        assert_alike(part, nodes)


@given(st.integers(0, 2**32))
def test_the_same_of_many_kinds_of_nodes(seed: int) -> None:
    asked = seeded(lambda pick: case(pick, size=((8, 16), (1, 2))), seed)

    for part, nodes in parts_of(asked, When.NOW):
        assert_alike(part, nodes)
