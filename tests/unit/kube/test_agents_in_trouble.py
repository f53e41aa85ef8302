"""
What becomes of a pod that fits a node in health, while devices, agents and programs come and go.

A refusal is for ever, so none of this may lead to one.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from numalign.cache import Question
from numalign.cache.admission import AdmissionState, Refusals, decide
from numalign.cache.pod_question import PodQuestion, StatedBy
from numalign.decision.evaluate import evaluate
from numalign.kube import admission_caches
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode import shapes
from numalign.model.constraints import Constraints
from numalign.model.intent import UNRULED
from numalign.model.node import node_class
from tests.worlds.clusters import published
from tests.worlds.notation import asks, means, table
from tests.worlds.objects import GIB, STATIC_KUBELET, Json, machine_zone, node, nrt, reported

GPU = "nvidia.com/gpu"
LARGE = asks("cpu=2 mem=1Gi gpu=4")
WAITING = {AdmissionState.FITS, AdmissionState.WAITS, AdmissionState.NO_NODE_HERE}


def agent(total: int, healthy: int, *, name: str = "a", **annotations: Any) -> Json:  # noqa: ANN401  as of `reported`
    """A topology of two zones and its agent's report, with so many devices on the first zone."""
    resources = [
        {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"},
        {"name": GPU, "capacity": str(total), "allocatable": str(healthy), "available": str(healthy)},
    ]
    topology = nrt(name, zones=[{"name": "node-0", "type": "Node", "resources": resources}])
    place = {"zones": [0], "total": total, "healthy": healthy}
    described = {"zones": [machine_zone(0, reservedMemory=None), machine_zone(1, reservedMemory=None)],
        "reservedSystemCPUs": "4", "devices": {GPU: [place]} if total else {}}  # fmt: skip
    return reported(topology, described, **annotations)


def node_of(devices: int, *, name: str = "a", label: str | None = None) -> Json:
    labels = {"numalign.io/class": label} if label else {}
    totals = {"cpu": "7", "memory": str(15 * GIB), GPU: str(devices)}
    return {**node(name, **labels), "status": {"allocatable": totals, "capacity": totals}}


def put(state: ClusterState, *objects: Json) -> None:
    for each in objects:
        store = state.nodes if each["kind"] == "Node" else state.topologies
        store.put(each["metadata"]["name"], each)


def decided(state: ClusterState) -> AdmissionState:
    """What becomes of a pod that wants all four devices of the first zone."""
    seen = published(state)
    cache = admission_caches.of(seen)
    question = Question(LARGE, means("single-numa-node"))
    pod_question = PodQuestion(question, Constraints(), UNRULED, "team", StatedBy.POD, None, None)
    return decide(pod_question, cache, Refusals(), now=1e9).state


WELL = (agent(4, 4), node_of(4))
TROUBLE = [
    ("a device falls ill",                    [(agent(4, 3), node_of(4))]),
    ("and its agent is restarted",            [(agent(4, 3), node_of(3)), (agent(3, 3), node_of(3))]),
    ("and its agent is restarted as well",    [(agent(4, 0), node_of(0)), (agent(0, 0), node_of(0))]),
    ("its Node shows it first",                [(agent(4, 4), node_of(0))]),
    ("its agent is taken away",               [(nrt("a", "node-0", "node-1", cpu=4), node_of(4))]),
    ("its agent writes an unknown version",    [(agent(4, 4, machine='{"version": 2}'), node_of(4))]),
    ("its kubelet gets an unknown option",
        [(agent(4, 4, kubelet={**STATIC_KUBELET, "cpuManagerPolicyOptions": {"new": "true"}}), node_of(4))]),
    ("its topology is invalid",           [(nrt("a", cpu="many"), node_of(4))]),
    ("it is gone",                            [()]),
]  # fmt: skip


@pytest.mark.parametrize("steps", table(TROUBLE))
def test_a_pod_that_fits_the_healthy_node_is_not_denied(steps: list[Iterable[Json]]) -> None:
    state = ClusterState(complete=True)
    put(state, *WELL)
    assert decided(state) is AdmissionState.FITS
    for objects in steps:
        put(state, *objects)
        if not objects:
            state.topologies.keep(set())
            state.nodes.keep(set())
        assert decided(state) in WAITING | {AdmissionState.UNKNOWN_NODE}


@pytest.mark.parametrize("steps", table(TROUBLE))
def test_a_restarted_program_with_memory_denies_no_pod(steps: list[Iterable[Json]]) -> None:
    before = ClusterState(complete=True)
    put(before, *WELL)
    [shape_] = published(before).nodes
    remembered = {"data": shapes.encode(before.shape_history.to_remember())}
    state = ClusterState(complete=True)
    state.remembered_shapes.put(shapes.NAME, remembered)
    labelled = {"numalign.io/class": node_class(shape_)}
    for each in steps[-1]:
        metadata = {**each["metadata"], "labels": labelled} if each["kind"] == "Node" else each["metadata"]
        put(state, {**each, "metadata": metadata})
    assert decided(state) in WAITING | {AdmissionState.UNKNOWN_NODE}


def test_a_remembered_pool_has_threads_of_its_cores() -> None:
    whole_cores = {**STATIC_KUBELET, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
    before = ClusterState(complete=True)
    alone = [{**machine_zone(at, reservedMemory=None), "cores": [[4 * at], [4 * at + 1]]} for at in (0, 1)]
    described = {"zones": alone, "reservedSystemCPUs": "4"}
    put(before, reported(nrt("a", "node-0", "node-1", cpu=2), described, kubelet=whole_cores), node_of(0))
    published(before)
    state = ClusterState(complete=True)
    state.remembered_shapes.put(shapes.NAME, {"data": shapes.encode(before.shape_history.to_remember())})
    # With two threads a core, as is assumed without a report, no CPU could ever be had by itself.
    [shape_] = published(state).known_shapes
    assert evaluate(shape_.shape.node, asks("cpu=1 mem=1Gi")).admitted


def test_a_pod_too_large_for_every_machine_is_denied() -> None:
    state = ClusterState(complete=True)
    put(state, agent(3, 3), node_of(3))
    assert decided(state) is AdmissionState.NEVER
