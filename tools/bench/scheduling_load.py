"""
The nodes and the pods of scheduling runs, the same in every run.

Half of the nodes have two zones, the other half eight zones with one GPU each, so that one template of pods
never fits on half of the nodes. There is room for far more pods than arrive: no pod waits for another one to
end.
"""

from collections.abc import Iterator

from tools.bench.calls import Json
from tools.clusters import fleets
from tools.clusters.api_requests import INTENT
from tools.clusters.fleets import Shape
from tools.clusters.sim.shapes import GPU

NAMESPACE = "default"
SHAPES = (
    Shape(zones=2, cpus=64, gib=512, devices={GPU: 4}, policy="single-numa-node"),
    Shape(zones=8, cpus=16, gib=128, devices={GPU: 1}, policy="restricted"),
)
TEMPLATES = ((4, 16, 1), (8, 32, 1), (2, 8, 1), (12, 48, 2))
"""CPUs, GiB of memory and GPUs of pods, in turn."""


def nodes(number: int) -> Iterator[tuple[Json, Json]]:
    """Yield so many nodes, each with its topology."""
    for index in range(number):
        name, shape = f"node-{index:05}", SHAPES[index % len(SHAPES)]
        yield fleets.node(name, shape), fleets.topology(name, shape)


def pods(number: int) -> Iterator[Json]:
    """Yield so many Guaranteed pods."""
    for index in range(number):
        cpus, gib, gpus = TEMPLATES[index % len(TEMPLATES)]
        amounts = {"cpu": str(cpus), "memory": f"{gib}Gi", GPU: str(gpus)}
        resources = {"requests": amounts, "limits": amounts}
        metadata = {"name": f"pod-{index:05}", "namespace": NAMESPACE, "annotations": dict(INTENT)}
        container = {"name": "main", "image": "registry.example/main", "resources": resources}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
