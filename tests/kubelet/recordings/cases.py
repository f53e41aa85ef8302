"""
What the conformance tests share: the recorded cases, and readers of the pods and zones in them.

These are read here and not by the programs' decoders, so that what is compared are the rules alone.
"""

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numalign.model import resources
from numalign.model.node import Node, Zone
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import Resources, ZoneId

Json = dict[str, Any]

DATA = Path(__file__).parents[1] / "data"


def data(name: str) -> Json:
    return dict(json.loads(gzip.decompress((DATA / name).read_bytes())))


def free_by_zone(node: Node) -> Mapping[int, Resources]:
    return {zone.id: zone.free for zone in node.zones}


def pod_of(spec: Json) -> Pod:
    """A pod from its spec: amounts stand in `resources`, or in the container itself."""
    whole = spec.get("resources", {})
    return Pod(
        name=spec.get("name", "pod"),
        containers=(
            *(
                _container(at, one, _INIT[one.get("restartPolicy")])
                for at, one in _listed(spec, "initContainers")
            ),
            *(_container(at, one, Role.APP) for at, one in _listed(spec, "containers")),
        ),
        pod_requests=resources.parse(whole["requests"]) if "requests" in whole else None,
        pod_limits=resources.parse(whole["limits"]) if "limits" in whole else None,
        overhead=resources.parse(spec.get("overhead", {})),
    )


_INIT = {None: Role.INIT, "Always": Role.SIDECAR}


def _listed(spec: Json, key: str) -> Iterable[tuple[int, Json]]:
    return enumerate(spec.get(key) or [])


def _container(at: int, written: Json, role: Role) -> Container:
    amounts = written.get("resources", written)
    return Container(
        name=written.get("name", f"{role}-{at}"),
        role=role,
        requests=resources.parse(amounts.get("requests", {})),
        limits=resources.parse(amounts.get("limits", {})),
    )


def zones_of(topology: Json) -> tuple[Zone, ...]:
    """The NUMA nodes among the zones of a NodeResourceTopology."""
    nodes = (zone for zone in topology.get("zones") or () if zone.get("type", "Node") == "Node")
    numbered = ((zone, re.search(r"\d+$", zone["name"])) for zone in nodes)
    return tuple(_zone(ZoneId(int(number[0])), zone) for zone, number in numbered if number)


def _zone(number: ZoneId, zone: Json) -> Zone:
    """The amounts of a zone; what is allocatable if nobody says is available, and that is the hardware."""
    listed = zone.get("resources", [])
    free = {one["name"]: one["available"] for one in listed}
    allocatable = free | {one["name"]: one["allocatable"] for one in listed if "allocatable" in one}
    capacity = allocatable | {one["name"]: one["capacity"] for one in listed if "capacity" in one}
    costs = (
        (ZoneId(int(cost["name"].removeprefix("node-"))), cost["value"]) for cost in zone.get("costs", [])
    )
    bags = [resources.parse(bag) for bag in (capacity, allocatable, free)]
    return Zone(number, zone["name"], bags[0], bags[1], bags[2], costs=tuple(costs))
