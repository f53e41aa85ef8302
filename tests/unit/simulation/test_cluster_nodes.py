"""Nodes of a cluster as replays have them."""

from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import Policy
from numalign.model.node import Node, Zone
from numalign.model.resources import Resources, ZoneId
from numalign.simulation.cluster_nodes import gpu_node
from numalign.simulation.trace import TraceNode, TracePod
from numalign.simulation.zone_cluster import ZoneNodes
from numalign.simulation.zoned_nodes import GPU, GPU_SHARE


def zone(number: int, cpu: int, gpus: int | None, free_gpus: int = 0) -> Zone:
    most = {"cpu": 16_000, "memory": 64, "example.com/nic": 1}
    free = {**most, "cpu": cpu}
    if gpus is not None:
        most, free = {**most, "amd.com/gpu": gpus}, {**free, "amd.com/gpu": free_gpus}
    return Zone(ZoneId(number), f"node-{number}", Resources(most), Resources(most), Resources(free))


def node(*zones: Zone) -> Node:
    attributes = Attributes(labels=Labels({"model": "MI300X"}))
    return Node("n", zones, policy=Policy.RESTRICTED, attributes=attributes)


def test_amounts_in_use_count_as_whole_gpus() -> None:
    result = gpu_node(node(zone(0, 16_000, 3, 1), zone(3, 4000, 2, 2)), "amd.com/gpu", "model")
    assert result.counted == TraceNode(32_000, 128, 5, "MI300X")
    assert result.gpu_zones == [0, 0, 0, 1, 1]
    assert (result.held, result.held_gpus) == (TracePod(12_000, 0, 2, 1000), [1, 2])
    nodes = ZoneNodes([result])
    assert nodes.columns.gpus.tolist() == [[1000, 0, 0, 1000, 1000]]
    assert nodes.columns.cpu.tolist() == [20_000]


def test_zones_keep_gpus_and_shares_only() -> None:
    result = gpu_node(node(zone(0, 16_000, 1, 0), zone(1, 16_000, None)), "amd.com/gpu", "model").zoned
    assert dict(result.zones[0].allocatable) == {"cpu": 16_000, "memory": 64, GPU: 1, GPU_SHARE: 1000}
    assert dict(result.zones[0].free) == {"cpu": 16_000, "memory": 64, GPU: 0, GPU_SHARE: 0}
    assert dict(result.zones[1].allocatable) == {"cpu": 16_000, "memory": 64}


def test_node_without_the_gpu_resource_has_no_gpu() -> None:
    result = gpu_node(node(zone(0, 16_000, 1, 1)), GPU, "other")
    assert (result.counted, result.gpu_zones) == (TraceNode(16_000, 64), [])
