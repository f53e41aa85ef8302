"""Nodes with an agent: which parts of its report count, and what is decoded again."""

from typing import Any
from unittest.mock import Mock

import pytest

from numalign.kube import kinds
from numalign.kube.cluster import Cluster
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode import kubelet_reports, nrt
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.files import snapshot
from numalign.model.bitset import bits
from numalign.model.intent import Policy
from numalign.model.machine import MOST_CPUS, Stock
from numalign.model.node import Known, node_class
from tests.worlds.clusters import published
from tests.worlds.memory import weight
from tests.worlds.notation import bag, free_of, table
from tests.worlds.objects import GIB, STATIC_KUBELET, Json, configuration, machine_zone, node, reported
from tests.worlds.objects import nrt as topology

ZONES = ("node-0", "node-1")
GPUS = [{"zones": [0], "total": 2, "healthy": 2}, {"zones": [0, 1], "total": 1, "healthy": 1}]
MACHINE: Json = {"zones": [machine_zone(0, reservedMemory=None), machine_zone(1, reservedMemory=None)],
    "reservedSystemCPUs": "0", "devices": {"x/gpu": GPUS}}  # fmt: skip
ONE: Json = {
    "held": [{"zones": ["node-1"], "amount": {"cpu": "2"}}, {"zones": ["node-0"], "amount": {"x/gpu": "1"}},
        {"zones": ["node-0", "node-1"], "amount": {"x/gpu": "1"}}],
    "cpus": "4,6",
}  # fmt: skip


def agent_report(described: object = MACHINE, *, available: object = None, **annotations: Any) -> Json:  # noqa: ANN401
    return reported(topology("a", *ZONES, cpu=4, available=available), described, **annotations)


def cluster(*objects: Json) -> ClusterState:
    state = ClusterState()
    for made in objects:
        state.topologies.put(made["metadata"]["name"], made)
    return state


def problems(seen: Cluster) -> list[str]:
    return [str(problem) for problem in seen.problems]


def test_a_report_describes_the_machine_of_a_node() -> None:
    seen = published(cluster(agent_report(**{"observed-at": "2026-11-22T21:00:00Z"})))
    [node_] = seen.nodes
    assert (node_.known, node_.policy, node_.options.minor) == (Known.MACHINE, Policy.SINGLE_NUMA_NODE, 34)
    assert node_.stock == Stock(bits(range(1, 8)), (("x/gpu", (2, 0, 1)),))
    assert free_of(node_, "cpu") == [3, 4]
    assert (seen.observed_at, seen.problems) == ({"a": 1795381200.0}, ())


def test_resources_of_pods_are_taken_by_cpu() -> None:
    seen = published(cluster(agent_report(pods={"u": ONE, "v": {"held": []}})))
    held = {("node-1",): bag("cpu=2"), ("node-0",): bag("x/gpu=1"), ZONES: bag("x/gpu=1")}
    placements = {"u": ObservedPlacement(held, bits([4, 6])), "v": ObservedPlacement({}, 0)}
    assert seen.states["a"].placements == placements
    [node_] = seen.nodes
    assert node_.stock == Stock(bits([1, 2, 3, 5, 7]), (("x/gpu", (1, 0, 0)),))
    assert free_of(node_, "cpu") == [3, 2]
    assert [zone.free["x/gpu"] for zone in node_.zones] == [1, 0]


def test_memory_blocks_bind_their_zones() -> None:
    pod_ = {"held": [{"zones": [*ZONES], "amount": {"memory": "9Gi"}}]}
    kubelet = {**STATIC_KUBELET, "memoryManagerPolicy": "Static", "topologyManagerPolicy": "restricted",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "systemReserved": {"memory": "924Mi"}}  # fmt: skip
    [node_] = published(cluster(agent_report(pods={"u": pod_}, kubelet=kubelet))).nodes
    assert [zone.cells for zone in node_.zones] == [{0, 1}, {0, 1}]
    assert sum(zone.free["memory"] for zone in node_.zones) == 6 * GIB


def test_free_is_at_most_that_of_the_topology() -> None:
    [node_] = published(cluster(agent_report(pods={"u": ONE}, cpu=4, available=1))).nodes
    assert free_of(node_, "cpu") == [1, 1]
    assert node_.stock == Stock(bits([3, 7]), (("x/gpu", (1, 0, 0)),))
    assert free_of(node_.in_health(), "cpu") == [3, 4]


def test_a_report_comes_before_a_configuration() -> None:
    state = cluster(agent_report())
    state.nodes.put("a", {**node("a"), "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}})
    state.configurations.put("a", configuration("a", topologyManagerPolicy="restricted"))
    [node_] = published(state).nodes
    assert (node_.policy, node_.options.minor) == (Policy.SINGLE_NUMA_NODE, 34)


@pytest.mark.parametrize(("written", "reason"), table([
    ("no text", reported(topology("a"), machine=7), "machine]: must be a string, not a number"),
    ("an unknown version", reported(topology("a"), machine='{"version": 9}'),
        "machine].version: 9 is not a supported version: expected 1"),
    ("a machine of other zones", agent_report({**MACHINE, "zones": [machine_zone(0)], "devices": {}}),
        "machine].machine.zones: zone 1 of the topology is not on this machine"),
    ("a machine that contradicts its kubelet",
        agent_report(kubelet={**STATIC_KUBELET, "reservedSystemCPUs": "1"}),
        'machine].kubelet.reservedSystemCPUs: "1" contradicts the machine: "0"'),
]))  # fmt: skip
def test_an_implausible_report_leaves_the_amounts(written: Json, reason: str) -> None:
    seen = published(cluster(written))
    assert [node_.known for node_ in seen.nodes] == [Known.COUNTS]
    assert problems(seen) == [f"NodeResourceTopology a: metadata.annotations[numalign.io/{reason}"]


def test_a_report_with_an_unknown_option_counts() -> None:
    options = {"cpuManagerPolicyOptions": {"new": "true"}, "topologyManagerPolicyOptions": {"newer": "1"}}
    seen = published(cluster(agent_report(kubelet={**STATIC_KUBELET, **options})))
    [node_] = seen.nodes
    assert (node_.known, node_.options.unknown) == (Known.MACHINE, frozenset({"new", "newer"}))
    assert problems(seen) == []


@pytest.mark.parametrize(("pod", "reasons"), table([
    ("a zone that is not there", {"held": [{"zones": ["node-7"], "amount": {"cpu": 1}}]},
        ["pods.u.held: names a zone that is not on this machine"]),
    ("a CPU that is not there", {"held": [], "cpus": "7-9"}, ["pods.u.cpus: CPU 8-9 is not on this machine"]),
    ("a CPU that another pod holds", {"held": [], "cpus": "5-6"},
        ["pods.u.cpus: CPU 6 is also held by another pod"]),
    ("more than there is", {"held": [{"zones": ["node-0"], "amount": {"x/gpu": 3}}]},
        ["pods: hold 2 more x/gpu than zone 0 can allocate", "pods: hold more x/gpu than their zones have"]),
]))  # fmt: skip
def test_implausible_placements_leave_the_amounts(pod: Json, reasons: list[str]) -> None:
    seen = published(cluster(agent_report(available=2, pods={"one": ONE, "u": pod})))
    [node_] = seen.nodes
    where = "NodeResourceTopology a: metadata.annotations[numalign.io/placements]"
    assert problems(seen) == ["\n".join(f"{where}.{reason}" for reason in reasons)]
    assert (node_.known, free_of(node_, "cpu")) == (Known.MACHINE, [2, 2])
    assert node_.stock == Stock(bits([2, 3, 6, 7]), (("x/gpu", (2, 0, 1)),))


def test_an_equal_report_changes_only_its_time() -> None:
    state = cluster(agent_report(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:00:00Z"}))
    before, version = published(state), state.version
    state.topologies.put("a", agent_report(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:05:00Z"}))
    assert (state.version, state.topologies.changed) == (version, set())
    # The time changes in place.
    assert before.observed_at == {"a": 1795381500.0}


def test_only_changed_annotations_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoders = [(nrt, "topology"), (kubelet_reports, "read_machine"), (kubelet_reports, "read_placements")]
    mocks = [Mock(side_effect=getattr(module, name)) for module, name in decoders]
    for (module, name), mock in zip(decoders, mocks, strict=True):
        monkeypatch.setattr(module, name, mock)
    machine = {**MACHINE, "reservedSystemCPUs": "0-1"}
    steps = [
        ("a", agent_report(machine)),
        ("a", agent_report(machine, pods={"u": ONE})),
        ("a", agent_report(machine, pods={"u": {"held": []}}, **{"observed-at": "2026-11-22T21:05:00Z"})),
        ("a", agent_report(machine, available=3)),
        # Another node of the same machine has the same report.
        ("b", agent_report(machine)),
    ]
    state, counts = ClusterState(), []
    for name, report in steps:
        state.topologies.put(name, {**report, "metadata": {**report["metadata"], "name": name}})
        counts.append([mock.call_count for mock in mocks])
    assert counts == [[1, 1, 0], [1, 1, 1], [1, 1, 2], [2, 1, 2], [3, 1, 2]]


def test_only_annotations_of_the_agent_are_retained() -> None:
    written = agent_report(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:00:00Z"})
    annotations = written["metadata"]["annotations"]
    more = {**annotations, "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "numalign.io/policy": "x"}  # fmt: skip
    topology_ = kinds.TOPOLOGIES[0].described({**written, "metadata": {"name": "a", "annotations": more}})
    assert topology_["metadata"] == {"name": "a", "annotations": annotations}
    # So a file of it tells as much as the cluster.
    assert snapshot.of([topology_]).nodes == published(cluster(written)).nodes


@pytest.mark.parametrize("gone", ["drop", "keep"])
def test_a_removed_agent_leaves_nothing(gone: str) -> None:
    state = cluster(agent_report(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:00:00Z"}))
    published(state)
    state.topologies.put("a", topology("a", *ZONES, cpu=4, available=3))
    seen = published(state)
    assert [node_.known for node_ in seen.nodes] == [Known.COUNTS]
    assert (seen.states["a"].placements, seen.observed_at) == (None, {})
    assert free_of(seen.nodes[0], "cpu") == [3, 3]
    state.topologies.put("a", agent_report(pods={"u": ONE}))
    state.topologies.drop("a") if gone == "drop" else state.topologies.keep(set())
    seen = published(state)
    assert (seen.states, seen.observed_at) == ({}, {})


@pytest.mark.full
def test_ever_new_machines_are_limited_in_memory() -> None:
    # Late ids make a set of CPUs large, however few are in it.
    cores = [[cpu] for cpu in range(MOST_CPUS - 600, MOST_CPUS)]
    state, machines = ClusterState(), 40
    for socket in range(machines):
        zone = machine_zone(cores=cores, socket=socket, reservedMemory=None)
        described = {"zones": [zone], "reservedSystemCPUs": str(MOST_CPUS - 1)}
        state.topologies.put("a", reported(topology("a", cpu=len(cores)), described))
        [node_] = published(state).nodes
    assert weight(state) < machines * weight(node_.machine) * 2 / 3
    # What is not kept as it was described is still known by its amounts.
    assert {each.shape.node_class for each in state.shape_history.shapes()} == {node_class(node_)}
