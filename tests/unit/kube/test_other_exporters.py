"""What other exporters write of a node, by itself and with what an agent adds to it."""

from pathlib import Path

import pytest
import yaml

from numalign.kube import kinds
from numalign.kube.cluster_state import ClusterState, Snapshot
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.kubelet_reports import MACHINE, OBSERVED_AT, PLACEMENTS
from numalign.model.bitset import bits
from numalign.model.intent import Policy, Scope
from numalign.model.machine import Stock
from numalign.model.node import Known
from tests.worlds.notation import free_of
from tests.worlds.objects import STATIC_KUBELET, Json, machine_zone, reported

DATA = Path(__file__).parent / "data"
GPU = "nvidia.com/gpu"
MACHINE_TOLD: Json = {
    "zones": [machine_zone(at, reservedMemory=None, distances=[10, 21][:: 1 - 2 * at]) for at in (0, 1)],
    "reservedSystemCPUs": "0-3",
    "devices": {GPU: [{"zones": [1], "total": 2, "healthy": 2}]},
}
POD: Json = {"held": [{"zones": ["node-1"], "amount": {"cpu": "2", GPU: "1"}}], "cpus": "4,6"}


@pytest.fixture(params=["nfd", "rte"])
def written(request: pytest.FixtureRequest) -> Json:
    """A whole object, as it stands in the API server."""
    read: Json = yaml.safe_load((DATA / f"{request.param}.yaml").read_text())
    return read


def seen(*objects: Json) -> Snapshot:
    """What is seen of these objects as watches give them."""
    state = ClusterState()
    for each in objects:
        state.topologies.put(each["metadata"]["name"], kinds.TOPOLOGIES[0].described(each))
    return state.snapshot()


def test_a_node_is_known_by_what_its_exporter_writes(written: Json) -> None:
    found = seen(written)
    [node] = found.nodes

    assert not found.problems
    assert (node.known, node.policy, node.scope) == (Known.COUNTS, Policy.SINGLE_NUMA_NODE, Scope.POD)
    assert [zone.name for zone in node.zones] == ["node-0", "node-1"]
    assert free_of(node, "cpu") == [0, 2]
    assert [dict(zone.costs) for zone in node.zones] == [{0: 10, 1: 21}, {0: 21, 1: 10}]
    assert isinstance(found.fingerprints["worker-1"], Fingerprint)
    assert (found.placements, found.observed_at) == ({}, {})


def with_agent(written: Json) -> Json:
    told = {**STATIC_KUBELET, "topologyManagerScope": "pod"}
    return reported(
        written, MACHINE_TOLD, pods={"u": POD}, kubelet=told, **{"observed-at": "2026-11-22T21:00:00Z"}
    )


def test_an_agent_adds_what_its_exporter_cannot_tell(written: Json) -> None:
    alone, found = seen(written), seen(with_agent(written))
    [node] = found.nodes

    assert not found.problems
    assert (node.known, node.policy, node.scope) == (Known.MACHINE, Policy.SINGLE_NUMA_NODE, Scope.POD)
    assert node.stock == Stock(bits([5, 7]), ((GPU, (0, 1)),))
    assert free_of(node, "cpu") == [0, 2]
    assert [zone.costs for zone in node.zones] == [zone.costs for zone in alone.nodes[0].zones]
    # Whom the exporter's amounts account for is still told by the exporter.
    assert found.fingerprints == alone.fingerprints
    assert [*found.placements["worker-1"]] == ["u"]


def test_what_an_exporter_writes_of_itself_is_not_kept(written: Json) -> None:
    kept = kinds.TOPOLOGIES[0].described(with_agent(written))

    assert kept["metadata"].keys() == {"name", "annotations"}
    assert {*kept["metadata"]["annotations"]} == {MACHINE, PLACEMENTS, OBSERVED_AT}


def test_an_exporter_that_is_late_takes_nothing_from_what_an_agent_saw(written: Json) -> None:
    empty = {**written, "zones": [_as_if_empty(zone) for zone in written["zones"]]}
    [node] = seen(with_agent(empty)).nodes

    assert free_of(node, "cpu") == [0, 2]
    assert node.stock == Stock(bits([5, 7]), ((GPU, (0, 1)),))


def _as_if_empty(zone: Json) -> Json:
    return {**zone, "resources": [{**each, "available": each["allocatable"]} for each in zone["resources"]]}
