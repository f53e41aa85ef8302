"""The objects of the bundled cluster are as an API server returns them."""

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from kubectl_numa.demo import DATA
from numalign.model import intent, resources

ITEMS: list[dict[str, Any]] = yaml.load((DATA / "cluster.yaml").read_text(), yaml.CSafeLoader)["items"]
NODES = {item["metadata"]["name"]: item for item in ITEMS if item["kind"] == "Node"}
TOPOLOGIES = {item["metadata"]["name"]: item for item in ITEMS if item["kind"] == "NodeResourceTopology"}


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES.keys())
def test_zone_has_the_fields_of_an_exporter(topology: dict[str, Any]) -> None:
    zones = topology["zones"]
    names = [zone["name"] for zone in zones]
    costs = {(zone["name"], each["name"]): each["value"] for zone in zones for each in zone["costs"]}
    assert {costs[name, name] for name in names} == {10}
    assert costs == {(to, source): value for (source, to), value in costs.items()}
    for zone in zones:
        assert zone.keys() == {"name", "type", "costs", "resources"}
        assert re.fullmatch(r"Node node-\d+", f"{zone['type']} {zone['name']}")
        assert [cost["name"] for cost in zone["costs"]] == names
        for entry in zone["resources"]:
            amounts = [int(entry[column]) for column in ("available", "allocatable", "capacity")]
            assert amounts == sorted(amounts)


@pytest.mark.parametrize("column", ["capacity", "allocatable"])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_zones_add_up_to_the_node(name: str, column: str) -> None:
    summed: Counter[str] = Counter()
    for entry in (entry for zone in TOPOLOGIES[name]["zones"] for entry in zone["resources"]):
        summed[entry["name"]] += resources.parse_amount(entry["name"], entry[column])
    total = resources.parse(NODES[name]["status"][column])
    assert summed == {resource: total[resource] for resource in summed}


def test_all_policies_and_scopes_and_zone_counts_occur() -> None:
    topologies = TOPOLOGIES.values()
    attributes = {(entry["name"], entry["value"]) for each in topologies for entry in each["attributes"]}
    assert attributes >= {("topologyManagerPolicy", policy) for policy in intent.Policy}
    assert attributes >= {("topologyManagerScope", scope) for scope in intent.Scope}
    assert {len(each["zones"]) for each in topologies} == {1, 2, 8}
    assert [zone["name"] for zone in TOPOLOGIES["sparse-1"]["zones"]] == ["node-0", "node-3"]
