"""Pods placed on nodes whose kubelets align: cases worked out by hand, and properties."""

from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.model.intent import Policy, Scope
from numalign.simulation.gpu_columns import TypicalPod, typical_pods
from numalign.simulation.trace import MIB, WHOLE_GPU, Trace, TraceNode, TracePod
from numalign.simulation.zone_cluster import ATTEMPTS, ZoneCluster, ZoneNodes
from numalign.simulation.zone_replay import Zoning, replay_on_zones
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from numalign.simulation.zoned_nodes import GPU, GPU_SHARE, GpuNode, question

NODE = TraceNode(32_000, 1024 * MIB, 2)
TEN_CPUS = TracePod(10_000, MIB, 1, 500)
TWO_GPUS = TracePod(18_000, MIB, 2, 1000)


def zone_nodes(*nodes: TraceNode, policy: Policy = Policy.RESTRICTED, zones: int = 2) -> ZoneNodes:
    return ZoneNodes(Zoning(zones, policy).nodes_of(Trace(nodes, [])))


def cluster(nodes: ZoneNodes, scheduler: str, *typical: TracePod) -> ZoneCluster:
    frequent = [TypicalPod(pod, 1 / len(typical)) for pod in typical]
    choose = partial(ZONE_SCHEDULERS[scheduler], np.random.default_rng(1))
    return ZoneCluster(nodes, choose, frequent)


@pytest.mark.parametrize(("scheduler", "refusals"), [("stock", ATTEMPTS), ("gate", 0), ("scorer", 0)])
def test_room_spread_over_zones_turns_a_pod_away(scheduler: str, refusals: int) -> None:
    """Of 16 CPUs in each zone 10 are taken: the node has enough for a third pod, and no zone has."""
    nodes = zone_nodes(NODE)
    placing = cluster(nodes, scheduler, TEN_CPUS)
    for _ in range(3):
        placing.place(TEN_CPUS)
    assert nodes.columns.cpu.tolist() == [12_000]
    assert nodes.columns.gpus.tolist() == [[500, 500]]
    assert placing.sample(0).refusals == refusals
    # Both halves of a GPU would be of use if the node had no zones.
    assert placing.fragments() == (1000, 1000)
    now = placing.sample(2500)
    assert (now.pods, now.aligned, now.turned_away) == (3, 2, 1)
    assert (now.free_cpus, now.free_gpus) == (6, 0)


def test_largest_free_zone_is_a_mean_over_nodes() -> None:
    nodes = zone_nodes(NODE, NODE)
    one_gpu = TracePod(10_000, MIB, 1, 1000)
    for _ in range(2):
        nodes.put(0, one_gpu, nodes.admission(0, question(one_gpu)))
    # Each zone of the first node has 6 CPUs left and no GPU; the second node is empty.
    now = cluster(nodes, "stock", TEN_CPUS).sample(0)
    assert (now.free_cpus, now.free_gpus) == ((6 + 16) / 2, 1 / 2)


def test_webhook_avoids_nodes_that_never_admit_the_pod() -> None:
    single = zone_nodes(NODE, policy=Policy.SINGLE_NUMA_NODE)
    for scheduler, refusals in (("stock", ATTEMPTS), ("webhook", 0), ("gate", 0)):
        placing = cluster(single, scheduler, TWO_GPUS)
        placing.place(TWO_GPUS)
        assert (placing.sample(0).refusals, placing.columns.free_gpu_milli) == (refusals, 2000)


def test_pod_gets_a_gpu_of_its_zone() -> None:
    nodes = zone_nodes(TraceNode(32_000, 1024 * MIB, 4))
    placing = cluster(nodes, "gate", TEN_CPUS)
    for _ in range(2):
        placing.place(TEN_CPUS)
    # Ten CPUs are left in neither zone, so the second pod is in the other zone.
    assert nodes.columns.gpus.tolist() == [[500, 1000, 500, 1000]]
    small = TracePod(1000, MIB, 1, 400)
    placing.place(small)
    # The kubelet takes the first zone, and there the GPU that is in use has enough left.
    assert nodes.columns.gpus.tolist() == [[100, 1000, 500, 1000]]
    zone = nodes.cache.nodes.node(0).zones[0]
    assert (zone.free[GPU], zone.free[GPU_SHARE]) == (1, 1000)


def test_pods_that_already_run_hold_their_gpus() -> None:
    (node,) = Zoning(2, Policy.RESTRICTED).nodes_of(Trace([NODE], []))
    held = GpuNode(node.zoned, node.counted, node.gpu_zones, TracePod(30_000, 0, 1, 1000), [1])
    nodes = ZoneNodes([held])
    assert (nodes.columns.cpu.tolist(), nodes.columns.gpus.tolist()) == ([2000], [[1000, 0]])
    assert (nodes.columns.gpu_milli, nodes.columns.free_gpu_milli) == (2000, 1000)


machines = st.builds(TraceNode, st.sampled_from([8000, 24_000, 32_000]), st.just(64 * MIB), st.integers(0, 4))
shapes = st.builds(
    lambda cpu, memory, gpus, share, guaranteed: TracePod(
        cpu, memory * MIB, gpus, (share if gpus == 1 else WHOLE_GPU) if gpus else 0, guaranteed=guaranteed
    ),
    st.sampled_from([500, 2000, 6000, 14_000]),
    st.integers(1, 24),
    st.integers(0, 3),
    st.sampled_from([100, 500, WHOLE_GPU]),
    st.booleans(),
)
traces = st.builds(
    Trace,
    st.lists(machines, min_size=1, max_size=4).filter(lambda every: any(node.gpus for node in every)),
    st.lists(shapes, min_size=1, max_size=10),
)
aligning = st.sampled_from([Policy.BEST_EFFORT, Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE])
schedulers = st.sampled_from(sorted(ZONE_SCHEDULERS))


@settings(max_examples=30)
@given(traces, st.integers(1, 4), aligning, st.randoms(use_true_random=False))
def test_nodes_are_empty_once_all_pods_ended(
    trace: Trace, zones: int, policy: Policy, chance: Random
) -> None:
    nodes = ZoneNodes(Zoning(zones, policy).nodes_of(trace))
    before = state(nodes)
    placing = cluster(nodes, "gate", *trace.pods)
    placed = [one for pod in trace.pods if (one := placing.place(pod))]
    chance.shuffle(placed)
    for one in placed:
        placing.end(one)
    assert state(nodes) == before


def state(nodes: ZoneNodes) -> object:
    """What is free on each node."""
    zones = [zone for row in range(len(nodes.names)) for zone in nodes.cache.nodes.node(row).zones]
    columns = nodes.columns
    amounts = columns.cpu.tolist(), columns.memory.tolist(), columns.gpus.tolist()
    return amounts, [(zone.free, zone.assignments) for zone in zones]


@settings(max_examples=30)
@given(traces, st.integers(1, 4), aligning, st.sampled_from(Scope), schedulers)
def test_allocated_stranded_and_fragments_are_bounded(
    trace: Trace, zones: int, policy: Policy, scope: Scope, scheduler: str
) -> None:
    nodes = Zoning(zones, policy, scope).nodes_of(trace)
    samples = list(replay_on_zones(nodes, trace, scheduler, ratio=1.5, seed=1))
    for sample in samples:
        assert 0 <= sample.allocated <= min(100, sample.arrived) + 1e-9
        assert -1e-6 <= sample.stranded <= sample.fragments + 1e-6
        assert sample.fragments <= 100 - sample.allocated + 1e-6
    if scheduler not in {"stock", "webhook"}:
        assert samples[-1].refusals == 0


@settings(max_examples=30)
@given(traces, st.integers(1, 4), aligning)
def test_free_of_zones_is_the_free_of_columns(trace: Trace, zones: int, policy: Policy) -> None:
    nodes = zone_nodes(*trace.nodes, policy=policy, zones=zones)
    typical = typical_pods(trace.pods)
    choose = partial(ZONE_SCHEDULERS["gate"], np.random.default_rng(1))
    placing = ZoneCluster(nodes, choose, typical)
    for pod in [*trace.pods, *trace.pods]:
        placing.place(pod)
    columns = nodes.columns
    assert (columns.cpu >= 0).all()
    assert (columns.memory >= 0).all()
    assert (columns.gpus >= 0).all()
    for row in range(len(trace.nodes)):
        gpus = columns.gpus[row].tolist()
        in_zones = nodes.cache.nodes.node(row).zones
        assert sum(zone.free.get(GPU, 0) for zone in in_zones) == gpus.count(WHOLE_GPU)
        assert max((zone.free.get(GPU_SHARE, 0) for zone in in_zones), default=0) == max(gpus, default=0)
        assert all(
            0 <= amount <= zone.allocatable[name] for zone in in_zones for name, amount in zone.free.items()
        )
