"""
The smallest scenario that still does what a large one did.

Everything is tried without, and amounts smaller: steps, containers, resources, zones, cores, options. What is
left after that is what the matter turns on.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

from numalign.model import resources
from tools.generate.recordings.hardware import GI, MI

Json = dict[str, Any]
Path = tuple[str | int, ...]

Holds = Callable[[Json], bool]
"""Whether a scenario still does what it is about; False too once there is no more time."""

PARTS: tuple[Path, ...] = (("steps",), ("kubeletConfig",), ("machine",))
KEPT = (
    *("create", "delete", "apiVersion", "kind", "metadata", "spec", "containers", "name", "image"),
    *("zones", "id", "socket", "cores", "distances", "hugepages", "devices", "topologyManagerPolicy"),
)
PLAIN: Json = {
    "topologyManagerScope": "container",
    "cpuManagerPolicy": "none",
    "memoryManagerPolicy": "None",
    "memory": 8 * GI,
    "reservedMemory": 0,
    "reservedCPUs": 1,
}
"""What is not left out, but simple."""


def shrink(scenario: Json, holds: Holds) -> Json:
    """The last of a row of scenarios that hold, each smaller than the one before."""
    row, before = _Row(scenario, holds), None
    while row.last != before:
        before = row.last
        for part in PARTS:
            row.visit(part)
    return row.last


@dataclass(slots=True)
class _Row:
    last: Json
    holds: Holds

    def visit(self, at: Path) -> None:
        """Leave out entries of a list, several at once and one at a time, and members of an object."""
        entries = _entry(self.last, at)
        if isinstance(entries, list):
            for size in (8, 4, 2, 1):
                for start in range(len(_entry(self.last, at)) - size, -1, -size):
                    self._attempt(_without(self.last, [(*at, place) for place in range(start, start + size)]))
            entries = dict(enumerate(_entry(self.last, at)))
        for key in [*entries]:
            path = (*at, key)
            smaller = isinstance(key, str) and any(map(self._attempt, _smaller(self.last, path)))
            inner = key not in ("distances", "metadata") and isinstance(entries[key], dict | list)
            if inner and not smaller:
                self.visit(path)

    def _attempt(self, smaller: Json) -> bool:
        specs = (step["create"]["spec"] for step in smaller["steps"] if "create" in step)
        # A pod has a container, and a machine a zone.
        sound = smaller["machine"]["zones"] and all(spec["containers"] for spec in specs)
        if smaller == self.last or not sound or not self.holds(smaller):
            return False
        self.last = smaller
        return True


def _entry(tree: Json, path: Path) -> Any:  # noqa: ANN401  JSON
    return reduce(getitem, path, tree)  # type: ignore[arg-type]


def _smaller(scenario: Json, path: Path) -> Iterator[Json]:
    """The scenario without what an object has under this name, or with less of it."""
    entry, owner, name = _entry(scenario, path), path[:-1], str(path[-1])
    if owner[-1] in ("limits", "requests"):
        # Where requests repeat the limits, both shrink at once.
        bags = [
            (*owner[:-1], kind) for kind in _entry(scenario, owner[:-1]) if kind in ("limits", "requests")
        ]
        alike = [(*bag, name) for bag in bags if name in _entry(scenario, bag)]
        yield _without(scenario, alike)
        yield _without(scenario, [path])
        yield from (_replaced(scenario, alike, less) for less in _less(name, entry))
    elif owner[-1] == "hugepages":
        zones = range(len(scenario["machine"]["zones"]))
        yield _without(scenario, [("machine", "zones", at, "hugepages", name) for at in zones])
    elif name == "reservedSystemCPUs":
        kept = entry.split(",")
        for at in range(len(kept)):
            yield _replaced(scenario, [path], ",".join(kept[:at] + kept[at + 1 :]))
    elif name in PLAIN:
        yield _replaced(scenario, [path], min(entry, PLAIN[name]) if isinstance(entry, int) else PLAIN[name])
    elif name not in KEPT:
        yield _without(scenario, [path])


def _less(name: str, text: str) -> Iterator[str]:
    """Smaller amounts of a resource: one, half as much, one less, and as many in plain words."""
    amount = resources.parse_amount(name, text)
    unit = 1000 if name == "cpu" else 64 * MI if name.startswith(("memory", "hugepages-")) else 1
    for count in sorted({1, amount // unit // 2, amount // unit - 1, amount // unit}):
        if 0 < count * unit <= amount:
            yield resources.render(name, count * unit)


def _replaced(scenario: Json, paths: list[Path], value: object) -> Json:
    made = copy.deepcopy(scenario)
    for path in paths:
        _entry(made, path[:-1])[path[-1]] = value
    return made


def _without(scenario: Json, paths: list[Path]) -> Json:
    """The scenario without these entries, and with nothing that names a pod, a CPU or a zone that is gone."""
    made = copy.deepcopy(scenario)
    machine = made["machine"]
    for path in reversed(paths):
        del _entry(made, path[:-1])[path[-1]]
        for zone in machine["zones"] if path[:-1] == ("machine", "zones") else ():
            del zone.get("distances", {path[-1]: 0})[path[-1]]
    come = {None, *(step["create"]["metadata"]["name"] for step in made["steps"] if "create" in step)}
    made["steps"] = [step for step in made["steps"] if step.get("delete") in come]
    ids = {-1, *(zone["id"] for zone in machine["zones"])}
    for name, listed in machine["devices"].items():
        machine["devices"][name] = [device for device in listed if ids.issuperset(device["zones"])]
    cpus = {cpu for zone in machine["zones"] for core in zone["cores"] for cpu in core}
    if kept := machine.get("reservedSystemCPUs"):
        machine["reservedSystemCPUs"] = ",".join(cpu for cpu in kept.split(",") if int(cpu) in cpus)
    for zone in machine["zones"]:
        zone["cores"] = [core for core in zone["cores"] if core]
        if "uncoreCaches" in zone:
            caches = ([cpu for cpu in cache if cpu in cpus] for cache in zone["uncoreCaches"])
            zone["uncoreCaches"] = [cache for cache in caches if cache]
    return made
