"""Nodes beside whose kubelets an agent sits: what of its word counts, and what it costs to hear it."""

from functools import partial
from types import ModuleType
from typing import Any

import pytest

from numalign.kube import kinds
from numalign.kube.cluster_state import ClusterState, Snapshot
from numalign.kube.decode import kubelet_reports, nrt
from numalign.kube.decode.kubelet_reports import LONGEST_MACHINE, ObservedPlacement
from numalign.kube.files import snapshot
from numalign.lru import MOST_BYTES
from numalign.memory_size import weight
from numalign.model.bitset import bits
from numalign.model.intent import Policy
from numalign.model.machine import MOST_CPUS, Stock
from numalign.model.node import Known, node_class
from numalign.shapes.history import MOST_MACHINE_BYTES
from tests.worlds.notation import bag, free_of, table
from tests.worlds.objects import GIB, STATIC_KUBELET, Json, configuration, machine_zone, node, reported
from tests.worlds.objects import nrt as topology

ZONES = ("node-0", "node-1")
MACHINE: Json = {
    "zones": [machine_zone(0, reservedMemory=None), machine_zone(1, reservedMemory=None)],
    "reservedSystemCPUs": "0",
    "devices": {
        "x/gpu": [{"zones": [0], "total": 2, "healthy": 2}, {"zones": [0, 1], "total": 1, "healthy": 1}]
    },
}
ONE: Json = {
    "held": [
        {"zones": ["node-1"], "amount": {"cpu": "2"}},
        {"zones": ["node-0"], "amount": {"x/gpu": "1"}},
        {"zones": ["node-0", "node-1"], "amount": {"x/gpu": "1"}},
    ],
    "cpus": "4,6",
}


def told(described: object = MACHINE, *, cpu: object = 4, available: object = None, **beside: Any) -> Json:  # noqa: ANN401  as of `reported`
    return reported(topology("a", *ZONES, cpu=cpu, available=available), described, **beside)


def world(*objects: Json) -> ClusterState:
    state = ClusterState()
    for made in objects:
        state.topologies.put(made["metadata"]["name"], made)
    return state


def said(seen: Snapshot) -> list[str]:
    return [str(problem) for problem in seen.problems]


def test_an_agent_makes_the_machine_of_its_node_known() -> None:
    seen = world(told(**{"observed-at": "2026-11-22T21:00:00Z"})).snapshot()
    [known] = seen.nodes

    assert (known.known, known.policy, known.options.minor) == (Known.MACHINE, Policy.SINGLE_NUMA_NODE, 34)
    assert known.stock == Stock(bits(range(1, 8)), (("x/gpu", (2, 0, 1)),))
    assert free_of(known, "cpu") == [3, 4]
    assert (seen.observed_at, seen.problems) == ({"a": 1795381200.0}, ())


def test_what_agents_wrote_is_remembered_where_metrics_see_it() -> None:
    state = world(told(), {**told(), "metadata": {**told()["metadata"], "name": "b"}})
    state.snapshot()

    assert {name: len(cache) for name, cache in state.caches().items()} == {
        "machine_reports": 1,
        "machines": 1,
    }
    assert all(cache.bytes > 100 for cache in state.caches().values())


def test_what_its_pods_hold_is_taken_cpu_by_cpu() -> None:
    seen = world(told(pods={"u": ONE, "v": {"held": []}})).snapshot()

    assert seen.placements == {
        "a": {
            "u": ObservedPlacement(
                {
                    ("node-1",): bag("cpu=2"),
                    ("node-0",): bag("x/gpu=1"),
                    ("node-0", "node-1"): bag("x/gpu=1"),
                },
                bits([4, 6]),
            ),
            "v": ObservedPlacement({}, 0),
        }
    }
    [known] = seen.nodes
    assert known.stock == Stock(bits([1, 2, 3, 5, 7]), (("x/gpu", (1, 0, 0)),))
    assert free_of(known, "cpu") == [3, 2]
    assert [zone.free["x/gpu"] for zone in known.zones] == [1, 0]


def test_blocks_of_memory_bind_the_zones_that_they_lie_on() -> None:
    held = {"held": [{"zones": [*ZONES], "amount": {"memory": "9Gi"}}]}
    kubelet = {
        **STATIC_KUBELET,
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "restricted",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "systemReserved": {"memory": "924Mi"},
    }
    [known] = world(told(pods={"u": held}, kubelet=kubelet)).snapshot().nodes

    assert [zone.cells for zone in known.zones] == [{0, 1}, {0, 1}]
    assert sum(zone.free["memory"] for zone in known.zones) == 6 * GIB


def test_no_zone_has_more_free_than_the_topology_says_for_there_may_be_pods_that_nobody_can_tell() -> None:
    [known] = world(told(pods={"u": ONE}, cpu=4, available=1)).snapshot().nodes

    assert free_of(known, "cpu") == [1, 1]
    assert known.stock == Stock(bits([3, 7]), (("x/gpu", (1, 0, 0)),))
    assert free_of(known.in_health(), "cpu") == [3, 4]


def test_the_kubelets_own_word_counts_before_what_others_heard_of_it() -> None:
    state = world(told())
    state.nodes.put("a", {**node("a"), "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}})
    state.configurations.put("a", configuration("a", topologyManagerPolicy="restricted"))

    [known] = state.snapshot().nodes
    assert (known.policy, known.options.minor) == (Policy.SINGLE_NUMA_NODE, 34)


FALLS_BACK = [
    ("a version that nobody knows", reported(topology("a"), machine='{"version": 9}'),
        "machine].version: 9 is not a supported version: expected 1"),
    ("a text that is too long", reported(topology("a"), machine="x" * (LONGEST_MACHINE + 1)),
        "machine]: has 98305 bytes: at most 98304 are allowed"),
    ("a text that is none", reported(topology("a"), machine=7), "machine]: must be a string, not a number"),
    ("half a machine", told({"zones": [machine_zone(cores=[[0], [0]])]}),
        "machine].machine.zones[0].cores[1][0]: CPU 0 is also listed at machine.zones[0].cores[0][0]"),
    ("a machine of other zones", told({**MACHINE, "zones": [machine_zone(0)], "devices": {}}),
        "machine].machine.zones: zone 1 of the topology is not on this machine"),
    ("a machine that contradicts its kubelet", told(kubelet={**STATIC_KUBELET, "reservedSystemCPUs": "1"}),
        'machine].kubelet.reservedSystemCPUs: "1" contradicts the machine: "0"'),
]  # fmt: skip


@pytest.mark.parametrize(("written", "reason"), table(FALLS_BACK))
def test_a_report_that_cannot_be_believed_leaves_the_node_to_its_amounts(written: Json, reason: str) -> None:
    seen = world(written).snapshot()

    assert [known.known for known in seen.nodes] == [Known.COUNTS]
    assert said(seen) == [f"NodeResourceTopology a: metadata.annotations[numalign.io/{reason}"]


def test_a_report_with_an_unknown_option_counts_without_it() -> None:
    options = {"cpuManagerPolicyOptions": {"new": "true"}, "topologyManagerPolicyOptions": {"newer": "1"}}
    seen = world(told(kubelet={**STATIC_KUBELET, **options})).snapshot()

    [known] = seen.nodes
    assert (known.known, known.options.unknown) == (Known.MACHINE, frozenset({"new", "newer"}))
    assert said(seen) == []


def test_without_a_report_that_can_be_believed_the_configuration_counts_that_others_heard() -> None:
    state = world(told({"zones": []}))
    state.configurations.put("a", configuration("a", topologyManagerPolicy="restricted"))

    [known] = state.snapshot().nodes
    assert (known.known, known.policy) == (Known.CONFIGURED, Policy.RESTRICTED)


STRANGE = [
    ("a zone that is not there", {"held": [{"zones": ["node-7"], "amount": {"cpu": 1}}]},
        ["pods.u.held: names a zone that is not on this machine"]),
    ("a CPU that is not there", {"held": [], "cpus": "7-9"}, ["pods.u.cpus: CPU 8-9 is not on this machine"]),
    ("a CPU that another pod holds", {"held": [], "cpus": "5-6"},
        ["pods.u.cpus: CPU 6 is also held by another pod"]),
    ("more than there is", {"held": [{"zones": ["node-0"], "amount": {"x/gpu": 3}}]},
        ["pods: hold 2 more x/gpu than zone 0 can allocate", "pods: hold more x/gpu than their zones have"]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "reasons"), table(STRANGE))
def test_placements_that_contradict_the_machine_leave_its_amounts_to_the_topology(
    pod: Json, reasons: list[str]
) -> None:
    seen = world(told(available=2, pods={"one": ONE, "u": pod})).snapshot()
    [known] = seen.nodes

    where = "NodeResourceTopology a: metadata.annotations[numalign.io/placements]"
    assert said(seen) == ["\n".join(f"{where}.{reason}" for reason in reasons)]
    assert (known.known, free_of(known, "cpu")) == (Known.MACHINE, [2, 2])
    assert known.stock == Stock(bits([2, 3, 6, 7]), (("x/gpu", (2, 0, 1)),))


def test_placements_that_cannot_be_read_are_told_and_nobody_is_said_to_hold_anything() -> None:
    seen = world(told(pods={"u": {}})).snapshot()

    assert (seen.placements, [known.known for known in seen.nodes]) == ({}, [Known.MACHINE])
    assert said(seen) == [
        "NodeResourceTopology a: metadata.annotations[numalign.io/placements].pods.u.held: is missing"
    ]


def test_a_moment_that_is_none_is_told() -> None:
    seen = world(told(**{"observed-at": "noon"})).snapshot()

    assert seen.observed_at == {"a": None}
    assert said(seen) == [
        (
            'NodeResourceTopology a: metadata.annotations[numalign.io/observed-at]: "noon" is not a time'
            " such as 2026-01-02T03:04:05Z"
        )
    ]


def test_when_an_agent_looked_again_and_saw_the_same_nothing_is_put_together_anew() -> None:
    state = world(told(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:00:00Z"}))
    before, version = state.snapshot(), state.version
    state.topologies.put("a", told(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:05:00Z"}))

    assert (state.version, state.topologies.changed) == (version, set())
    # Whoever holds the older snapshot knows that the agent lives.
    assert before.observed_at == {"a": 1795381500.0}


def test_no_node_is_remembered_for_having_had_an_agent() -> None:
    """Nodes come and go under ever new names, for as long as a process lives."""
    state = world(told(**{"observed-at": "2026-11-22T21:00:00Z"}))
    state.topologies.drop("a")
    state.snapshot()

    assert state.topologies.observed_at.changed == set()


def test_only_what_was_written_anew_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def count(module: ModuleType, name: str) -> None:
        real = getattr(module, name)

        def counted(*arguments: object) -> object:
            decoded.append(name)
            return real(*arguments)

        monkeypatch.setattr(module, name, counted)

    count(kubelet_reports, "read_machine")
    count(kubelet_reports, "read_placements")
    count(nrt, "topology")
    machine = {**MACHINE, "reservedSystemCPUs": "0-1"}
    state, steps = (
        ClusterState(),
        [
            told(machine),
            told(machine, pods={"u": ONE}),
            told(machine, pods={"u": {"held": []}}, **{"observed-at": "2026-11-22T21:05:00Z"}),
            told(machine, available=3),
        ],
    )
    for step in steps:
        decoded.append("|")
        state.topologies.put("a", step)
    decoded.append("|")
    state.topologies.put("b", {**told(machine), "metadata": {**told(machine)["metadata"], "name": "b"}})

    # Another node of the same machine has the same report.
    assert decoded == [
        "|", "topology", "read_machine",
        "|", "read_placements",
        "|", "read_placements",
        "|", "topology",
        "|", "topology",
    ]  # fmt: skip


def test_a_machine_stays_the_very_same_while_pods_come_and_go() -> None:
    state = world(told())
    [before] = state.snapshot().nodes
    state.topologies.put("a", told(pods={"u": ONE}, available=2))
    [after] = state.snapshot().nodes

    assert after.machine is before.machine
    assert after != before


def test_what_an_agent_wrote_is_kept_of_a_topology_and_nothing_else_that_is_written_beside_it() -> None:
    written = told(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:00:00Z"})
    annotations = written["metadata"]["annotations"]
    more = {
        **annotations,
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "numalign.io/policy": "x",
    }
    kept = kinds.TOPOLOGIES[0].described({**written, "metadata": {"name": "a", "annotations": more}})

    assert kept["metadata"] == {"name": "a", "annotations": annotations}
    # So a file of it tells as much as the cluster.
    assert snapshot.of([kept]).nodes == world(written).snapshot().nodes


def test_an_agent_that_is_taken_away_leaves_what_exporters_say() -> None:
    state = world(told(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:00:00Z"}))
    state.snapshot()
    state.topologies.put("a", topology("a", *ZONES, cpu=4, available=3))
    seen = state.snapshot()

    assert [known.known for known in seen.nodes] == [Known.COUNTS]
    assert (seen.placements, seen.observed_at, free_of(seen.nodes[0], "cpu")) == ({}, {}, [3, 3])


@pytest.mark.parametrize("gone", ["drop", "keep"])
def test_nothing_is_left_of_a_node_that_is_gone(gone: str) -> None:
    state = world(told(pods={"u": ONE}, **{"observed-at": "2026-11-22T21:00:00Z"}))
    state.snapshot()
    leave = {"drop": partial(state.topologies.drop, "a"), "keep": partial(state.topologies.keep, set())}
    leave[gone]()
    seen = state.snapshot()

    assert (seen.nodes, seen.placements, seen.observed_at) == ((), {}, {})


MACHINES = 40
"""More than is remembered."""


@pytest.mark.full
def test_an_agent_that_tells_of_another_machine_each_time_does_not_fill_the_memory() -> None:
    # Late ids make a set of CPUs large, however few are in it.
    cores = [[cpu] for cpu in range(MOST_CPUS - 600, MOST_CPUS)]
    state = ClusterState()
    for socket in range(MACHINES):
        zone = machine_zone(cores=cores, socket=socket, reservedMemory=None)
        described = {"zones": [zone], "reservedSystemCPUs": str(MOST_CPUS - 1)}
        state.topologies.put("a", reported(topology("a", cpu=len(cores)), described))
        [known] = state.snapshot().nodes

    most = MOST_BYTES + MOST_MACHINE_BYTES
    assert weight(state) < most < MACHINES * weight(known.machine)
    # What is not kept as it was described is still known by its amounts.
    assert {each.shape.node_class for each in state.shape_history.shapes()} == {node_class(known)}


def test_nodes_that_tell_the_same_have_one_machine() -> None:
    state = ClusterState()
    for name in ("a", "b"):
        state.topologies.put(name, reported(topology(name, *ZONES, cpu=4), MACHINE))

    one, other = state.snapshot().nodes
    assert one.machine is other.machine
