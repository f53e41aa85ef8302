"""What was recorded of the kubelet's managers, as nodes of real kubelets and what becomes of their pods."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.clusters.kubelets.kubelets import RealNode

Json = dict[str, Any]

DATA = Path(__file__).resolve().parents[1] / "data"
GATES = {"CPUManagerPolicyAlphaOptions": True, "TopologyManagerPolicyAlphaOptions": True}
"""The recordings were made with every option of the policies."""


def scenarios(version: str) -> Iterator[Json]:
    with gzip.open(DATA / f"kubelet-{version}.jsonl.gz", "rt") as lines:
        yield from map(json.loads, lines)


def of_each_kind(version: str, count: int = 1) -> list[Json]:
    seen: dict[str, list[Json]] = {}
    for scenario in scenarios(version):
        seen.setdefault(scenario["kind"], []).append(scenario)
    return [scenario for kind in seen.values() for scenario in kind[:count]]


def node(scenario: Json) -> RealNode:
    config = scenario["kubeletConfig"]
    gates = {**GATES, **config.get("featureGates", {})}
    return RealNode(
        name=scenario["name"],
        machine=scenario["machine"],
        configuration={**config, "featureGates": gates},
        labels=scenario.get("labels", {}),
    )


def exclusive(expected: Json) -> dict[str, str]:
    containers = expected.get("containers", {})
    return {name: given["cpus"] for name, given in containers.items() if given.get("cpus")}
