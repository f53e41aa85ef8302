"""
The smallest scenario that still does what a large one did.

Everything is tried without what it can do without, and smaller: steps, containers, amounts, zones, cores,
devices, options. What is left after that is what the matter turns on.
"""

import copy
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from typing import Any

from tools.generate.recordings.hardware import GI, MI

Json = dict[str, Any]
Path = tuple[str | int, ...]

Holds = Callable[[Json], bool]
"""Whether a scenario still does what it is about; False too once there is no more time."""

Ways = Callable[[Json], Iterator[Json]]
"""All scenarios that are smaller in one way by one step, the largest steps first."""

PLAIN = {"topologyManagerScope": "container", "cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}
KEPT = ("name", "image", "containers", "resources")
"""What a pod's spec is not tried without, but for `resources` of the pod itself."""


def shrink(scenario: Json, holds: Holds) -> Json:
    """The last of a row of scenarios that hold, each smaller than the one before."""
    before = None
    while scenario != before:
        before = scenario
        for ways in WAYS:
            scenario = _smallest(scenario, ways, holds)
    return scenario


def _smallest(scenario: Json, ways: Ways, holds: Holds) -> Json:
    """Take the first step that holds, and look on from there, until none does."""
    while found := next((made for made in ways(scenario) if made != scenario and holds(made)), None):
        scenario = found
    return scenario


def paths(tree: object, at: Path = ()) -> Iterator[Path]:
    """The way to every entry of a tree of mappings and lists, owners before what they hold."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, entry in entries:
        yield (*at, key)
        yield from paths(entry, (*at, key))


def without(tree: Json, path: Path) -> Json:
    """The tree without one entry."""
    made = copy.deepcopy(tree)
    del _entry(made, path[:-1])[path[-1]]
    return made


def replaced(tree: Json, path: Path, value: object) -> Json:
    made = copy.deepcopy(tree)
    _entry(made, path[:-1])[path[-1]] = value
    return made


def _entry(tree: Json, path: Path) -> Any:  # noqa: ANN401 - whatever stands there
    return reduce(getitem, path, tree)  # type: ignore[arg-type]


def _fewer_steps(scenario: Json) -> Iterator[Json]:
    steps = scenario["steps"]
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps) - size + 1, size):
            left = steps[:start] + steps[start + size :]
            come = {None, *(step["create"]["metadata"]["name"] for step in left if "create" in step)}
            # Without deletions of pods that never came.
            yield scenario | {"steps": [step for step in left if step.get("delete") in come]}
        size //= 2


def _fewer_parts(scenario: Json) -> Iterator[Json]:
    """Without a container, a resource (in limits and requests at once, then in one of them), or a word."""
    for at, spec in _specs(scenario):
        for path in paths(spec):
            if path[-1] not in KEPT or path == ("resources",):
                yield _with_spec(scenario, at, without(spec, path))
            if path[-1] == "limits":
                bags = _entry(spec, path[:-1])
                for name in sorted({name for bag in bags.values() for name in bag}):
                    left = {kind: {key: bag[key] for key in bag if key != name} for kind, bag in bags.items()}
                    yield _with_spec(scenario, at, replaced(spec, path[:-1], left))


def _smaller_amounts(scenario: Json) -> Iterator[Json]:
    for at, spec in _specs(scenario):
        for path in paths(spec):
            # Where requests repeat the limits, both shrink at once.
            if len(path) > 1 and path[-2] in ("limits", "requests"):
                for text in _smaller(str(path[-1]), str(_entry(spec, path))):
                    yield _with_spec(scenario, at, _everywhere(spec, path, text))


def _everywhere(spec: Json, path: Path, text: str) -> Json:
    """The amount in the limits and the requests of one owner alike."""
    owner, name = path[:-2], path[-1]
    for kind in ("limits", "requests"):
        if name in _entry(spec, owner).get(kind, {}):
            spec = replaced(spec, (*owner, kind, name), text)
    return spec


def _smaller(name: str, text: str) -> Iterator[str]:
    if name == "cpu":
        if text.endswith("000m"):
            yield text[:-4]
        yield from _less(int(text[:-1]) // 1000 if text.endswith("m") else int(text))
    elif name == "memory" or name.startswith("hugepages-"):
        size = int(text[:-2]) if text.endswith("Mi") else int(text) // MI
        sizes = sorted({64, 1024, 2048, size // 2, size // 1024 * 1024})
        yield from (f"{less}Mi" for less in sizes if 64 <= less < size)
    else:
        yield from _less(int(text))


def _less(count: int) -> Iterator[str]:
    yield from map(str, sorted({less for less in (1, count // 2, count - 1) if 0 < less < count}))


def _specs(scenario: Json) -> Iterator[tuple[int, Json]]:
    """The spec of each pod, with the number of the step at which it comes."""
    for at, step in enumerate(scenario["steps"]):
        if "create" in step:
            yield at, step["create"]["spec"]


def _with_spec(scenario: Json, at: int, spec: Json) -> Json:
    steps = scenario["steps"]
    step = steps[at] | {"create": steps[at]["create"] | {"spec": spec}}
    # A pod has at least one container, and only a spec that lists one is a pod.
    return scenario | {"steps": [*steps[:at], step, *steps[at + 1 :]]} if spec["containers"] else scenario


def _simpler_config(scenario: Json) -> Iterator[Json]:
    config = scenario["kubeletConfig"]
    for path in paths(config):
        if isinstance(_entry(config, path[:1]), dict):
            yield scenario | {"kubeletConfig": without(config, path)}
    for name, value in PLAIN.items():
        yield scenario | {"kubeletConfig": config | {name: value}}


def _smaller_machine(scenario: Json) -> Iterator[Json]:
    for change in (_fewer_zones, _fewer_devices, _plainer_zones, _fewer_cores, _fewer_reserved):
        yield from (scenario | {"machine": made} for made in change(scenario["machine"]))


def _fewer_zones(machine: Json) -> Iterator[Json]:
    zones = machine["zones"]
    for at, gone in enumerate(zones) if len(zones) > 1 else ():
        kept = [without(zone, ("distances", at)) if "distances" in zone else zone for zone in zones]
        devices = {
            name: [device for device in listed if gone["id"] not in device["zones"]]
            for name, listed in machine["devices"].items()
        }
        yield _settled(machine | {"zones": kept[:at] + kept[at + 1 :], "devices": devices})


def _fewer_devices(machine: Json) -> Iterator[Json]:
    for path in paths(machine["devices"]):
        if len(path) <= len(("resource", "number")) or path[-1] == "healthy":
            yield machine | {"devices": without(machine["devices"], path)}


def _plainer_zones(machine: Json) -> Iterator[Json]:
    zones = machine["zones"]
    for size in zones[0]["hugepages"]:
        yield machine | {"zones": [without(zone, ("hugepages", size)) for zone in zones]}
    for at, zone in enumerate(zones):
        if "uncoreCaches" in zone:
            yield without(machine, ("zones", at, "uncoreCaches"))
        yield replaced(machine, ("zones", at, "reservedMemory"), 0)
        yield replaced(machine, ("zones", at, "memory"), min(zone["memory"], 8 * GI))


def _fewer_cores(machine: Json) -> Iterator[Json]:
    for at, zone in enumerate(machine["zones"]):
        for core in reversed(range(len(zone["cores"]))):
            yield _settled(without(machine, ("zones", at, "cores", core)))


def _fewer_reserved(machine: Json) -> Iterator[Json]:
    kept = machine.get("reservedSystemCPUs", "").split(",")
    for at in range(len(kept)) if len(kept) > 1 else ():
        yield machine | {"reservedSystemCPUs": ",".join(kept[:at] + kept[at + 1 :])}
    if machine.get("reservedCPUs", 0) > 1:
        yield machine | {"reservedCPUs": machine["reservedCPUs"] - 1}


def _settled(machine: Json) -> Json:
    """The machine with no CPU named that it does not have."""
    left = {cpu for zone in machine["zones"] for core in zone["cores"] for cpu in core}
    made = machine | {"zones": [dict(zone) for zone in machine["zones"]]}
    if "reservedSystemCPUs" in made:
        kept = [cpu for cpu in made["reservedSystemCPUs"].split(",") if cpu and int(cpu) in left]
        made["reservedSystemCPUs"] = ",".join(kept)
    for zone in made["zones"]:
        if "uncoreCaches" in zone:
            caches = [[cpu for cpu in cache if cpu in left] for cache in zone["uncoreCaches"]]
            zone["uncoreCaches"] = list(filter(None, caches))
    return made


WAYS: tuple[Ways, ...] = (_fewer_steps, _fewer_parts, _simpler_config, _smaller_machine, _smaller_amounts)
