"""
The machines and the pods of a scheduling run, the same in every cell.

Half of the machines have two zones, the other half eight of which each has one GPU, so that one template of
pods never fits on half of them. There is room for far more pods than come: what is measured is how fast they
are placed, and no pod ever waits for another one's end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from harness import fleets
from harness.api_requests import INTENT
from harness.fleets import Shape
from harness.sim.shapes import GPU

Json = dict[str, Any]

NAMESPACE = "default"
SHAPES = (
    Shape(zones=2, cpus=64, gib=512, devices={GPU: 4}, policy="single-numa-node"),
    Shape(zones=8, cpus=16, gib=128, devices={GPU: 1}, policy="restricted"),
)


@dataclass(frozen=True, slots=True)
class Template:
    """What all pods of a workload ask for."""

    cpus: int
    gib: int
    gpus: int = 0

    def amounts(self) -> dict[str, str]:
        """As a container says it."""
        gpus = {GPU: str(self.gpus)} if self.gpus else {}
        return {"cpu": str(self.cpus), "memory": f"{self.gib}Gi", **gpus}


TEMPLATES: Mapping[str, tuple[Template, ...]] = MappingProxyType(
    {
        "device": (Template(4, 16, 1), Template(8, 32, 1), Template(2, 8, 1), Template(12, 48, 2)),
        "plain": (Template(4, 16), Template(8, 32), Template(2, 8), Template(12, 48)),
    }
)
"""Workloads by the kind of pods, those that ask for a device or those that ask for none; they take turns."""


def nodes(number: int) -> Iterator[tuple[Json, Json]]:
    """So many nodes, each with its topology."""
    for index in range(number):
        name, shape = f"node-{index:05}", SHAPES[index % len(SHAPES)]
        yield fleets.node(name, shape), fleets.topology(name, shape)


def pods(number: int, *, kind: str) -> Iterator[Json]:
    """So many pods of a kind of `TEMPLATES`."""
    templates = TEMPLATES[kind]
    for index in range(number):
        yield _pod(f"pod-{index:05}", templates[index % len(templates)])


def _pod(name: str, template: Template) -> Json:
    """Guaranteed, so that a kubelet's managers have to do with it."""
    asked = {"requests": template.amounts(), "limits": template.amounts()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(INTENT)},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main", "resources": asked}]},
    }
