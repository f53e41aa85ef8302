"""A cluster in one file: joined, counted, and never stopped by one broken object."""

import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from kubectl_numa.demo import DATA
from numalign.kube.cluster import Cluster, Settled, differences
from numalign.kube.decode import shapes
from numalign.kube.files import snapshot
from numalign.kube.files.snapshot import BadSnapshot
from numalign.model.intent import NamespaceRules, Policy
from numalign.model.node import Known
from numalign.model.resources import Resources
from numalign.shapes import RememberedShapes
from tests.worlds.notation import table
from tests.worlds.objects import Json, configuration, listed, namespace, node, nrt

BUNDLED = DATA / "cluster.yaml"


def problems(seen: Cluster) -> list[str]:
    return [str(problem) for problem in seen.problems]


def test_objects_are_joined_by_name() -> None:
    seen = snapshot.of([listed(
        nrt("b"), configuration("b", topologyManagerPolicy="restricted"),
        node("c"), node("b", **{"numalign.io/class": "x"}), node("a"), nrt("a"),
        namespace("team", **{"numalign.io/warn": "none"}),
        {"apiVersion": "v1", "kind": "Pod", "metadata": "whatever", "spec": {"nodeName": "a"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waiting"}},
    )])  # fmt: skip
    assert [(each.name, each.policy, each.known, each.totals, each.label) for each in seen.nodes] == [
        ("a", Policy.NONE, Known.COUNTS, Resources({"cpu": 8000}), None),
        ("b", Policy.RESTRICTED, Known.CONFIGURED, Resources({"cpu": 8000}), "x"),
    ]
    assert (seen.unknown, seen.last_settled, seen.problems) == (("c",), Settled(1), ())
    assert seen.namespaces == {"team": NamespaceRules(warn=Policy.NONE)}


DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
SERVICE, POD = {"apiVersion": "v1", "kind": "Service"}, {"apiVersion": "v1", "kind": "Pod"}
SLICE, JOB = {"apiVersion": "x/v1", "kind": "Slice"}, {"apiVersion": "batch/v1", "kind": "Job"}


@pytest.mark.parametrize(("objects", "content"), table([
    ("a workload", [DEPLOYMENT], "1 Deployment.apps"),
    ("many kinds", [SERVICE, DEPLOYMENT, POD, SLICE, JOB],
        "1 Deployment.apps, 1 Job.batch, 1 Pod and 2 more kinds"),
]))  # fmt: skip
def test_a_file_of_no_cluster_is_no_snapshot(objects: list[object], content: str, tmp_path: Path) -> None:
    expected = "and no Node, NodeResourceTopology or Namespace; `kubectl numa snapshot` writes one"
    path = tmp_path / "web.json"
    path.write_bytes(orjson.dumps(listed(*objects)))
    with pytest.raises(BadSnapshot) as of_values:
        snapshot.of(objects)
    with pytest.raises(BadSnapshot) as of_file:
        snapshot.load(path)
    problems = f"is not a cluster snapshot: it contains {content}, {expected}"
    assert [str(of_values.value), str(of_file.value)] == [f"snapshot: {problems}", f"{path}: {problems}"]


@pytest.mark.parametrize(("broken", "expected"), table([
    # situation: (the broken object among good ones, the problems)
    ("a topology twice", nrt("good", cpu=9),
        ["NodeResourceTopology good: metadata.name: appears twice; the first one is used"]),
    ("a configuration with which no kubelet starts",
        configuration("good", cpuManagerPolicy="none", cpuManagerPolicyOptions={"full-pcpus-only": "true"}),
        [("KubeletConfiguration good: cpuManagerPolicyOptions: the kubelet would not start: "
                "the CPU manager's policy none takes no options, not full-pcpus-only")]),
    ("a configuration of no node", configuration("godo"),
        ["KubeletConfiguration godo: metadata.name: no node in this snapshot has this name"]),
    ("no name", {"apiVersion": "v1", "kind": "Node"}, ["Node items[4]: metadata.name: is missing"]),
]))  # fmt: skip
def test_a_broken_object_is_a_problem(broken: Json, expected: list[str]) -> None:
    good = [node("good"), nrt("good"), node("x"), namespace("team", **{"numalign.io/warn": "none"})]
    seen = snapshot.of([listed(*good, broken)])
    assert problems(seen) == expected
    assert seen.nodes == snapshot.of(good).nodes
    assert seen.namespaces == {"team": NamespaceRules(warn=Policy.NONE)}


def test_a_wrong_label_of_a_namespace_leaves_the_others() -> None:
    seen = snapshot.of([namespace("team", **{"numalign.io/audit": "x", "numalign.io/warn": "none"})])
    assert seen.namespaces == {"team": NamespaceRules(warn=Policy.NONE)}
    assert problems(seen)[0].startswith("Namespace team: metadata.labels[numalign.io/audit]: ")


def test_a_node_with_broken_totals_has_its_topology() -> None:
    seen = snapshot.of([node("n", cpu="x"), nrt("n"), node("m", cpu="x")])
    assert [(each.name, each.totals) for each in seen.nodes] == [("n", None)]
    assert (seen.unknown, len(seen.problems)) == (("m",), 2)


@pytest.mark.parametrize(
    "options",
    [{"align-by-socket": "true", "distribute-cpus-across-cores": "maybe"}, {"align-by-socket": "true"}],
    ids=["cannot be read", "no kubelet starts with it"],
)
def test_a_node_with_a_broken_configuration_has_counts(options: Json) -> None:
    strict = configuration("n", topologyManagerPolicy="single-numa-node", cpuManagerPolicyOptions=options)
    seen = snapshot.of([node("n"), nrt("n"), strict])
    assert [(each.name, each.known, each.policy) for each in seen.nodes] == [("n", Known.COUNTS, Policy.NONE)]
    assert [(problem.kind, problem.name) for problem in seen.problems] == [("KubeletConfiguration", "n")]
    assert seen.nodes == snapshot.of([node("n"), nrt("n")]).nodes


def test_lists_in_a_list_are_read() -> None:
    objects = [node("a"), nrt("a"), node("b"), namespace("team")]
    nodes = {"kind": "NodeList", "apiVersion": "v1", "items": [objects[2], objects[0]]}
    inside = listed(nodes, objects[1], listed(listed(objects[3])))
    assert [*differences(snapshot.of([inside]), snapshot.of(objects))] == [Settled()]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path, data, message = tmp_path / "cluster", orjson.dumps(listed(node("a")))[:-20], "is not JSON"
    path.write_bytes(data)
    with pytest.raises(BadSnapshot) as raised:
        snapshot.load(path)
    assert str(raised.value).startswith(f"{path}: {message}")


def test_the_bundled_cluster_loads_without_a_problem() -> None:
    seen = snapshot.load(BUNDLED)
    assert [each.name for each in seen.nodes] == [
        "cpu-1", "dgx-1", "dgx-2", "edge-1", "epyc-1", "hgx-1", "legacy-1", "sparse-1",
    ]  # fmt: skip
    assert (seen.unknown, seen.problems, seen.last_settled) == (("burst-1",), (), Settled())
    assert seen.namespaces.keys() == {"default", "team-a", "prod", "lab", "kube-like"}
    assert [zone.id for zone in seen.nodes[-1].zones] == [0, 3]


def test_device_classes_of_a_file() -> None:
    version = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass"}
    gpus = {**version, "metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "x" * 318}}
    seen = snapshot.of([nrt("n"), gpus])
    assert seen.served == {"deviceclass.resource.kubernetes.io/gpus"}
    wrong = "is not a resource name: at most 317 characters are allowed, not 318"
    assert problems(seen) == [f"DeviceClass gpus: spec.extendedResourceName: {wrong}"]


def test_remembered_shapes_of_a_file() -> None:
    before = snapshot.of([nrt("gone", "node-0", "node-1")])
    memory = RememberedShapes(tuple(replace(each, nodes=0, seen=time.time()) for each in before.known_shapes))
    memory_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": shapes.NAME}}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"x": "{"}}
    seen = snapshot.of([nrt("n"), {**memory_map, "data": shapes.encode(memory)}, other])
    [remembered] = [each for each in seen.known_shapes if each.seen]
    assert remembered.shape == before.known_shapes[0].shape
    assert (seen.problems, seen.last_settled) == ((), Settled(ignored={"ConfigMap": 1}))
