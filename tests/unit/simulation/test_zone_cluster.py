"""Placing pods on nodes whose kubelets align, on cases worked out by hand, and laws of it."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.model.intent import Policy, Scope
from numalign.simulation.fragments import TypicalPod, typical_pods
from numalign.simulation.trace import MIB, WHOLE_GPU, Trace, TraceNode, TracePod
from numalign.simulation.zone_cluster import ATTEMPTS, AskedPod, GpuNode, ZoneCluster, ZoneNodes
from numalign.simulation.zone_gradient import ZoneFragmentMeasure, ZoneGradient
from numalign.simulation.zone_replay import Zoning, replay_on_zones
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from numalign.simulation.zoned_nodes import GPU, GPU_SHARE, question

NODE = TraceNode(32_000, 1024 * MIB, 2)
TEN_CPUS = TracePod(10_000, MIB, 1, 500)
TWO_GPUS = TracePod(18_000, MIB, 2, 1000)


def zone_nodes(*nodes: TraceNode, policy: Policy = Policy.RESTRICTED, zones: int = 2) -> ZoneNodes:
    return ZoneNodes(Zoning(zones, policy).nodes_of(Trace(nodes, [])))


def cluster(nodes: ZoneNodes, scheduler: str, *typical: TracePod) -> ZoneCluster:
    frequent = [TypicalPod(pod, 1 / len(typical)) for pod in typical]
    return ZoneCluster(nodes, ZONE_SCHEDULERS[scheduler](np.random.default_rng(1), frequent), frequent)


@pytest.mark.parametrize(("scheduler", "refusals"), [("stock", ATTEMPTS), ("gate", 0), ("scorer", 0)])
def test_twelve_cpus_in_two_zones_are_no_ten_cpus_in_one(scheduler: str, refusals: int) -> None:
    """Of 16 CPUs in each zone 10 are taken: the node has enough for a third pod, and no zone has."""
    nodes = zone_nodes(NODE)
    found = cluster(nodes, scheduler, TEN_CPUS)
    for _ in range(3):
        found.place(0, TEN_CPUS)
    assert nodes.columns.cpu.tolist() == [12_000]
    assert nodes.columns.gpus.tolist() == [[500, 500]]
    assert found.sample(0).refusals == refusals
    # Both halves of a GPU would be of use if the node had no zones.
    assert found.fragments() == (1000, 1000)
    now = found.sample(2500)
    assert (now.pods, now.aligned, now.turned_away) == (3, 2, 1)
    assert (now.free_cpus, now.free_gpus) == (6, 0)


def test_a_pod_that_no_node_has_room_for_in_total_is_not_turned_away_by_zones() -> None:
    found = cluster(zone_nodes(NODE), "stock", TEN_CPUS)
    found.place(0, TracePod(40_000, MIB))
    assert (found.sample(0).pods, found.sample(0).turned_away) == (1, 0)


def test_the_most_that_is_free_in_one_zone_is_a_mean_over_nodes() -> None:
    nodes = zone_nodes(NODE, NODE)
    one_gpu = TracePod(10_000, MIB, 1, 1000)
    for _ in range(2):
        nodes.put(0, one_gpu, nodes.admission(0, question(one_gpu)))
    # Each zone of the first node has 6 CPUs left and no GPU; the second node is empty.
    now = cluster(nodes, "stock", TEN_CPUS).sample(0)
    assert (now.free_cpus, now.free_gpus) == ((6 + 16) / 2, 1 / 2)


def test_what_could_never_be_is_not_tried_with_the_webhook() -> None:
    single = zone_nodes(NODE, policy=Policy.SINGLE_NUMA_NODE)
    for scheduler, refusals in (("stock", ATTEMPTS), ("webhook", 0), ("gate", 0)):
        found = cluster(single, scheduler, TWO_GPUS)
        found.place(0, TWO_GPUS)
        assert (found.sample(0).refusals, found.columns.free_gpu_milli) == (refusals, 2000)


def test_fragments_of_a_node_that_takes_the_pod_are_what_is_too_small() -> None:
    nodes = zone_nodes(NODE)
    found = cluster(nodes, "gate", TracePod(1000, MIB, 1, 800), TracePod(1000, MIB))
    found.place(0, TEN_CPUS)
    # For the first: 500 of 1500. For the second, which has no use for GPUs: 1500.
    assert found.fragments() == (1000, 0)


def test_a_pod_gets_the_gpu_of_its_zone() -> None:
    nodes = zone_nodes(TraceNode(32_000, 1024 * MIB, 4))
    found = cluster(nodes, "gate", TEN_CPUS)
    for _ in range(2):
        found.place(0, TEN_CPUS)
    # Ten CPUs are left in neither zone, so the second pod is in the other zone.
    assert nodes.columns.gpus.tolist() == [[500, 1000, 500, 1000]]
    small = TracePod(1000, MIB, 1, 400)
    found.place(1, small)
    # The kubelet takes the first zone, and there the GPU that is in use has enough left.
    assert nodes.columns.gpus.tolist() == [[100, 1000, 500, 1000]]
    zone = nodes.cache.nodes.node(0).zones[0]
    assert (zone.free[GPU], zone.free[GPU_SHARE]) == (1, 1000)


def test_gpus_of_both_zones_go_to_a_pod_that_needs_them() -> None:
    nodes = zone_nodes(TraceNode(32_000, 1024 * MIB, 4))
    found = cluster(nodes, "gate", TWO_GPUS)
    found.place(0, TracePod(20_000, 768 * MIB, 3, 1000))
    assert sorted(nodes.columns.gpus[0].tolist()) == [0, 0, 0, 1000]
    assert sum(zone.free[GPU] for zone in nodes.cache.nodes.node(0).zones) == 1


def test_what_runs_there_already_is_taken() -> None:
    (node,) = Zoning(2, Policy.RESTRICTED).nodes_of(Trace([NODE], []))
    held = GpuNode(node.zoned, node.counted, node.gpu_zones, TracePod(30_000, 0, 1, 1000), [1])
    nodes = ZoneNodes([held])
    assert (nodes.columns.cpu.tolist(), nodes.columns.gpus.tolist()) == ([2000], [[1000, 0]])
    assert (nodes.columns.gpu_milli, nodes.columns.free_gpu_milli) == (2000, 1000)


def test_the_gradient_leaves_whole_zones_to_pods_that_need_them() -> None:
    """On the second node half a zone's CPUs are gone: what is left there is of no use to others anyway."""
    nodes = zone_nodes(NODE, NODE)
    large = TracePod(16_000, MIB, 1, 1000)
    nodes.put(1, TEN_CPUS, nodes.admission(1, question(TEN_CPUS)))
    found = cluster(nodes, "FragmentationGradient", large)
    found.place(0, TracePod(4000, MIB, 1, 500))
    assert nodes.columns.gpus.tolist() == [[1000, 1000], [0, 1000]]


machines = st.builds(TraceNode, st.sampled_from([8000, 24_000, 32_000]), st.just(64 * MIB), st.integers(0, 4))
shapes = st.builds(
    lambda cpu, memory, gpus, share, guaranteed: TracePod(
        cpu,
        memory * MIB,
        gpus,
        (share if gpus == 1 else WHOLE_GPU) if gpus else 0,
        guaranteed=guaranteed,
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
def test_when_all_pods_have_ended_nothing_is_taken(
    trace: Trace, zones: int, policy: Policy, chance: Random
) -> None:
    nodes = ZoneNodes(Zoning(zones, policy).nodes_of(trace))
    before = taken(nodes)
    found = cluster(nodes, "gate", *trace.pods)
    placed = [one for pod in trace.pods if (one := found.place(0, pod))]
    chance.shuffle(placed)
    for one in placed:
        found.end(one)
    assert taken(nodes) == before


def taken(nodes: ZoneNodes) -> object:
    """All that is left of each node."""
    zones = [zone for row in range(len(nodes.names)) for zone in nodes.cache.nodes.node(row).zones]
    columns = nodes.columns
    left = columns.cpu.tolist(), columns.memory.tolist(), columns.gpus.tolist()
    return left, [(zone.free, zone.assignments) for zone in zones]


@settings(max_examples=30)
@given(traces, st.integers(1, 4), aligning, st.sampled_from(Scope), schedulers)
def test_the_books_balance(trace: Trace, zones: int, policy: Policy, scope: Scope, scheduler: str) -> None:
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
def test_zones_have_what_gpus_and_cpus_are_left(trace: Trace, zones: int, policy: Policy) -> None:
    nodes = zone_nodes(*trace.nodes, policy=policy, zones=zones)
    typical = typical_pods(trace.pods)
    found = ZoneCluster(nodes, ZONE_SCHEDULERS["gate"](np.random.default_rng(1), typical), typical)
    for shape, pod in enumerate([*trace.pods, *trace.pods]):
        found.place(shape, pod)
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


@settings(max_examples=20)
@given(traces, st.integers(1, 3))
def test_what_the_gradient_keeps_is_what_comes_out_anew(trace: Trace, zones: int) -> None:
    kept_nodes, new_nodes = (zone_nodes(*trace.nodes, zones=zones) for _ in range(2))
    typical = typical_pods(trace.pods)
    kept = ZoneGradient(typical)
    for pod in [*trace.pods, *trace.pods, *trace.pods]:
        _place(kept_nodes, kept, pod)
        _place(new_nodes, ZoneGradient(typical), pod)
        assert (kept_nodes.columns.gpus == new_nodes.columns.gpus).all()
    measure = ZoneFragmentMeasure(typical)
    every = np.arange(len(trace.nodes))
    total, _ = ZoneCluster(kept_nodes, kept, typical).fragments()
    assert measure(kept_nodes.cache, kept_nodes.columns, every).sum() == pytest.approx(total)


def _place(nodes: ZoneNodes, scheduler: ZoneGradient, pod: TracePod) -> None:
    """Put a pod where the scheduler chooses."""
    every = np.arange(len(nodes.names))
    asked = AskedPod(pod, question(pod), every[nodes.columns.fits(pod, every)])
    row = scheduler.choose(nodes, asked)
    if row is not None:
        nodes.put(row, pod, nodes.admission(row, asked.question))
