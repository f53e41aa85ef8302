"""The cluster of the trace has the published totals, and objects as an API server returns them."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kubectl_numa.demo import openb
from kubectl_numa.demo.openb import recipe, shapes
from kubectl_numa.demo.openb.__main__ import main
from kubectl_numa.demo.openb.shapes import NodeShape, PodShape
from numalign.model import intent, resources
from numalign.model.errors import BadIntent

DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NODE_LIST = "sn,cpu_milli,memory_mib,gpu,model\na,96000,393216,8,G2\nb,32000,131072,0,\nc,96000,393216,8,G2\n"
POD_LIST = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time
a,12000,16384,1,1000,,LS,Running,0
b,12000,16384,1,1000,,BE,Failed,7
c,12000,16384,1,1000,,Burstable,Running,9
d,12000,16384,1,1000,,Guaranteed,Running,9
e,6000,12288,1,460,,LS,Running,9
"""

# No test may change these.
made, made_pods = cache(openb.cluster), cache(lambda: list(openb.pods()))


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [item for item in made() if item["kind"] == kind]


def test_table_of_nodes_has_the_published_totals() -> None:
    nodes = shapes.node_shapes()
    totals = [
        sum(getattr(shape, figure) * shape.count for shape in nodes)
        for figure in ("cpu_milli", "memory_mib", "gpu")
    ]
    assert totals == [125_514_000, 612_028_416, 6_212]


@pytest.mark.parametrize("column", ["capacity", "allocatable"])
def test_zones_add_up_to_the_node(column: str) -> None:
    nodes = of_kind("Node")
    assert len({node["metadata"]["name"] for node in nodes}) == 1523
    for node, topology in zip(nodes, of_kind("NodeResourceTopology"), strict=True):
        assert node["metadata"]["name"] == topology["metadata"]["name"]
        summed = Counter[str]()
        for entry in (entry for zone in topology["zones"] for entry in zone["resources"]):
            summed[entry["name"]] += resources.parse_amount(entry["name"], entry[column])
        total = resources.parse(node["status"][column])
        unzoned = {"pods", recipe.GPU_SHARE}
        assert summed == {name: amount for name, amount in total.items() if name not in unzoned}


def test_cluster_has_the_amounts_of_the_table() -> None:
    totals = [resources.parse(node["status"]["capacity"]) for node in of_kind("Node")]
    counted = Counter((r["cpu"], r["memory"] // recipe.MIB, r.get(recipe.GPU, 0)) for r in totals)
    expected = Counter[tuple[int, int, int]]()
    for shape in shapes.node_shapes():
        expected[shape.cpu_milli, shape.memory_mib, shape.gpu] += shape.count
    assert counted == expected


def test_gpus_and_distances_depend_on_the_socket_of_a_zone() -> None:
    topologies = of_kind("NodeResourceTopology")
    a10 = next(each for each in topologies if each["metadata"]["name"].startswith("a10-"))
    listed = [[entry["name"] for entry in zone["resources"]] for zone in a10["zones"]]
    assert listed == [["cpu", "memory", recipe.GPU], ["cpu", "memory"]]
    shapes_of_two = [NodeShape(16_000, 122_880, 2, "P100", 1), NodeShape(32_000, 65_536, 0, "", 1)]
    assert [recipe.zone_count(shape) for shape in shapes_of_two] == [1, 2]
    nps4 = next(each for each in topologies if len(each["zones"]) == 8)
    assert [cost["value"] for cost in nps4["zones"][5]["costs"]] == [21, 21, 21, 21, 12, 10, 12, 12]


def test_every_kubelet_configuration_of_the_recipe_occurs() -> None:
    topologies = of_kind("NodeResourceTopology")
    configured = {tuple(entry["value"] for entry in each["attributes"]) for each in topologies}
    assert configured == {kubelet for row in recipe.KUBELETS.values() for kubelet in row}
    assert {policy for policy, _ in configured} == set(intent.Policy)
    assert {scope for _, scope in configured} == set(intent.Scope)


def test_manifests_request_the_amounts_of_the_table() -> None:
    requested = Counter[tuple[int, ...]]()
    containers = [pod["spec"]["containers"][0]["resources"] for pod in made_pods()]
    for container in containers:
        amounts = resources.parse(container["requests"])
        gpus, share = amounts.get(recipe.GPU, 0), amounts.get(recipe.GPU_SHARE, 0)
        gpu_milli, memory = recipe.WHOLE_GPU if gpus else share, amounts.get("memory", 0) // recipe.MIB
        requested[amounts["cpu"], memory, gpus or int(share > 0), gpu_milli] += 1
    assert requested == {
        (shape.cpu_milli, shape.memory_mib, shape.num_gpu, shape.gpu_milli): shape.count
        for shape in shapes.pod_shapes()
    }
    assert sum("cpu" not in container["limits"] for container in containers) == 3498


def test_names_are_valid_and_unique() -> None:
    items = [*made(), *made_pods()]
    keys = {(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in items}
    assert len(keys) == len(items)
    for _, namespace, name in keys:
        assert DNS_1123.fullmatch(name)
        assert namespace is None or namespace in recipe.NAMESPACES


def test_manifests_are_reproducible_and_not_shared() -> None:
    """Marking one pod or namespace must not reach another, or the recipe."""
    first, marked = [*made(), *made_pods()], [*openb.cluster(), *openb.pods()]
    assert marked == first
    for item in marked:
        item["metadata"].setdefault("labels", {})["marked"] = "yes"
        item["metadata"].setdefault("annotations", {})["marked"] = "yes"
    assert not any("marked" in str(item["metadata"]) for item in first)


def test_every_intent_occurs_and_one_in_a_hundred_is_wrong() -> None:
    metadata = [pod["metadata"] for pod in made_pods()]
    written = {(each["namespace"], *sorted(each.get("annotations", {}).items())) for each in metadata}
    assert {(name, *sorted(row.items())) for name, rows in recipe.INTENTS.items() for row in rows} <= written
    refused = Counter[str]()
    for annotations in (each.get("annotations", {}) for each in metadata):
        try:
            intent.read(annotations).intent()
        except BadIntent:
            refused[str(sorted(annotations.items()))] += 1
    assert (refused.total(), len(refused)) == (81, len(recipe.MISTAKES))


def test_namespaces_have_valid_labels_and_pods_by_gpus() -> None:
    for labels in recipe.NAMESPACES.values():
        rules, mistakes = intent.parse_namespace(labels)
        assert (rules != intent.NamespaceRules(), mistakes) == (True, type(mistakes)())
    shares = {"batch": (0, 0), "shared": (1, 460), "inference": (1, 1000), "training": (2, 1000)}
    for name, (gpus, share) in shares.items():
        assert recipe.namespace(PodShape(8000, 8192, gpus, share, 0, 1)) == name


def given(folder: Path, nodes: str = NODE_LIST) -> list[str]:
    for name, text in (("nodes.csv", nodes), ("pods.csv", POD_LIST)):
        (folder / name).write_text(text)
    return [str(folder / "nodes.csv"), str(folder / "pods.csv"), str(folder)]


def test_lists_are_counted_into_tables_below_their_source(tmp_path: Path) -> None:
    assert main(given(tmp_path)) == 0
    head = "cpu_milli,memory_mib,num_gpu,gpu_milli,burstable,count"
    pods = f"{head}\n6000,12288,1,460,0,1\n12000,16384,1,1000,2,4\n"
    nodes = "cpu_milli,memory_mib,gpu,model,count\n32000,131072,0,,1\n96000,393216,8,G2,2\n"
    assert (tmp_path / shapes.PODS).read_text() == shapes.SOURCE + pods
    assert (tmp_path / shapes.NODES).read_text() == shapes.SOURCE + nodes


def test_mistake_in_a_list_and_a_missing_list_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, _, folder = given(tmp_path)
    assert main([nodes, str(tmp_path / "none.csv"), folder]) == 2
    assert "none.csv" in capsys.readouterr().err
    assert main(given(tmp_path, nodes="cpu_milli,memory_mib,gpu,model\n1,1,1,G2\n1,1,many,G2\n")) == 2
    assert "nodes.csv:3: gpu is 'many': a whole number is needed" in capsys.readouterr().err
