"""The views of a node and of a pod: what pods hold, were predicted and observed to hold, and hidden names."""

import pytest

from numalign.cache.pod_question import StatedBy
from numalign.decision.alignment import Judgement
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.ledger.model import Source
from numalign.map.state import MapState
from numalign.map.views import CpuBox, CpuUse, HeldInZones, NodeView, PodView, Visible
from numalign.model.intent import Intent, Policy
from numalign.model.machine import read_list
from numalign.model.placement import Held
from numalign.model.pod import Role
from tests.worlds.notation import GPU, bag, machine, table
from tests.worlds.objects import all_visible
from tests.worlds.scorer import EMPTY, FOUR, HALF, SINGLE, TEAM, Scorer, on, raw, running, uid

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


async def view(scorer: Scorer, visible: Visible = all_visible) -> NodeView:
    made = await MapState(scorer.state).node("a", visible)
    assert made
    return made


def cpus(made: NodeView) -> dict[int, CpuBox]:
    """All CPUs of a node, by ID."""
    zones = (zone for socket in made.sockets for zone in socket.zones)
    cores = (core for zone in zones for cache in zone.caches for core in cache.cores)
    return {cpu.id: cpu for core in cores for cpu in core.cpus}


async def test_a_node_without_topology_has_no_view(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, unknown=["x"])
    shown = MapState(scorer.state)

    assert [await shown.node(name, all_visible) for name in "xy"] == [None, None]


async def test_a_node_of_amounts_has_zones_without_cpus(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    made = await view(scorer)
    [socket] = made.sockets

    assert (made.machine_known, socket.id) == (False, None)
    assert [(zone.use.name, zone.caches) for zone in socket.zones] == [("node-0", ()), ("node-1", ())]
    assert [[(box.resource, box.total, box.free) for box in zone.devices] for zone in socket.zones] == (
        [[(GPU, 2, 2)]] * 2
    )


async def test_sockets_have_zones_caches_cores_and_cpus(scorer: Scorer) -> None:
    await scorer.know({"a": TWO_SOCKETS})
    made = await view(scorer)
    [cache] = made.sockets[0].zones[0].caches

    assert made.machine_known
    sockets = [(socket.id, [zone.use.id for zone in socket.zones]) for socket in made.sockets]
    assert sockets == [(0, [0]), (1, [1])]
    cores = [(core.id, [cpu.id for cpu in core.cpus]) for core in cache.cores]
    assert cores == [(number, [number, number + 8]) for number in range(4)]


async def test_each_cpu_is_free_reserved_or_of_a_pod(scorer: Scorer) -> None:
    await scorer.know({"a": TWO_SOCKETS}, placements={"a": {uid("web"): ONE_CORE}})
    scorer.see(running(on("a", raw("cpu=2 mem=1Gi gpu=1"))))
    made = await view(scorer)
    states = {cpu: box.state for cpu, box in cpus(made).items()}
    zones = [socket.zones[0] for socket in made.sockets]

    assert {cpu for cpu, state in states.items() if state is CpuUse.RESERVED} == {0, 8}
    assert {cpu for cpu, state in states.items() if state is CpuUse.HELD} == {1, 9}
    assert {state for cpu, state in states.items() if cpu not in {0, 8, 1, 9}} == {CpuUse.FREE}
    assert (cpus(made)[9].pod, made.pods[0].name, made.pods[0].cpus) == (0, "web", read_list("1,9"))
    assert [zone.pods for zone in zones] == [(0,), ()]
    assert [box.free for box in zones[0].devices] == [1]


async def test_prediction_and_observation_are_both_shown(scorer: Scorer) -> None:
    elsewhere = ObservedPlacement({("node-1",): bag("cpu=4 mem=1Gi gpu=1")}, 0)
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): elsewhere}})
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    [pod] = (await view(scorer)).pods
    amounts = bag("cpu=4 mem=1Gi gpu=1")

    assert pod.predicted == (HeldInZones(("node-0",), amounts),)
    assert pod.observed == pod.held == (HeldInZones(("node-1",), amounts),)
    assert (pod.agrees, pod.source, pod.aligned) == (False, Source.KUBELET, True)


@pytest.mark.parametrize("record", [None, [{"zones": ["node-7"], "amount": {"cpu": "4"}}]])
async def test_an_unobserved_pod_has_no_placement(
    scorer: Scorer, record: list[dict[str, object]] | None
) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR), record=record)))
    [pod] = (await view(scorer)).pods

    assert (pod.predicted, pod.observed, pod.held, pod.agrees, pod.cpus) == (None, None, (), None, None)
    assert (pod.judgement, pod.aligned) == (Judgement.NOT_OBSERVED, None)
    assert pod.why == "no agent reported what it holds"


async def test_hidden_pods_come_last_without_names(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    for name, namespace in (("aaa", "hidden"), ("zzz", "team")):
        scorer.see(running(on("a", raw(FOUR, name=name, namespace=namespace), record=HALF)))
    seen, unseen = (await view(scorer, lambda namespace: namespace == "team")).pods

    assert (seen.namespace, seen.name, seen.uid, seen.hidden) == ("team", "zzz", uid("zzz"), False)
    assert [unseen.namespace, unseen.name, unseen.uid, unseen.owner] == [None] * 4
    assert (unseen.hidden, unseen.held) == (True, seen.held)


async def test_order_of_hidden_pods_does_not_depend_on_names() -> None:
    orders = []
    for small, large in (("a", "b"), ("b", "a")):
        other = Scorer()
        await other.know({"a": EMPTY})
        other.see(running(on("a", raw(FOUR, name=large), record=HALF)))
        other.see(running(on("a", raw("cpu=2 mem=1Gi", name=small))))
        orders.append((await view(other, lambda _: False)).pods)

    assert orders[0] == orders[1]


REASONS = [
    ("misaligned", "cpu=16 mem=1Gi", ("cpu=8", "cpu=8"), False, 'container "c0" holds', "the pod holds"),
    ("aligned in part", "cpu=500m gpu=1", ("gpu=1",), True, 'container "c0" sets no memory limit',
        "cpu is not pinned"),
]  # fmt: skip


@pytest.mark.parametrize(("container", "zones", "aligned", "named", "hidden"), table(REASONS))
async def test_reasons_of_hidden_pods_name_no_container(  # noqa: PLR0913  the columns
    scorer: Scorer, container: str, zones: tuple[str, ...], named: str, hidden: str, *, aligned: bool
) -> None:
    placement: Held = {(f"node-{at}",): bag(amount) for at, amount in enumerate(zones)}
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): ObservedPlacement(placement, 0)}})
    scorer.see(running(on("a", raw(container))))
    [shown], [nameless] = (await view(scorer)).pods, (await view(scorer, lambda _: False)).pods

    assert (shown.aligned, nameless.aligned) == (aligned, aligned)
    assert shown.extent == nameless.extent == ("devices only" if aligned else "")
    assert (named in shown.why, hidden in nameless.why, "c0" in nameless.why) == (True, True, False)


async def test_without_cpu_ids_no_cpu_is_free(scorer: Scorer) -> None:
    """A pod holds unknown CPUs, so only amounts of free ones are known."""
    await scorer.know({"a": TWO_SOCKETS})
    scorer.see(running(on("a", raw("cpu=2 mem=1Gi gpu=1"))))
    made = await view(scorer)

    assert {box.state for box in cpus(made).values()} == {CpuUse.RESERVED, CpuUse.UNKNOWN}
    assert not made.exact
    assert {box.free for socket in made.sockets for box in socket.zones[0].devices} == {None}


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}


async def pod_view(scorer: Scorer) -> PodView:
    made = await MapState(scorer.state).pod(TEAM, "web", all_visible)
    assert made
    return made


async def test_a_running_pod_has_requests_and_a_node(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR, ownerReferences=[OWNER]), record=HALF)))
    made = await pod_view(scorer)
    [container] = made.containers

    assert (made.pod.uid, made.pod.phase) == (uid("web"), "Running")
    assert (made.node, made.owner) == ("a", "ReplicaSet web")
    assert (made.intent, made.by) == (Intent(Policy.SINGLE_NUMA_NODE), StatedBy.POD)
    requests = bag("cpu=4 mem=1Gi gpu=1")
    assert (container.container, container.role, container.requests) == ("c0", Role.APP, requests)
    assert made.total == requests
    assert [zone.free["cpu"] for zone in made.zones] == [4000, 8000]
    assert made.on_node
    assert made.on_node.name == "web"


async def test_a_pending_pod_is_where_it_is_reserved(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(raw(FOUR, spec={"schedulingGates": [{"name": "numalign.io/gate"}]}))
    made = await pod_view(scorer)
    assert (made.node, made.on_node, made.zones, made.pod.gates) == ("", None, (), ("numalign.io/gate",))

    scorer.reserve(raw(FOUR), "a")
    made = await pod_view(scorer)
    assert made.node == "a"
    assert made.on_node
    assert made.on_node.predicted == made.on_node.held != ()


async def test_an_unreadable_policy_is_a_mistake(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw("cpu=4 mem=1Gi", policy="singel"))))
    made = await pod_view(scorer)
    [mistake] = made.mistakes

    assert (made.intent, made.by) == (NO_INTENT, None)
    assert mistake.startswith('metadata.annotations[numalign.io/policy]: "singel" is not a known value')


async def test_an_exclusive_pod_lists_pods_in_its_zones(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(
        running(on("a", raw(FOUR, annotations={"numalign.io/exclusive": "zone"}), record=HALF)),
        running(on("a", raw(FOUR, name="other"), record=HALF)),
        running(on("a", raw(FOUR, name="third", namespace="hidden"), record=HALF)),
    )
    made = await pod_view(scorer)
    partly = await MapState(scorer.state).pod(TEAM, "web", lambda namespace: namespace == TEAM)

    assert ({*made.beside}, made.beside_hidden) == ({"team/other", "hidden/third"}, 0)
    assert partly
    assert (partly.beside, partly.beside_hidden) == (("team/other",), 1)
