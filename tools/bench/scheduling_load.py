"""
The nodes and the pods of a scheduling run, the same in every cell.

Half of the nodes have two zones, the other half eight zones with one GPU each, so that one template of pods
never fits on half of the nodes. There is room for far more pods than arrive: what is measured is how fast
they are placed, and no pod ever waits for the end of another one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tools.clusters import fleets
from tools.clusters.api_requests import INTENT
from tools.clusters.fleets import Shape
from tools.clusters.sim.shapes import GPU

Json = dict[str, Any]

NAMESPACE = "default"
SHAPES = (
    Shape(zones=2, cpus=64, gib=512, devices={GPU: 4}, policy="single-numa-node"),
    Shape(zones=8, cpus=16, gib=128, devices={GPU: 1}, policy="restricted"),
)


@dataclass(frozen=True, slots=True)
class Template:
    """The requests of all pods of a workload."""

    cpus: int
    gib: int
    gpus: int = 0

    def amounts(self) -> dict[str, str]:
        """Return the requests as a container has them."""
        gpus = {GPU: str(self.gpus)} if self.gpus else {}
        return {"cpu": str(self.cpus), "memory": f"{self.gib}Gi", **gpus}


TEMPLATES: Mapping[str, tuple[Template, ...]] = MappingProxyType(
    {
        "device": (Template(4, 16, 1), Template(8, 32, 1), Template(2, 8, 1), Template(12, 48, 2)),
        "plain": (Template(4, 16), Template(8, 32), Template(2, 8), Template(12, 48)),
    }
)
"""Workloads by the kind of pods: those that request a device, or those that request none. They take turns."""


def nodes(number: int) -> Iterator[tuple[Json, Json]]:
    """Yield so many nodes, each with its topology."""
    for index in range(number):
        name, shape = f"node-{index:05}", SHAPES[index % len(SHAPES)]
        yield fleets.node(name, shape), fleets.topology(name, shape)


def pods(number: int, *, kind: str) -> Iterator[Json]:
    """Yield so many pods of a kind of `TEMPLATES`."""
    templates = TEMPLATES[kind]
    for index in range(number):
        yield _pod(f"pod-{index:05}", templates[index % len(templates)])


def _pod(name: str, template: Template) -> Json:
    """Return a Guaranteed pod, so that a kubelet's managers handle it."""
    asked = {"requests": template.amounts(), "limits": template.amounts()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(INTENT)},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main", "resources": asked}]},
    }
