"""
What becomes of a pod that fits a node in health, while devices, agents and programs come and go.

A refusal is for ever, so none of this may lead to one.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from numalign.cache import ClusterCache, Question
from numalign.cache.admission import AdmissionState, Refusals, decide
from numalign.cache.pod_question import PodQuestion, StatedBy
from numalign.decision.evaluate import evaluate
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode import shapes
from numalign.model.constraints import Constraints
from numalign.model.intent import UNRULED
from numalign.model.node import node_class
from tests.worlds.notation import asks, means, table
from tests.worlds.objects import GIB, STATIC_KUBELET, Json, machine_zone, node, nrt, reported

GPU = "nvidia.com/gpu"
LARGE = asks("cpu=2 mem=1Gi gpu=4")
WAITING = {AdmissionState.FITS, AdmissionState.WAITS, AdmissionState.NO_NODE_HERE}


def told(total: int, healthy: int, *, name: str = "a", **beside: Any) -> Json:  # noqa: ANN401  as of `reported`
    """A topology of two zones and its agent's report, with so many devices on the first zone."""
    resources = [
        {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"},
        {"name": GPU, "capacity": str(total), "allocatable": str(healthy), "available": str(healthy)},
    ]
    topology = nrt(name, zones=[{"name": "node-0", "type": "Node", "resources": resources}])
    place = {"zones": [0], "total": total, "healthy": healthy}
    described = {
        "zones": [machine_zone(0, reservedMemory=None), machine_zone(1, reservedMemory=None)],
        "reservedSystemCPUs": "4",
        "devices": {GPU: [place]} if total else {},
    }
    return reported(topology, described, **beside)


def whole(devices: int, *, name: str = "a", label: str | None = None) -> Json:
    """The Node, which may give out so many devices."""
    labels = {"numalign.io/class": label} if label else {}
    totals = {"cpu": "7", "memory": str(15 * GIB), GPU: str(devices)}
    return {**node(name, **labels), "status": {"allocatable": totals, "capacity": totals}}


def put(world: ClusterState, *objects: Json) -> None:
    for each in objects:
        store = world.nodes if each["kind"] == "Node" else world.topologies
        store.put(each["metadata"]["name"], each)


def decided(world: ClusterState) -> AdmissionState:
    """What becomes of a pod that wants all four devices of the first zone."""
    seen = world.snapshot()
    cache = ClusterCache.of(seen.nodes, seen.shapes, seen.bare)
    question = Question(LARGE, means("single-numa-node"))
    asked = PodQuestion(question, Constraints(), UNRULED, "team", StatedBy.POD, None, None)
    return decide(asked, cache, Refusals(), now=1e9).state


WELL = (told(4, 4), whole(4))
TROUBLE = [
    ("a device falls ill",                    [(told(4, 3), whole(4))]),
    ("and its Node says so",                  [(told(4, 3), whole(3))]),
    ("and its agent is restarted",            [(told(4, 3), whole(3)), (told(3, 3), whole(3))]),
    ("its plugin is down",                    [(told(4, 0), whole(0))]),
    ("and its agent is restarted as well",    [(told(4, 0), whole(0)), (told(0, 0), whole(0))]),
    ("its Node says it first",                [(told(4, 4), whole(0))]),
    ("its agent is taken away",               [(nrt("a", "node-0", "node-1", cpu=4), whole(4))]),
    ("its agent writes what nobody knows",    [(told(4, 4, machine='{"version": 2}'), whole(4))]),
    ("its kubelet gets an unknown option",
        [(told(4, 4, kubelet={**STATIC_KUBELET, "cpuManagerPolicyOptions": {"new": "true"}}), whole(4))]),
    ("its topology is invalid",           [(nrt("a", cpu="many"), whole(4))]),
    ("it is gone",                            [()]),
]  # fmt: skip


@pytest.mark.parametrize("steps", table(TROUBLE))
def test_a_pod_that_fits_a_node_in_health_is_never_refused(steps: list[Iterable[Json]]) -> None:
    world = ClusterState(complete=True)
    put(world, *WELL)
    assert decided(world) is AdmissionState.FITS
    for objects in steps:
        put(world, *objects)
        if not objects:
            world.topologies.keep(set())
            world.nodes.keep(set())
        assert decided(world) in WAITING | {AdmissionState.UNKNOWN_NODE}


@pytest.mark.parametrize("steps", table(TROUBLE))
def test_nor_by_a_program_that_was_started_meanwhile_and_remembers(steps: list[Iterable[Json]]) -> None:
    before = ClusterState(complete=True)
    put(before, *WELL)
    [known] = before.snapshot().nodes
    remembered = {"data": shapes.encode(before.shape_history.to_remember())}
    world = ClusterState(complete=True)
    world.remembered_shapes.put(shapes.NAME, remembered)
    labelled = {"numalign.io/class": node_class(known)}
    for each in steps[-1]:
        metadata = {**each["metadata"], "labels": labelled} if each["kind"] == "Node" else each["metadata"]
        put(world, {**each, "metadata": metadata})

    assert decided(world) in WAITING | {AdmissionState.UNKNOWN_NODE}


FIRST: list[tuple[str, Callable[[], tuple[Json, ...]]]] = [
    ("a device is ill",           lambda: (told(4, 3), whole(3))),
    ("none is there",             lambda: (told(4, 0), whole(0))),
]  # fmt: skip


@pytest.mark.parametrize("objects", table(FIRST))
def test_nor_by_one_that_never_saw_the_node_in_health(objects: Callable[[], tuple[Json, ...]]) -> None:
    world = ClusterState(complete=True)
    put(world, *objects())

    assert decided(world) is AdmissionState.WAITS


def test_a_pool_without_nodes_is_remembered_with_the_threads_of_its_cores() -> None:
    whole_cores = {**STATIC_KUBELET, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
    before = ClusterState(complete=True)
    alone = [{**machine_zone(at, reservedMemory=None), "cores": [[4 * at], [4 * at + 1]]} for at in (0, 1)]
    described = {"zones": alone, "reservedSystemCPUs": "4"}
    put(before, reported(nrt("a", "node-0", "node-1", cpu=2), described, kubelet=whole_cores), whole(0))
    before.snapshot()
    world = ClusterState(complete=True)
    world.remembered_shapes.put(shapes.NAME, {"data": shapes.encode(before.shape_history.to_remember())})

    # With two threads a core, as is assumed where nobody told, no CPU could ever be had by itself.
    [known] = world.snapshot().shapes
    assert evaluate(known.shape.node, asks("cpu=1 mem=1Gi")).admitted


def test_a_node_whose_device_falls_ill_keeps_its_class_and_its_shape() -> None:
    world = ClusterState(complete=True)
    put(world, *WELL)
    [before] = world.snapshot().nodes
    put(world, told(4, 3), whole(3))
    seen = world.snapshot()
    [after] = seen.nodes

    assert node_class(after) == node_class(before)
    assert after.health == before
    assert [(each.nodes, each.shape.node.machine) for each in seen.shapes] == [(1, before.machine)]


def test_what_is_really_too_large_for_every_machine_is_refused() -> None:
    world = ClusterState(complete=True)
    put(world, told(3, 3), whole(3))

    assert decided(world) is AdmissionState.NEVER
