"""
A small GPU cluster as the API server shows it, and what becomes of it.

Two small nodes have two GPUs in each of two zones, three large ones four. Nobody has more, so that only a
large node could ever take the pod of these tests: four GPUs in one zone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numalign.model.intent import CLASS_LABEL

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
TOPOLOGY = "topology.node.k8s.io/v1alpha2"


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of two zones: its name, the CPUs and GPUs of each zone, and what its Node says besides.

    `broken` devices of each zone are not counted any more. The plugin is "up", "down" (nothing may be given
    out, and only the capacity of the Node tells that there was something), or "gone" (five minutes later).
    """

    name: str
    cpus: int
    gpus: int
    plugin: str = "up"
    broken: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    cordoned: bool = False
    ready: bool = True
    published: bool = True
    uid: str = ""
    node_class: str | None = None

    def objects(self) -> Iterable[Json]:
        """Its Node and, where an exporter runs, its NodeResourceTopology."""
        yield self._node()
        if self.published:
            yield self._topology()

    def _node(self) -> Json:
        total, healthy = 2 * self.gpus, 2 * (self.gpus - self.broken)
        devices: dict[str, tuple[int, int] | None] = {
            "up": (total, healthy),
            "down": (total, 0),
            "gone": None,
        }
        amounts = {"cpu": str(2 * self.cpus), "memory": "512Gi", "pods": "110"}
        counts_of = devices[self.plugin] if self.gpus else None
        capacity = {**amounts, **({GPU: str(counts_of[0])} if counts_of else {})}
        allocatable = {**amounts, **({GPU: str(counts_of[1])} if counts_of else {})}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "uid": self.uid or f"uid-of-{self.name}",
                "labels": {"kubernetes.io/hostname": self.name, **self.labels, **self._label()},
            },
            "spec": {
                **({"taints": list(self.taints)} if self.taints else {}),
                **({"unschedulable": True} if self.cordoned else {}),
            },
            "status": {
                "capacity": capacity,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}],
                "nodeInfo": {"kubeletVersion": "v1.34.4", "systemUUID": self.uid or self.name},
            },
        }

    def _label(self) -> Mapping[str, str]:
        return {CLASS_LABEL: self.node_class} if self.node_class else {}

    def _topology(self) -> Json:
        return {
            "apiVersion": TOPOLOGY,
            "kind": "NodeResourceTopology",
            "metadata": {"name": self.name},
            "attributes": [
                {"name": "topologyManagerPolicy", "value": "single-numa-node"},
                {"name": "topologyManagerScope", "value": "container"},
            ],
            "zones": [
                {"name": f"node-{at}", "type": "Node", "resources": list(self._resources())} for at in (0, 1)
            ],
        }

    def _resources(self) -> Iterable[Json]:
        yield _amount("cpu", str(self.cpus))
        yield _amount("memory", "256Gi")
        counts = {"up": self.gpus - self.broken, "down": 0, "gone": None}
        count = counts[self.plugin] if self.gpus else None
        if count is not None:
            yield _amount(GPU, str(count))


SMALL = tuple(Machine(f"small-{at}", cpus=24, gpus=2, labels={"pool": "small"}) for at in (0, 1))
LARGE = tuple(Machine(f"large-{at}", cpus=48, gpus=4, labels={"pool": "large"}) for at in (0, 1, 2))
HEALTHY = (*SMALL, *LARGE)


def every(machines: Iterable[Machine], **changes: Any) -> tuple[Machine, ...]:  # noqa: ANN401  facts of any type
    """The same machines, with other facts."""
    return tuple(replace(one, **changes) for one in machines)


def documents(machines: Iterable[Machine], *others: Json) -> Json:
    """What kubectl prints of these machines and a namespace `team`, and of other objects."""
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    items = [one for machine in machines for one in machine.objects()]
    return {"apiVersion": "v1", "kind": "List", "items": [team, *items, *others]}


def pod(gpus: int = 4, *, policy: str = "single-numa-node", resource: str = GPU, **spec: object) -> Json:
    """A Guaranteed pod in the namespace `team`, of one container with eight CPUs and some devices."""
    amounts = {"cpu": "8", "memory": "32Gi", resource: str(gpus)}
    container = {
        "name": "main",
        "image": "example/train:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train",
            "namespace": "team",
            "uid": "uid-of-train",
            "annotations": {"numalign.io/policy": policy},
        },
        "spec": {"containers": [container], **spec},
    }


def _amount(name: str, amount: str) -> Json:
    return {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
