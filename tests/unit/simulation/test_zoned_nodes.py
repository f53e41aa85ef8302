"""Zones that are made up, and what pods of a trace ask of them."""

import pytest

from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node, Zone
from numalign.model.pod import Qos
from numalign.model.resources import MILLI, Resources, ZoneId
from numalign.simulation.trace import MIB, TraceNode, TracePod
from numalign.simulation.zone_cluster import ZoneNodes
from numalign.simulation.zoned_nodes import (
    GPU,
    GPU_SHARE,
    gpu_node,
    gpu_zones,
    question,
    with_free_gpus,
    zoned_node,
)
from tests.worlds.notation import table


def zoned(node: TraceNode, zones: int) -> Node:
    return zoned_node("n", node, zones=zones, policy=Policy.RESTRICTED, scope=Scope.POD)


def test_node_is_split_evenly() -> None:
    node = zoned(TraceNode(96_000, 1024 * MIB, 8), 2)
    half = Resources({"cpu": 48_000, "memory": 512 * MIB, GPU: 4, GPU_SHARE: 1000})
    assert [zone.allocatable for zone in node.zones] == [half, half]
    assert [zone.free for zone in node.zones] == [half, half]
    assert (node.policy, node.scope) == (Policy.RESTRICTED, Scope.POD)


def test_remainders_are_spread_in_whole_pieces() -> None:
    node = zoned(TraceNode(34_500, 7 * MIB, 2), 4)
    assert [zone.allocatable["cpu"] // MILLI for zone in node.zones] == [8, 9, 8, 9]
    assert [zone.allocatable["memory"] // MIB for zone in node.zones] == [1, 2, 2, 2]
    # A GPU at each of the two sockets.
    assert [zone.allocatable.get(GPU, 0) for zone in node.zones] == [0, 1, 0, 1]
    assert gpu_zones(TraceNode(34_500, 7 * MIB, 2), 4) == [1, 3]


def test_small_node_is_one_zone_and_sockets_have_near_ones() -> None:
    sizes = [len(zoned(TraceNode(cpus, 1024 * MIB, 2), 4).zones) for cpus in (16_000, 17_000)]
    assert sizes == [1, 4]
    (first, *_) = zoned(TraceNode(96_000, 1024 * MIB), 4).zones
    assert [cost for _, cost in first.costs] == [10, 12, 21, 21]


def test_free_share_of_a_zone_is_that_of_its_emptiest_gpu() -> None:
    node = with_free_gpus(zoned(TraceNode(96_000, 1024 * MIB, 4), 2), [0, 0, 1, 1], [1000, 300, 200, 700])
    assert [(zone.free[GPU], zone.free[GPU_SHARE]) for zone in node.zones] == [(1, 1000), (0, 700)]


REQUESTS = [
    ("a share", TracePod(2000, MIB, 1, 300), Qos.GUARANTEED, {"cpu": 2000, "memory": MIB, GPU_SHARE: 300}),
    ("no whole CPUs", TracePod(2500, MIB, 2, 1000), Qos.GUARANTEED, {"memory": MIB, GPU: 2}),
    ("burstable",     TracePod(2000, MIB, 2, 1000, guaranteed=False), Qos.BURSTABLE, {GPU: 2}),
    ("no GPU",        TracePod(2000, MIB), Qos.GUARANTEED, {"cpu": 2000, "memory": MIB}),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "qos", "asks"), table(REQUESTS))
def test_pod_requests_from_the_kubelet(pod: TracePod, qos: Qos, asks: dict[str, int]) -> None:
    demand = question(pod).demand
    assert (demand.qos, dict(demand.whole.requests)) == (qos, asks)


# Nodes of a cluster, as replays have them.


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
