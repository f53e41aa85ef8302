"""The bundled cluster and pods: what an API server would hand out, and each pod says what it shows."""

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from examples import DATA
from numalign.model import intent, resources
from numalign.model.errors import BadIntent

DOCUMENTED = re.compile(r"# Shows: .+?^# Expected: (?P<outcome>admitted|denied)", re.DOTALL | re.MULTILINE)

ITEMS: list[dict[str, Any]] = yaml.safe_load((DATA / "cluster.yaml").read_text())["items"]
NODES = {item["metadata"]["name"]: item for item in ITEMS if item["kind"] == "Node"}
TOPOLOGIES = {item["metadata"]["name"]: item for item in ITEMS if item["kind"] == "NodeResourceTopology"}
NAMESPACES = {item["metadata"]["name"]: item for item in ITEMS if item["kind"] == "Namespace"}
WRITTEN = (DATA / "pods.yaml").read_text().split("---\n")
PODS: list[dict[str, Any]] = [yaml.safe_load(text) for text in WRITTEN]


def attribute(topology: dict[str, Any], name: str) -> str:
    return {str(entry["name"]): str(entry["value"]) for entry in topology["attributes"]}[name]


def test_the_cluster_is_a_list_of_three_kinds() -> None:
    head = yaml.safe_load((DATA / "cluster.yaml").read_text())
    assert (head["apiVersion"], head["kind"]) == ("v1", "List")
    kinds = Counter((item["apiVersion"], item["kind"]) for item in ITEMS)
    assert kinds == {
        ("v1", "Namespace"): 5,
        ("v1", "Node"): 9,
        ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"): 8,
    }


def test_one_node_publishes_no_topology() -> None:
    assert NODES.keys() - TOPOLOGIES.keys() == {"burst-1"}
    assert TOPOLOGIES.keys() <= NODES.keys()


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES.keys())
def test_each_zone_is_as_an_exporter_writes_it(topology: dict[str, Any]) -> None:
    names = [zone["name"] for zone in topology["zones"]]
    assert len(set(names)) == len(names)
    for zone in topology["zones"]:
        assert zone.keys() == {"name", "type", "costs", "resources"}
        assert (zone["type"], bool(re.fullmatch(r"node-\d+", zone["name"]))) == ("Node", True)
        assert [cost["name"] for cost in zone["costs"]] == names
        assert {cost["value"] for cost in zone["costs"] if cost["name"] == zone["name"]} == {10}
        listed = [entry["name"] for entry in zone["resources"]]
        assert len(set(listed)) == len(listed) > 0
        for entry in zone["resources"]:
            assert all(entry[column].isdecimal() for column in ("capacity", "allocatable", "available"))
            assert int(entry["available"]) <= int(entry["allocatable"]) <= int(entry["capacity"])


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES.keys())
def test_distances_are_the_same_there_and_back(topology: dict[str, Any]) -> None:
    costs = {
        (zone["name"], cost["name"]): cost["value"] for zone in topology["zones"] for cost in zone["costs"]
    }
    assert costs == {(there, here): value for (here, there), value in costs.items()}


@pytest.mark.parametrize("column", ["capacity", "allocatable"])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_zones_add_up_to_the_node(name: str, column: str) -> None:
    summed: Counter[str] = Counter()
    for zone in TOPOLOGIES[name]["zones"]:
        for entry in zone["resources"]:
            summed[entry["name"]] += resources.parse_amount(entry["name"], entry[column])
    whole = resources.parse(NODES[name]["status"][column])
    assert summed == {resource: whole[resource] for resource in summed}


def test_every_policy_and_scope_occurs_and_so_do_one_two_and_eight_zones() -> None:
    topologies = TOPOLOGIES.values()
    assert {attribute(each, "topologyManagerPolicy") for each in topologies} == set(intent.Policy)
    assert {attribute(each, "topologyManagerScope") for each in topologies} == set(intent.Scope)
    assert {len(each["zones"]) for each in topologies} == {1, 2, 8}
    assert [zone["name"] for zone in TOPOLOGIES["sparse-1"]["zones"]] == ["node-0", "node-3"]


def test_something_is_in_use_so_that_ever_and_now_differ() -> None:
    busy = {
        name
        for name, topology in TOPOLOGIES.items()
        for zone in topology["zones"]
        for entry in zone["resources"]
        if entry["available"] != entry["allocatable"]
    }
    assert busy == {"dgx-1", "dgx-2", "epyc-1", "hgx-1"}


def test_each_namespace_says_something_else() -> None:
    rules = {
        name: intent.parse_namespace(
            {key: value for key, value in item["metadata"]["labels"].items() if "numalign" in key}
        )[0]
        for name, item in NAMESPACES.items()
    }
    single, restricted = intent.Policy.SINGLE_NUMA_NODE, intent.Policy.RESTRICTED
    assert rules == {
        "default": intent.NamespaceRules(),
        "team-a": intent.NamespaceRules(default=single),
        "prod": intent.NamespaceRules(enforce=restricted),
        "lab": intent.NamespaceRules(warn=single, audit=restricted),
        "kube-like": intent.NamespaceRules(disabled=True),
    }


@pytest.mark.parametrize("text", WRITTEN, ids=[pod["metadata"]["name"] for pod in PODS])
def test_each_pod_says_what_it_shows_and_what_to_expect(text: str) -> None:
    pod = yaml.safe_load(text)
    assert DOCUMENTED.search(text)
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    assert pod["metadata"]["namespace"] in NAMESPACES
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        resources.parse(container["resources"]["requests"])
        resources.parse(container["resources"]["limits"])


def test_pods_have_names_of_their_own() -> None:
    names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in PODS}
    assert len(names) == len(PODS) == 22


def test_the_pods_with_mistakes_are_the_ones_that_say_so() -> None:
    broken = set()
    for pod in PODS:
        try:
            intent.read(pod["metadata"].get("annotations", {})).intent()
        except BadIntent:
            broken.add(pod["metadata"]["name"])
    assert broken == {"typing-in-haste", "misspelt-key", "of-two-minds", "node-agent"}


def test_a_pod_written_in_haste_has_four_mistakes() -> None:
    pod = next(pod for pod in PODS if pod["metadata"]["name"] == "typing-in-haste")
    with pytest.raises(BadIntent) as raised:
        intent.read(pod["metadata"]["annotations"]).intent()
    assert len(raised.value.mistakes) == 4
