"""A cluster put together from objects that come, change and go in any order."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.cluster_state import ClusterState, Snapshot
from numalign.kube.decode import shapes
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.files import snapshot
from numalign.kube.stores import Store
from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import CLASS_LABEL, NamespaceRules, Policy, Scope
from numalign.model.node import CpuManager, Known
from numalign.model.steps import finished
from numalign.shapes import ShapeHistory, UnknownNode
from numalign.shapes.history import LOSS_SECONDS
from tests.worlds.notation import bag
from tests.worlds.objects import (
    Json,
    configuration,
    machine_zone,
    namespace,
    node,
    nrt,
    numatopology,
    reported,
)

DRA = "deviceclass.resource.kubernetes.io"
BLUE = {"numalign.io/class": "blue"}


def test_a_node_is_known_once_its_topology_is() -> None:
    world = ClusterState()
    world.nodes.put("a", node("a"))
    before = world.snapshot()
    world.topologies.put("a", nrt("a"))
    after = world.snapshot()

    assert (before.nodes, before.unknown) == ((), ("a",))
    assert ([each.name for each in after.nodes], after.unknown) == (["a"], ())


def test_a_node_that_lost_its_topology_is_unknown_and_one_that_lost_its_node_is_a_ghost() -> None:
    world = ClusterState()
    for name in "ab":
        world.nodes.put(name, node(name))
        world.topologies.put(name, nrt(name))
    world.topologies.drop("a")
    world.nodes.drop("b")

    seen = world.snapshot()
    assert (seen.nodes, seen.unknown, [*seen.labels]) == ((), ("a",), ["a"])
    assert [str(problem) for problem in seen.problems] == [
        "NodeResourceTopology b: metadata.name: no Node of this name: its exporter left it behind"
    ]


def stepwise(
    world: ClusterState, seen: Callable[[Snapshot], object], *steps: Callable[[], None]
) -> list[object]:
    """What is seen at first, and after each step."""
    found = [seen(world.snapshot())]
    for step in steps:
        step()
        found.append(seen(world.snapshot()))
    return found


def names(seen: Snapshot) -> list[str]:
    return [each.name for each in seen.nodes]


ORPHANS = {
    "a file may hold topologies alone": (False, [["a", "b"], ["a"], ["a", "b"]]),
    "an API server tells of every node": (True, [[], ["a"], []]),
}


@pytest.mark.parametrize(("complete", "expected"), ORPHANS.values(), ids=ORPHANS)
def test_a_topology_without_a_node_is_an_orphan_where_nodes_are_told(
    complete: bool,  # noqa: FBT001  a column of the table
    expected: list[list[str]],
) -> None:
    world = ClusterState(complete=complete)
    for name in "ab":
        world.topologies.put(name, nrt(name))

    add, drop = partial(world.nodes.put, "a", node("a")), partial(world.nodes.drop, "a")
    assert stepwise(world, names, add, drop) == expected


def test_labels_are_those_that_nodes_carry_now() -> None:
    world = ClusterState()
    for name, cpu, labels in (("a", "8", BLUE), ("b", "8", {}), ("c", "many", BLUE)):
        world.nodes.put(name, node(name, cpu=cpu, **labels))

    # Of a Node that cannot be read nobody knows which label it has.
    assert world.snapshot().labels == {"a": "blue", "b": None}
    # A topology that breaks says nothing of a label, and one that is gone does.
    world.nodes.keep({"a"})
    put_nrt = partial(world.topologies.put, "a")
    steps = (
        partial(put_nrt, nrt("a")),
        partial(put_nrt, nrt("a", "left")),
        partial(world.topologies.drop, "a"),
    )
    assert stepwise(world, lambda seen: seen.labels, *steps)[1:] == [{"a": "blue"}, {}, {"a": "blue"}]


def test_labels_are_known_of_nodes_with_and_without_topology_and_stay_the_same_object() -> None:
    world = ClusterState()
    world.nodes.put("a", node("a", pool="gpu"))
    world.nodes.put("b", node("b", cpu="many", pool="gpu"))
    world.nodes.put("c", node("c", pool="cpu", rack="7"))
    world.topologies.put("c", nrt("c"))
    before = world.snapshot().node_labels
    world.nodes.put("a", node("a", pool="cpu"))
    after = world.snapshot().node_labels

    # Of a Node that cannot be read nobody knows its labels.
    assert before == {"a": Labels({"pool": "gpu"}), "c": Labels({"pool": "cpu", "rack": "7"})}
    assert after == {**before, "a": Labels({"pool": "cpu"})}
    # Whoever works something out by labels sees by this that it still holds.
    assert after["c"] is before["c"]


def test_a_topology_that_accounts_for_other_pods_has_changed_and_a_ghost_accounts_for_none() -> None:
    def seen_with(value: str) -> Json:
        return {**nrt("a"), "attributes": [{"name": "nodeTopologyPodsFingerprint", "value": value}]}

    none, one = "pfp0v001ef46db3751d8e999", "pfp0v0019e0420efb37746c6"
    world = ClusterState(complete=True)
    world.topologies.put("a", seen_with(none))
    ghost = world.snapshot()
    world.nodes.put("a", node("a"))
    before, version = world.snapshot(), world.version
    world.topologies.put("a", seen_with(one))

    assert (ghost.fingerprints, before.fingerprints) == ({}, {"a": Fingerprint(none)})
    assert world.version > version
    assert world.snapshot().fingerprints == {"a": Fingerprint(one)}


def test_what_was_put_together_is_not_remembered_as_changed() -> None:
    world = ClusterState()
    world.nodes.put("a", node("a"))
    world.topologies.put("a", nrt("a"))
    world.configurations.put("a", configuration("a"))
    world.namespaces.put("team", namespace("team"))
    world.snapshot()

    assert not any(
        shelf.changed for shelf in (world.nodes, world.topologies, world.configurations, world.namespaces)
    )


def test_what_changes_while_it_is_put_together_is_in_the_next_snapshot() -> None:
    world = ClusterState(complete=True)
    for at in range(40):
        world.nodes.put(f"n{at:02}", node(f"n{at:02}"))
        world.topologies.put(f"n{at:02}", nrt(f"n{at:02}"))
    work = world.work()
    next(work)
    world.topologies.drop("n00")
    world.nodes.put("late", node("late"))
    world.topologies.put("late", nrt("late"))
    finished(work)

    assert not any(shelf.changed for shelf in (world.nodes, world.topologies))
    assert names(world.snapshot()) == ["late", *(f"n{at:02}" for at in range(1, 40))]


def test_snapshots_share_what_did_not_change() -> None:
    world = ClusterState(complete=True)
    world.nodes.put("a", node("a"))
    world.topologies.put("a", nrt("a"))
    before = world.snapshot()
    world.topologies.put("a", nrt("a", available=3))
    after = world.snapshot()

    assert after.node_labels is before.node_labels
    assert after.labels is before.labels
    assert after.nodes != before.nodes


def test_a_configuration_that_comes_later_is_heard_and_one_that_goes_is_forgotten() -> None:
    world = ClusterState()
    world.topologies.put("a", nrt("a"))
    restricted = configuration("a", topologyManagerPolicy="restricted")

    steps = partial(world.configurations.put, "a", restricted), partial(world.configurations.drop, "a")
    assert stepwise(world, lambda seen: (seen.nodes[0].known, seen.nodes[0].policy), *steps) == [
        (Known.COUNTS, Policy.NONE),
        (Known.CONFIGURED, Policy.RESTRICTED),
        (Known.COUNTS, Policy.NONE),
    ]


def test_a_namespace_has_rules_and_all_of_its_labels() -> None:
    world = ClusterState()
    world.namespaces.put("team", namespace("team", **{"numalign.io/enforce": "restricted", "tier": "gold"}))

    seen = world.snapshot()
    assert seen.namespaces == {"team": NamespaceRules(enforce=Policy.RESTRICTED)}
    assert seen.namespace_labels == {"team": {"numalign.io/enforce": "restricted", "tier": "gold"}}


def test_what_no_kubelet_aligns_follows_the_nodes_and_counts_what_dra_serves() -> None:
    world = ClusterState()
    found = [world.snapshot().unhinted]
    for policy in ("none", "restricted"):
        attributes = [{"name": "topologyManagerPolicy", "value": policy}]
        world.topologies.put("a", nrt("a", "node-0", "node-1", attributes=attributes))
        found.append(world.snapshot().unhinted)
    served = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    world.device_classes.put("gpus", served)
    found.append(world.snapshot().unhinted)

    assert found == [{"memory"}, {"cpu", "memory"}, {"memory"}, {"memory", "nvidia.com/gpu", f"{DRA}/gpus"}]


def test_a_node_of_which_nothing_has_changed_is_the_very_same() -> None:
    world = ClusterState()
    for name in "ab":
        world.nodes.put(name, node(name))
        world.topologies.put(name, nrt(name))
    before = world.snapshot()
    world.nodes.put("a", node("a"))
    world.topologies.put("b", nrt("b", available=4))
    after = world.snapshot()

    assert after.nodes[0] is before.nodes[0]
    assert after.nodes[1] is not before.nodes[1]


def test_what_says_the_same_again_is_no_change() -> None:
    world = ClusterState()
    world.nodes.put("a", node("a"))
    world.topologies.put("a", nrt("a", "left"))
    version = world.version
    world.nodes.put("a", node("a"))
    world.topologies.put("a", nrt("a", "left"))
    world.nodes.drop("never heard of")

    assert world.version == version
    world.topologies.put("a", nrt("a"))
    assert world.version > version


def test_a_broken_object_is_told_of_until_it_is_mended_or_gone_and_is_no_longer_what_it_was() -> None:
    world = ClusterState()
    for name, zone in (("a", "node-0"), ("b", "left"), ("c", "node-0"), ("c", "left")):
        world.topologies.put(name, nrt(name, zone))

    def problems(seen: Snapshot) -> tuple[list[str], list[str]]:
        return names(seen), [problem.name for problem in seen.problems]

    steps = partial(world.topologies.put, "b", nrt("b")), partial(world.topologies.drop, "c")
    assert stepwise(world, problems, *steps) == [(["a"], ["b", "c"]), (["a", "b"], ["c"]), (["a", "b"], [])]


def test_an_odd_amount_is_told_of_and_the_node_is_known_without_it() -> None:
    world = ClusterState()
    world.topologies.put("a", nrt("a", "node-0", "node-1", cpu="x"))

    [known] = world.snapshot().nodes
    assert (len(known.zones), known.uncertain, known.cpu_manager) == (2, frozenset({"cpu"}), CpuManager.NONE)
    assert [problem.name for problem in world.snapshot().problems] == ["a"]


def test_after_a_whole_list_no_ghost_is_left() -> None:
    world = ClusterState()
    for name in "abc":
        world.nodes.put(name, node(name))
        world.topologies.put(name, nrt(name))
        world.namespaces.put(name, namespace(name))
    world.topologies.keep({"a"})
    world.nodes.keep({"a", "b"})
    world.namespaces.keep(set())

    seen = world.snapshot()
    assert ([each.name for each in seen.nodes], seen.unknown, seen.namespaces) == (["a"], ("b",), {})


ONE_ZONE = {"zones": [machine_zone(reservedMemory=None)], "reservedSystemCPUs": "0"}
HOLDS = {"held": [{"zones": ["node-0"], "amount": {"cpu": "1"}}], "cpus": "2"}
OBJECTS = [
    node("a"),
    nrt("a"),
    node("b", **{"numalign.io/class": "x"}),
    nrt("b", cpu="x"),
    namespace("team", **{"numalign.io/warn": "none"}),
    configuration("a", topologyManagerPolicy="restricted"),
    configuration("c"),
    node("d"),
    reported(nrt("d"), ONE_ZONE, pods={"u": HOLDS}, **{"observed-at": "2026-11-22T21:00:00Z"}),
    node("e"),
    numatopology("e"),
    numatopology("a"),
]


def put(world: ClusterState, made: Json) -> None:
    shelves: dict[str, Store[Any]] = {
        "Node": world.nodes,
        "NodeResourceTopology": world.topologies,
        "Namespace": world.namespaces,
        "KubeletConfiguration": world.configurations,
        "Numatopology": world.numatopologies,
    }
    shelves[made["kind"]].put(made["metadata"]["name"], made)


@given(st.permutations(OBJECTS), st.lists(st.sampled_from(OBJECTS)))
def test_the_order_in_which_objects_come_changes_nothing(order: list[Json], before: list[Json]) -> None:
    world = ClusterState()
    for made in before:
        put(world, made)
    world.snapshot()
    for made in order:
        put(world, made)

    seen, read = world.snapshot(), snapshot.of(OBJECTS)
    assert sorted(map(str, seen.problems)) == sorted(map(str, read.problems))
    for name in ("nodes", "unknown", "labels", "namespaces", "namespace_labels", "placements", "observed_at"):
        assert getattr(seen, name) == getattr(read, name)


@pytest.mark.parametrize("shelf", ["nodes", "topologies", "namespaces", "configurations"])
def test_an_object_that_makes_no_sense_at_all_is_a_problem(shelf: str) -> None:
    world = ClusterState()
    getattr(world, shelf).put("x", {"metadata": [1]})

    assert world.snapshot().problems
    assert isinstance(world.snapshot(), Snapshot)


# Volcano's exporter, where there is no other.


def test_a_node_of_which_volcanos_exporter_alone_tells_is_known_by_its_cpus() -> None:
    world = ClusterState()
    world.numatopologies.put("a", numatopology())
    [known] = world.snapshot().nodes

    assert (known.known, known.policy, known.threads) == (Known.COUNTS, Policy.RESTRICTED, 2)
    assert [zone.free["cpu"] for zone in known.zones] == [4000, 4000]


def test_any_other_exporter_counts_before_volcanos_even_if_it_makes_no_sense() -> None:
    world = ClusterState()
    world.numatopologies.put("a", numatopology())
    broken, whole = partial(world.topologies.put, "a", nrt("a", "left")), partial(world.topologies.put, "a")
    steps = broken, partial(whole, nrt("a")), partial(world.topologies.drop, "a")

    assert stepwise(world, lambda seen: [len(each.zones) for each in seen.nodes], *steps) == [
        [2],
        [],
        [1],
        [2],
    ]


def test_volcanos_exporter_leaves_orphans_and_mistakes_as_others_do() -> None:
    world = ClusterState(complete=True)
    world.nodes.put("a", node("a", **BLUE))
    world.numatopologies.put("a", numatopology(cpuDetail={}))
    world.numatopologies.put("b", numatopology("b"))
    seen = world.snapshot()

    assert (seen.nodes, seen.labels) == ((), {})
    assert sorted(map(str, seen.problems)) == [
        "Numatopology a: spec.cpuDetail: contains no CPU",
        "Numatopology b: metadata.name: no Node of this name: its exporter left it behind",
    ]


def test_what_is_configured_counts_beside_volcanos_exporter() -> None:
    world = ClusterState()
    world.numatopologies.put("a", numatopology())
    world.configurations.put("a", configuration("a", topologyManagerScope="pod"))
    world.nodes.put("a", node("a", **{"feature.node.kubernetes.io/cpu-hardware_multithreading": "false"}))
    seen = world.snapshot()

    assert [(each.known, each.scope, each.threads) for each in seen.nodes] == [
        (Known.CONFIGURED, Scope.POD, 1)
    ]
    assert not seen.problems
    assert snapshot.of([numatopology(), configuration("a", topologyManagerScope="pod")]).nodes


# What a node is, apart from how it is today.

GPU = "nvidia.com/gpu"


def gpu_node(name: str, gpus: int, *, uid: str = "u", **labels: str) -> Json:
    totals = {"cpu": "8", GPU: gpus}
    return {
        **node(name, **labels),
        "metadata": {"name": name, "labels": labels, "uid": uid},
        "status": {"allocatable": totals, "capacity": totals},
    }


def gpu_nrt(name: str, gpus: int) -> Json:
    amount = {"name": GPU, "capacity": gpus, "allocatable": gpus, "available": gpus}
    [zone] = nrt(name)["zones"]
    return {**nrt(name), "zones": [{**zone, "resources": [*zone["resources"], amount]}]}


def put_both(world: ClusterState, name: str, gpus: int, *, uid: str = "u", **labels: str) -> None:
    world.nodes.put(name, gpu_node(name, gpus, uid=uid, **labels))
    world.topologies.put(name, gpu_nrt(name, gpus))


def healths(world: ClusterState) -> dict[str, int | None]:
    """How many devices the nodes that are ill have in health; None of the others."""
    return {
        each.name: each.health.zones[0].allocatable.get(GPU, 0) if each.health else None
        for each in world.snapshot().nodes
    }


def test_a_node_that_loses_devices_is_ill_until_they_are_back() -> None:
    world = ClusterState()
    put_both(world, "a", 8)
    steps = [healths(world)]
    put_both(world, "a", 0)
    steps.append(healths(world))
    [shape] = world.snapshot().shapes
    put_both(world, "a", 8)
    steps.append(healths(world))

    assert steps == [{"a": None}, {"a": 8}, {"a": None}]
    assert (shape.nodes, shape.shape.node.zones[0].allocatable[GPU]) == (1, 8)


def test_a_node_that_was_rebuilt_with_less_is_another_one() -> None:
    world = ClusterState()
    put_both(world, "a", 8)
    healths(world)
    put_both(world, "a", 4, uid="v")

    assert healths(world) == {"a": None}
    assert sorted((each.nodes, each.seen is None) for each in world.snapshot().shapes) == [
        (0, False),
        (1, True),
    ]


def test_a_label_says_what_a_node_was_before_anybody_looked() -> None:
    before = ClusterState()
    put_both(before, "b", 8)
    [known] = before.snapshot().shapes
    world = ClusterState()
    put_both(world, "a", 0, **{CLASS_LABEL: known.shape.node_class})
    steps = [healths(world)]
    put_both(world, "b", 8)
    steps.append(healths(world))

    # Whoever comes later may say what another one was: both are told anew.
    assert steps == [{"a": None}, {"a": 8, "b": None}]


def test_what_is_remembered_says_what_a_node_was() -> None:
    before = ClusterState()
    put_both(before, "a", 8)
    [known] = before.snapshot().shapes
    world = ClusterState()
    put_both(world, "a", 0, **{CLASS_LABEL: known.shape.node_class})
    world.snapshot()
    version = world.version
    world.remembered_shapes.put(shapes.NAME, {"data": shapes.encode(before.shape_history.to_remember())})

    assert world.version > version
    assert healths(world) == {"a": 8}


def test_the_capacity_of_a_node_says_what_it_is_in_health_where_nobody_saw_it() -> None:
    world = ClusterState()
    world.topologies.put("a", gpu_nrt("a", 0))
    told = gpu_node("a", 0)
    world.nodes.put("a", {**told, "status": {**told["status"], "capacity": {"cpu": "8", GPU: 8}}})

    [found] = world.snapshot().nodes
    assert found.health
    assert found.health.totals == bag("cpu=8 gpu=8")


def test_a_node_without_topology_is_told_with_what_its_node_says() -> None:
    world = ClusterState()
    world.nodes.put("a", gpu_node("a", 8, **{CLASS_LABEL: "blue"}))
    world.nodes.put("b", node("b", cpu="many"))

    assert world.snapshot().bare == {
        "a": UnknownNode(
            "a", bag("cpu=8 gpu=8"), Attributes(labels=Labels({CLASS_LABEL: "blue"})), label="blue"
        ),
        "b": UnknownNode("b"),
    }


def test_time_makes_a_loss_real_and_is_told() -> None:
    now = 0.0
    world = ClusterState(shape_history=ShapeHistory(wall=lambda: now))
    put_both(world, "a", 8)
    healths(world)
    put_both(world, "a", 4)
    steps, version = [healths(world)], world.version
    now = LOSS_SECONDS
    world.shape_history.expire()
    steps.append(healths(world))

    assert steps == [{"a": 8}, {"a": None}]
    assert world.version > version
