"""Stand-ins for what a simulated node works with: managers that fill zones by hand, and a desk of paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

Json = dict[str, Any]


def pod(name: str, *, cpu: int = 1, uid: str = "", node: str = "n", **metadata: object) -> Json:
    """A pod of one container, bound to a node."""
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    resources = {"requests": amounts, "limits": amounts}
    known = {
        "name": name,
        "namespace": "team",
        "uid": uid or f"uid-{name}",
        "creationTimestamp": "2026-01-01",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**known, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": "Pending"},
    }


def seeded(seed: int) -> Random:
    """Chance that is the same in every run."""
    return Random(seed)  # noqa: S311  nothing secret


class Clock:
    """Stands still until somebody sleeps."""

    def __init__(self, now: float = 0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time, in seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self.now += seconds


@dataclass
class ZonesByHand:
    """Managers that know CPUs only, and give each pod those of the lowest zone that has enough."""

    free: dict[int, int] = field(default_factory=lambda: {0: 4, 1: 4})
    given: dict[str, tuple[int, int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def create(self, asking: Json) -> Json:
        """As the oracle answers."""
        name = asking["metadata"]["name"]
        self.asked.append(f"create {name}")
        cpus = int(asking["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        zone = next((zone for zone, left in self.free.items() if left >= cpus), None)
        if zone is None:
            refused = {"admitted": False, "reason": "TopologyAffinityError", "message": "no zone has it"}
            return {"pod": name, **refused}
        self.free[zone] -= cpus
        self.given[name] = (zone, cpus)
        amounts = {str(zone): {"cpu": cpus * 1000}}
        return {"pod": name, "admitted": True, "containers": {"c": {"amounts": amounts}}}

    async def delete(self, name: str) -> None:
        """As the oracle forgets."""
        self.asked.append(f"delete {name}")
        zone, cpus = self.given.pop(name)
        self.free[zone] += cpus


@dataclass
class Paper:
    """A desk that keeps what was written, a line each; of topologies the amounts alone."""

    lines: list[str] = field(default_factory=list)
    topologies: list[Json] = field(default_factory=list)
    statuses: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    async def status(self, of: Json, status: Json) -> None:
        """As said of `Desk`."""
        name = of["metadata"]["name"]
        self.lines.append(f"{name} {status['phase']} {status.get('reason', '')}".strip())
        self.statuses[name] = status

    async def annotate(self, of: Json, key: str, value: str) -> None:
        """As said of `Desk`."""
        self.lines.append(f"{of['metadata']['name']} {key} {value}")

    async def remove(self, of: Json) -> None:
        """As said of `Desk`."""
        self.lines.append(f"{of['metadata']['name']} removed")

    async def publish(self, topology: Json) -> None:
        """As said of `Desk`."""
        self.topologies.append(topology)
        left = {
            zone["name"]: {one["name"]: one["available"] for one in zone["resources"]}
            for zone in topology["zones"]
        }
        self.lines.append(f"published {[zone['cpu'] for zone in left.values()]}")
