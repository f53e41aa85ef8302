"""What other exporters wrote beside real kubelets, alone and on an agent's object, is read as what it is."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from numalign.kube import kinds
from numalign.kube.cluster import Cluster
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode.fingerprints import Method
from numalign.ledger.model import AssignedPod
from numalign.model.node import CpuManager, Known, MemoryManager, node_class
from numalign.scheduling.fingerprint_reader import PodFingerprintReader
from tests.unit.ledger.conftest import on
from tests.worlds.clusters import published
from tests.worlds.notation import free_of, table
from tests.worlds.objects import Json, node

RECORDED = Path(__file__).parent / "data" / "recorded"
NAMES = ["agent", "nfd", "rte", "rte-no-memory", "nfd-over-agent", "rte-over-agent"]


def recorded(name: str) -> Json:
    read: Json = yaml.load((RECORDED / f"{name}.yaml").read_text(), yaml.CSafeLoader)
    return read


def seen(*objects: Json, complete: bool = False) -> Cluster:
    state = ClusterState(complete=complete)
    state.nodes.put("other", node("other"))
    for each in objects:
        name = each["metadata"]["name"]
        state.topologies.put(name, kinds.TOPOLOGIES[0].described(each))
        if not complete:
            state.nodes.put(name, node(name))
    return published(state)


def without_annotations(topology: Json) -> Json:
    return {**topology, "metadata": {"name": topology["metadata"]["name"]}}


def test_all_exporters_describe_the_same_node() -> None:
    nodes = [seen(without_annotations(recorded(name))).nodes[0] for name in ("agent", "nfd", "rte")]
    assert len({node_class(each) for each in nodes}) == 1
    assert {(each.cpu_manager, each.memory_manager) for each in nodes} == {
        (CpuManager.STATIC, MemoryManager.STATIC)
    }
    assert [free_of(each, "cpu") for each in nodes] == [[1, 4]] * 3
    assert [[zone.free for zone in each.zones] for each in nodes[1:]] == [
        [zone.free for zone in nodes[0].zones]
    ] * 2
    assert len({tuple(zone.costs for zone in each.zones) for each in nodes}) == 1


REQUESTS = {"web": "cpu=2 mem=1Gi example.com/gpu=1", "small": "cpu=500m mem=64Mi", "idle": "",
    "late": "cpu=1 mem=64Mi"}  # fmt: skip


@pytest.mark.parametrize(("name", "method", "pods"), table([
    # what it shows                        recording         the method       the pods in its fingerprint
    ("all, by the agent",             "agent",          Method.ALL,      "web small idle"),
    ("all, without a method",                "nfd",            Method.ALL,      "web small idle"),
    ("all, beside an agent",               "nfd-over-agent", Method.ALL,      "web small idle late"),
    ("those with exclusive resources",     "rte",            Method.WITH_EXCLUSIVE_RESOURCES, "web small"),
    ("the same without a Memory Manager",  "rte-no-memory",  Method.WITH_EXCLUSIVE_RESOURCES, "web"),
    ("the same beside an agent",  "rte-over-agent", Method.WITH_EXCLUSIVE_RESOURCES, "web small late"),
]))  # fmt: skip
def test_pods_of_a_fingerprint_by_its_method(name: str, method: Method, pods: str) -> None:
    cluster = seen(recorded(name))
    assert not cluster.problems
    worker = next(each for each in cluster.nodes if each.name.startswith("worker"))
    number = worker.name.removeprefix("worker-")
    fingerprint = cluster.states[worker.name].fingerprint
    assert fingerprint
    pods_there = [assigned(pod, number) for pod in REQUESTS]
    assert fingerprint.method is method
    # It may or may not account for any of them.
    accounted = PodFingerprintReader(fingerprint)(worker, (), pods_there)
    assert accounted == frozenset(("default", f"{pod}-{number}") for pod in pods.split())


def assigned(pod: str, number: str) -> AssignedPod:
    return replace(on(pod, REQUESTS[pod]), name=("default", f"{pod}-{number}"))


@pytest.mark.parametrize(("name", "owners"), [("nfd-over-agent", 2), ("rte-over-agent", 1)])
def test_a_report_stays_when_another_owns_the_zones(name: str, owners: int) -> None:
    topology = recorded(name)
    [worker] = [each for each in seen(topology).nodes if each.known is Known.MACHINE]
    written = {
        manager["manager"]
        for manager in topology["metadata"]["managedFields"]
        if "f:zones" in manager["fieldsV1"]
    }
    assert len(topology["metadata"]["ownerReferences"]) == owners
    assert "numalign-agent" not in written
    assert free_of(worker, "cpu") == [0, 4]
    assert len(seen(topology).states[worker.name].placements or {}) == 4


def test_an_object_without_its_node_does_not_count() -> None:
    topology = recorded("nfd-after-node")
    cluster = seen(topology, complete=True)
    assert [owner["kind"] for owner in topology["metadata"]["ownerReferences"]] == ["Namespace"]
    assert (cluster.nodes, cluster.unknown) == ((), ("other",))
    assert [*cluster.known_shapes] == []
    assert [problem.name for problem in cluster.problems] == ["worker-1"]
