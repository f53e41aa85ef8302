"""A cluster put together from objects that come, change and go in any order."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.cluster import Cluster
from numalign.kube.cluster_state import ClusterState
from numalign.kube.files import snapshot
from numalign.kube.stores import Store
from numalign.model.attributes import Labels
from numalign.model.steps import finished
from numalign.shapes import ShapeHistory
from numalign.shapes.history import LOSS_SECONDS
from tests.worlds.clusters import published
from tests.worlds.notation import table
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


def stepwise(
    state: ClusterState, view: Callable[[Cluster], object], *steps: Callable[[], None]
) -> list[object]:
    values = [view(published(state))]
    for step in steps:
        step()
        values.append(view(published(state)))
    return values


def names(cluster: Cluster) -> list[str]:
    return [each.name for each in cluster.nodes]


def class_labels(cluster: Cluster) -> dict[str, str | None]:
    return {name: each.class_label for name, each in cluster.states.items() if each.classifiable}


@pytest.mark.parametrize(("complete", "expected"), table([
    ("a file may hold topologies alone", False, [["a", "b"], ["a"], ["a", "b"]]),
    ("an API server has every node", True, [[], ["a"], []]),
]))  # fmt: skip
def test_a_topology_without_a_node_is_an_orphan(
    complete: bool,  # noqa: FBT001  a column of the table
    expected: list[list[str]],
) -> None:
    state = ClusterState(complete=complete)
    for name in "ab":
        state.topologies.put(name, nrt(name))
    add, drop = partial(state.nodes.put, "a", node("a")), partial(state.nodes.drop, "a")
    assert stepwise(state, names, add, drop) == expected


def test_class_labels_are_those_of_the_nodes() -> None:
    state = ClusterState()
    for name, cpu, labels in (("a", "8", BLUE), ("b", "8", {}), ("c", "many", BLUE)):
        state.nodes.put(name, node(name, cpu=cpu, **labels))
    assert class_labels(published(state)) == {"a": "blue", "b": None}
    # The label of a broken topology is unknown, and that of a missing one is not.
    state.nodes.keep({"a"})
    steps = [partial(state.topologies.put, "a", nrt("a", zone)) for zone in ("node-0", "left")]
    seen_labels = stepwise(state, class_labels, *steps, partial(state.topologies.drop, "a"))
    assert seen_labels[1:] == [{"a": "blue"}, {}, {"a": "blue"}]


def test_all_labels_are_those_of_valid_nodes() -> None:
    state = ClusterState()
    state.nodes.put("a", node("a", pool="gpu"))
    state.nodes.put("b", node("b", cpu="many", pool="gpu"))
    state.nodes.put("c", node("c", pool="cpu", rack="7"))
    state.topologies.put("c", nrt("c"))
    before = dict(published(state).node_labels)
    state.nodes.put("a", node("a", pool="cpu"))
    after = published(state).node_labels
    assert before == {"a": Labels({"pool": "gpu"}), "c": Labels({"pool": "cpu", "rack": "7"})}
    assert after == {**before, "a": Labels({"pool": "cpu"})}
    assert after["c"] is before["c"]


def test_changes_while_others_are_published_come_too() -> None:
    state = ClusterState(complete=True)
    for at in range(40):
        state.nodes.put(f"n{at:02}", node(f"n{at:02}"))
        state.topologies.put(f"n{at:02}", nrt(f"n{at:02}"))
    work = state.publish()
    next(work)
    state.topologies.drop("n00")
    state.nodes.put("late", node("late"))
    state.topologies.put("late", nrt("late"))
    finished(work)
    assert not any(shelf.changed for shelf in (state.nodes, state.topologies))
    assert names(state.cluster) == ["late", *(f"n{at:02}" for at in range(1, 40))]


def test_unhinted_resources_follow_nodes_and_dra() -> None:
    state = ClusterState()
    values = [published(state).unhinted]
    for policy in ("none", "restricted"):
        attributes = [{"name": "topologyManagerPolicy", "value": policy}]
        state.topologies.put("a", nrt("a", "node-0", "node-1", attributes=attributes))
        values.append(published(state).unhinted)
    served = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    state.device_classes.put("gpus", served)
    values.append(published(state).unhinted)
    assert values == [{"memory"}, {"cpu", "memory"}, {"memory"}, {"memory", "nvidia.com/gpu", f"{DRA}/gpus"}]


def test_an_equal_object_is_no_change() -> None:
    state = ClusterState()
    for name in "ab":
        state.nodes.put(name, node(name))
        state.topologies.put(name, nrt(name))
    state.topologies.put("c", nrt("c", "left"))
    before, version = published(state).nodes, state.version
    state.nodes.put("a", node("a"))
    state.topologies.put("c", nrt("c", "left"))
    state.nodes.drop("unknown")
    assert state.version == version
    state.topologies.put("b", nrt("b", available=4))
    assert state.version > version
    first, second = published(state).nodes
    assert (first is before[0], second is before[1]) == (True, False)


def test_a_broken_object_is_a_problem_until_it_is_mended() -> None:
    state = ClusterState()
    for name, zone in (("a", "node-0"), ("b", "left"), ("c", "node-0"), ("c", "left")):
        state.topologies.put(name, nrt(name, zone))

    def problems(cluster: Cluster) -> tuple[list[str], list[str]]:
        return names(cluster), [problem.name for problem in cluster.problems]

    steps = partial(state.topologies.put, "b", nrt("b")), partial(state.topologies.drop, "c")
    assert stepwise(state, problems, *steps) == [(["a"], ["b", "c"]), (["a", "b"], ["c"]), (["a", "b"], [])]


def test_objects_outside_of_a_list_are_removed() -> None:
    state = ClusterState()
    for name in "abc":
        state.nodes.put(name, node(name))
        state.topologies.put(name, nrt(name))
        state.namespaces.put(name, namespace(name))
    state.topologies.keep({"a"})
    state.nodes.keep({"a", "b"})
    state.namespaces.keep(set())
    cluster = published(state)
    assert (names(cluster), cluster.unknown, cluster.namespaces) == (["a"], ("b",), {})


ONE_ZONE = {"zones": [machine_zone(reservedMemory=None)], "reservedSystemCPUs": "0"}
HOLDS = {"held": [{"zones": ["node-0"], "amount": {"cpu": "1"}}], "cpus": "2"}
OBJECTS = [
    node("a"), nrt("a"), configuration("a", topologyManagerPolicy="restricted"), numatopology("a"),
    node("b", **{"numalign.io/class": "x"}), nrt("b", cpu="x"), configuration("c"), node("d"),
    reported(nrt("d"), ONE_ZONE, pods={"u": HOLDS}, **{"observed-at": "2026-11-22T21:00:00Z"}),
    node("e"), numatopology("e"), namespace("team", **{"numalign.io/warn": "none"}),
]  # fmt: skip


def put(state: ClusterState, *objects: Json) -> None:
    shelves: dict[str, Store[Any]] = {"Node": state.nodes, "NodeResourceTopology": state.topologies,
        "Namespace": state.namespaces, "KubeletConfiguration": state.configurations,
        "Numatopology": state.numatopologies}  # fmt: skip
    for made in objects:
        shelves[made["kind"]].put(made["metadata"]["name"], made)


@given(st.permutations(OBJECTS), st.lists(st.sampled_from(OBJECTS)))
def test_the_order_of_objects_changes_nothing(order: list[Json], before: list[Json]) -> None:
    state = ClusterState()
    put(state, *before)
    published(state)
    put(state, *order)
    cluster, read = published(state), snapshot.of(OBJECTS)
    for name in ("states", "namespaces", "namespace_labels", "observed_at", "problems"):
        assert getattr(cluster, name) == getattr(read, name)


@pytest.mark.parametrize("shelf", ["nodes", "topologies", "namespaces", "configurations"])
def test_an_unreadable_object_is_a_problem(shelf: str) -> None:
    state = ClusterState()
    getattr(state, shelf).put("x", {"metadata": [1]})
    assert published(state).problems


def test_other_exporters_come_before_volcanos() -> None:
    state = ClusterState()
    state.numatopologies.put("a", numatopology())
    topologies = state.topologies
    steps = [partial(topologies.put, "a", nrt("a", zone)) for zone in ("left", "node-0")]
    zones = stepwise(
        state, lambda seen: [len(each.zones) for each in seen.nodes], *steps, partial(topologies.drop, "a")
    )
    assert zones == [[2], [], [1], [2]]


def test_orphans_and_mistakes_of_volcanos_exporter() -> None:
    state = ClusterState(complete=True)
    state.nodes.put("a", node("a", **BLUE))
    state.numatopologies.put("a", numatopology(cpuDetail={}))
    state.numatopologies.put("b", numatopology("b"))
    cluster = published(state)
    assert (cluster.nodes, class_labels(cluster)) == ((), {})
    assert sorted(map(str, cluster.problems)) == [
        "Numatopology a: spec.cpuDetail: contains no CPU",
        "Numatopology b: metadata.name: no Node of this name: its exporter left it behind",
    ]


GPU = "nvidia.com/gpu"


def gpu_node(name: str, gpus: int, *, uid: str = "u", **labels: str) -> Json:
    totals = {"cpu": "8", GPU: gpus}
    return {**node(name, **labels), "metadata": {"name": name, "labels": labels, "uid": uid},
        "status": {"allocatable": totals, "capacity": totals}}  # fmt: skip


def gpu_nrt(name: str, gpus: int) -> Json:
    amount = {"name": GPU, "capacity": gpus, "allocatable": gpus, "available": gpus}
    [zone] = nrt(name)["zones"]
    return {**nrt(name), "zones": [{**zone, "resources": [*zone["resources"], amount]}]}


def put_both(state: ClusterState, name: str, gpus: int, *, uid: str = "u", **labels: str) -> None:
    state.nodes.put(name, gpu_node(name, gpus, uid=uid, **labels))
    state.topologies.put(name, gpu_nrt(name, gpus))


def healths(state: ClusterState) -> dict[str, int | None]:
    """How many devices the nodes that are ill have in health; None of the others."""
    return {
        each.name: each.health.zones[0].allocatable.get(GPU, 0) if each.health else None
        for each in published(state).nodes
    }


def test_a_node_without_its_devices_is_ill() -> None:
    state = ClusterState()
    put_both(state, "a", 8)
    steps = [healths(state)]
    put_both(state, "a", 0)
    steps.append(healths(state))
    [shape] = published(state).known_shapes
    put_both(state, "a", 8)
    steps.append(healths(state))
    assert steps == [{"a": None}, {"a": 8}, {"a": None}]
    assert (shape.nodes, shape.shape.node.zones[0].allocatable[GPU]) == (1, 8)


def test_a_lasting_loss_is_a_new_shape() -> None:
    now = 0.0
    state = ClusterState(shape_history=ShapeHistory(wall=lambda: now))
    put_both(state, "a", 8)
    healths(state)
    put_both(state, "a", 4)
    steps, version = [healths(state)], state.version
    now = LOSS_SECONDS
    state.shape_history.expire()
    steps.append(healths(state))
    assert steps == [{"a": 8}, {"a": None}]
    assert state.version > version
