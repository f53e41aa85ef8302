"""A node from inside: which pod holds what, what was predicted beside what was observed, whose names show."""

from collections.abc import Callable

import pytest

from numalign.decision.alignment import Judgement
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.ledger.model import Source
from numalign.map.pods_on_node import everybody
from numalign.map.state import MapState
from numalign.map.views import CpuBox, CpuUse, HeldInZones, NodeView
from numalign.model.machine import read_list
from tests.worlds.notation import GPU, bag, machine
from tests.worlds.scorer import EMPTY, FOUR, HALF, SINGLE, Scorer, on, raw, running, uid

TWO_SOCKETS = machine(
    "cpu=0-3,8-11 mem=16Gi",
    "cpu=4-7,12-15 mem=16Gi",
    threads=2,
    reserved="0,8",
    devices="gpu=0,0,1,1",
    policy=SINGLE,
)
"""Two sockets of four cores with two threads each; core 0 is reserved for the system."""

ONE_CORE = ObservedPlacement({("node-0",): bag("cpu=2 mem=1Gi gpu=1")}, read_list("1,9"))


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()


async def view(scorer: Scorer, visible: Callable[[str], bool] = everybody) -> NodeView:
    """The view of node a."""
    made = await MapState(scorer.state).node("a", visible)
    assert made
    return made


def uses(made: NodeView) -> dict[int, CpuBox]:
    """All CPUs of a node, by id."""
    zones = (zone for socket in made.sockets for zone in socket.zones)
    cores = (core for zone in zones for cache in zone.caches for core in cache.cores)
    return {cpu.id: cpu for core in cores for cpu in core.cpus}


async def test_a_node_without_topology_and_one_that_is_not_there_have_no_view(scorer: Scorer) -> None:
    await scorer.know({}, unknown=["x"])
    shown = MapState(scorer.state)

    assert await shown.node("x", everybody) is None
    assert await shown.node("y", everybody) is None


async def test_where_only_amounts_are_known_there_are_zones_with_devices_and_no_cpus(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})

    made = await view(scorer)

    (socket,) = made.sockets
    assert (made.machine_known, socket.id) == (False, None)
    assert [zone.use.name for zone in socket.zones] == ["node-0", "node-1"]
    assert [zone.caches for zone in socket.zones] == [(), ()]
    assert [[(box.resource, box.total, box.free) for box in zone.devices] for zone in socket.zones] == [
        [(GPU, 2, 2)],
        [(GPU, 2, 2)],
    ]


async def test_sockets_zones_caches_cores_and_cpus_are_nested(scorer: Scorer) -> None:
    await scorer.know({"a": TWO_SOCKETS})

    made = await view(scorer)

    assert made.machine_known
    assert [(socket.id, [zone.use.id for zone in socket.zones]) for socket in made.sockets] == [
        (0, [0]),
        (1, [1]),
    ]
    (cache,) = made.sockets[0].zones[0].caches
    assert [(core.id, [cpu.id for cpu in core.cpus]) for core in cache.cores] == [
        (0, [0, 8]),
        (1, [1, 9]),
        (2, [2, 10]),
        (3, [3, 11]),
    ]


async def test_each_cpu_is_free_reserved_or_some_pods(scorer: Scorer) -> None:
    await scorer.know({"a": TWO_SOCKETS}, placements={"a": {uid("web"): ONE_CORE}})
    scorer.see(running(on("a", raw("cpu=2 mem=1Gi gpu=1"))))

    made = await view(scorer)

    states = {cpu: box.state for cpu, box in uses(made).items()}
    assert {cpu for cpu, state in states.items() if state is CpuUse.RESERVED} == {0, 8}
    assert {cpu for cpu, state in states.items() if state is CpuUse.HELD} == {1, 9}
    assert {state for cpu, state in states.items() if cpu not in {0, 8, 1, 9}} == {CpuUse.FREE}
    assert uses(made)[9].pod == 0
    assert (made.pods[0].name, made.pods[0].cpus) == ("web", read_list("1,9"))
    assert made.sockets[0].zones[0].pods == (0,)
    assert made.sockets[1].zones[0].pods == ()
    assert [box.free for box in made.sockets[0].zones[0].devices] == [1]


async def test_what_was_predicted_stands_beside_what_was_observed(scorer: Scorer) -> None:
    elsewhere = ObservedPlacement({("node-1",): bag("cpu=4 mem=1Gi gpu=1")}, 0)
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): elsewhere}})
    scorer.see(running(on("a", raw(FOUR), record=HALF)))

    (pod,) = (await view(scorer)).pods

    amounts = bag("cpu=4 mem=1Gi gpu=1")
    assert pod.predicted == (HeldInZones(("node-0",), amounts),)
    assert pod.observed == pod.held == (HeldInZones(("node-1",), amounts),)
    assert (pod.agrees, pod.source, pod.aligned) == (False, Source.KUBELET, True)


async def test_of_a_pod_that_nobody_looked_at_nothing_is_said(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR))))

    (pod,) = (await view(scorer)).pods

    assert (pod.predicted, pod.observed, pod.held, pod.agrees, pod.cpus) == (None, None, (), None, None)
    assert (pod.judgement, pod.aligned) == (Judgement.NOT_OBSERVED, None)
    assert pod.why == "no agent reported what it holds"


async def test_a_claim_of_zones_that_are_not_there_is_not_shown(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    claim = [{"zones": ["node-7"], "amount": {"cpu": "4"}}]
    scorer.see(running(on("a", raw(FOUR), record=claim)))

    (pod,) = (await view(scorer)).pods

    assert (pod.predicted, pod.observed) == (None, None)


async def test_pods_that_may_not_be_seen_keep_what_they_hold_and_stand_last(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    for name, namespace in (("aaa", "hidden"), ("zzz", "team")):
        scorer.see(running(on("a", raw(FOUR, name=name, namespace=namespace), record=HALF)))

    seen, unseen = (await view(scorer, lambda namespace: namespace == "team")).pods

    assert (seen.namespace, seen.name, seen.uid, seen.hidden) == ("team", "zzz", uid("zzz"), False)
    assert (unseen.namespace, unseen.name, unseen.uid, unseen.owner, unseen.hidden) == (
        None,
        None,
        None,
        None,
        True,
    )
    assert unseen.held == seen.held


async def test_how_hidden_pods_are_called_does_not_order_them() -> None:
    orders = []
    for small, large in (("a", "b"), ("b", "a")):
        other = Scorer()
        await other.know({"a": EMPTY})
        other.see(running(on("a", raw(FOUR, name=large), record=HALF)))
        other.see(running(on("a", raw("cpu=2 mem=1Gi", name=small))))
        orders.append((await view(other, lambda _: False)).pods)

    assert orders[0] == orders[1]


async def test_why_a_hidden_pod_is_misaligned_names_no_container(scorer: Scorer) -> None:
    spread = ObservedPlacement({("node-0",): bag("cpu=8"), ("node-1",): bag("cpu=8")}, 0)
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): spread}})
    scorer.see(running(on("a", raw("cpu=16 mem=1Gi"))))

    (named,), (hidden,) = (await view(scorer)).pods, (await view(scorer, lambda _: False)).pods

    assert (named.judgement, hidden.judgement) == (Judgement.MISALIGNED,) * 2
    assert named.why.startswith('container "c0" holds')
    assert hidden.why.startswith("the pod holds")


async def test_a_pod_that_is_aligned_in_part_says_why_and_a_hidden_one_names_no_container(
    scorer: Scorer,
) -> None:
    device = ObservedPlacement({("node-0",): bag("gpu=1")}, 0)
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): device}})
    scorer.see(running(on("a", raw("cpu=500m gpu=1"))))

    (named,), (hidden,) = (await view(scorer)).pods, (await view(scorer, lambda _: False)).pods

    assert (named.aligned, named.extent, named.not_pinned) == (True, "devices only", ("cpu",))
    assert named.why.endswith('because container "c0" sets no memory limit (the pod is Burstable)')
    assert (hidden.extent, hidden.why) == (
        "devices only",
        f"{SINGLE} applies to {GPU} only: cpu is not pinned",
    )


async def test_who_looks_is_told_which_namespaces_matter(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(running(on("a", raw(FOUR))), running(on("b", raw(FOUR, name="x", namespace="other"))))

    assert MapState(scorer.state).namespaces_on("a") == {"team"}


async def test_where_ids_are_not_known_no_cpu_is_called_free(scorer: Scorer) -> None:
    """A pod holds nobody knows what, so what is free is known in amounts only."""
    await scorer.know({"a": TWO_SOCKETS})
    scorer.see(running(on("a", raw("cpu=2 mem=1Gi gpu=1"))))

    made = await view(scorer)

    assert {box.state for box in uses(made).values()} == {CpuUse.RESERVED, CpuUse.UNKNOWN}
    assert not made.exact
    assert {box.free for zone in made.sockets[0].zones for box in zone.devices} == {None}
