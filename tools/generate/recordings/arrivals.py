"""
Pods drawn for one machine: those that come, and those that leave.

They are such as a scheduler would send, which looks at the node as a whole and at the pods that run there. So
what comes next turns on what the kubelet refused. A few pods that do not fit are kept, and marked.
"""

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import reduce
from typing import Any

from tools.generate.recordings.hardware import MI, PAGES, for_pods, happens
from tools.generate.recordings.recipes import Taste

Json = dict[str, Any]
Bag = dict[str, int]
"""Amounts by name: CPUs in thousandths, the others in units."""

ALWAYS = {"restartPolicy": "Always"}
UNHEARD = "example.com/unheard"
"""A device of which the kubelet knows nothing."""


Steps = Generator[Json, bool | None, None]
"""What happens to a node; to each pod that comes, the answer is sent whether it was admitted."""


def steps(rng: random.Random, taste: Taste, machine: Json) -> Steps:
    """Pods that come, and pods that go in any order, one or several at once."""
    draw, account = _Draw(rng, taste, machine), _Account(_whole_node(machine))
    for number in range(rng.randint(*taste.steps)):
        step = _coming(draw, account, f"p{number:02}")
        if step and (yield step) is False:
            account.leave(step["create"]["metadata"]["name"])
        if account.running and happens(rng, taste.deleted if step else 0.9):
            yield from _leaving(draw, account)


def _coming(draw: "_Draw", account: "_Account", name: str) -> Json | None:
    """A pod that fits, or one that is marked because it does not; None if no attempt fitted."""
    for _ in range(6):
        pod = draw.pod(name)
        asked = requested(pod["spec"])
        fits = account.fits(asked)
        if fits or happens(draw.rng, draw.taste.misfits / 6):
            account.come(name, asked)
            return {"create": pod} if fits else {"create": pod, "fits": False}
    return None


def _leaving(draw: "_Draw", account: "_Account") -> Iterator[Json]:
    count = min(len(account.running), draw.rng.choice(draw.taste.at_once))
    for name in draw.rng.sample(sorted(account.running), count):
        account.leave(name)
        yield {"delete": name}


def _whole_node(machine: Json) -> Bag:
    """What the scheduler believes a node to have."""
    zones = machine["zones"]
    named = machine.get("reservedSystemCPUs", "")
    kept = machine.get("reservedCPUs") or len(named.split(",") if named else ())
    return {
        "cpu": 1000 * (sum(len(core) for zone in zones for core in zone["cores"]) - kept),
        "memory": sum(map(for_pods, zones)),
        **{name: _healthy(listed) for name, listed in machine["devices"].items()},
        **{
            f"hugepages-{size}": PAGES[size] * sum(zone["hugepages"][size] for zone in zones)
            for size in zones[0]["hugepages"]
        },
    }


def _healthy(devices: list[Json]) -> int:
    return sum(one.get("healthy", True) for one in devices)


class _Account:
    """The scheduler's account of one node."""

    def __init__(self, free: Bag) -> None:
        self._free = free
        self.running: dict[str, Bag] = {}

    def fits(self, asked: Bag) -> bool:
        return all(self._free.get(name, 0) >= amount for name, amount in asked.items())

    def come(self, name: str, asked: Bag) -> None:
        self.running[name] = asked
        self._free = _plus(self._free, {name: -amount for name, amount in asked.items()})

    def leave(self, name: str) -> None:
        self._free = _plus(self._free, self.running.pop(name))


class _Draw:
    """Draws pods whose sizes are measured by the zones of a machine."""

    def __init__(self, rng: random.Random, taste: Taste, machine: Json) -> None:
        self.rng, self.taste = rng, taste
        zones, whole = machine["zones"], _whole_node(machine)
        with_cpus = sum(bool(zone["cores"]) for zone in zones)
        self._cpus = max(1, sum(len(core) for zone in zones for core in zone["cores"]) // with_cpus)
        self._memory = whole["memory"] // len(zones)
        self._devices = {name: whole[name] for name in machine["devices"]}
        self._pages = {f"hugepages-{size}": PAGES[size] for size in zones[0]["hugepages"]}
        self._huge = {name: whole[name] for name in self._pages}

    def pod(self, name: str) -> Json:
        """A pod of any class."""
        rng, taste = self.rng, self.taste
        quality = rng.choice(taste.quality)
        before = [self._container(f"i{at}", quality) for at in range(rng.choice(taste.before))]
        before = [one | (ALWAYS if happens(rng, 0.4) else {}) for one in before]
        apps = [self._container(f"c{at}", quality) for at in range(rng.choice(taste.apps))]
        spec: Json = {"initContainers": before, "containers": apps} if before else {"containers": apps}
        if happens(rng, taste.whole):
            spec["resources"] = self._whole(requested(spec))
        metadata = {"name": name, "namespace": "default", "uid": name}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _container(self, name: str, quality: str) -> Json:
        own = self.rng.choice(("guaranteed", "guaranteed", "burstable", "effortless"))
        bags = _QUALITIES[own if quality == "mixed" else quality](self)
        return {
            "name": name,
            "image": "busybox",
            "resources": {kind: bag for kind, bag in bags.items() if bag},
        }

    def guaranteed(self) -> Json:
        limits = {"cpu": self._cpu(), "memory": self._bytes()} | self._hugepages() | self._pieces()
        return {"limits": limits, "requests": dict(limits) if happens(self.rng, 0.7) else {}}

    def burstable(self) -> Json:
        asked = {"cpu": self._cpu(), "memory": self._bytes()}
        names = self.rng.choice((["cpu"], ["memory"], ["cpu", "memory"]))
        fixed = self._hugepages() | self._pieces()
        above = {"cpu": "64"} if "cpu" in names and happens(self.rng, 0.3) else {}
        return {"requests": {name: asked[name] for name in names} | fixed, "limits": fixed | above}

    def effortless(self) -> Json:
        """Nothing but devices."""
        return {"limits": self._pieces()}

    def _cpu(self) -> str:
        if happens(self.rng, self.taste.zeros / 4):
            return "0"
        if happens(self.rng, self.taste.fractional):
            return self.rng.choice(("500m", "250m", "1500m", "2500m"))
        share = round(self._cpus * self.rng.choice(self.taste.cpus))
        count = max(1, share + self.rng.choice((0, 0, 0, 1, -1)))
        return self.rng.choice((f"{count}", f"{count}", f"{count}", f"{count}000m"))

    def _bytes(self) -> str:
        share = int(self._memory * self.rng.choice(self.taste.memory))
        amount = max(MI, share + self.rng.choice((0, 0, 1, MI)))
        return self.rng.choice((f"{amount // MI}Mi", f"{amount // MI}Mi", f"{amount}"))

    def _hugepages(self) -> dict[str, str]:
        asked = [name for name, total in self._huge.items() if total and happens(self.rng, self.taste.huge)]
        return {name: f"{self._some_pages(name) // MI}Mi" for name in asked}

    def _some_pages(self, name: str) -> int:
        count = int(self._huge[name] // self._pages[name] * self.rng.choice((0.01, 0.1, 0.25, 0.5, 1.0)))
        return max(1, count) * self._pages[name]

    def _pieces(self) -> dict[str, str]:
        """Amounts of devices; of one that the kubelet does not know, only none at all."""
        found = {}
        for name, count in self._devices.items():
            if happens(self.rng, self.taste.zeros):
                found[name] = "0"
            elif happens(self.rng, self.taste.devices):
                found[name] = str(self.rng.choice((1, 1, 1, 2, 2, 3, max(1, count // 2), max(1, count))))
        return found | ({UNHEARD: "0"} if happens(self.rng, self.taste.zeros / 4) else {})

    def _whole(self, asked: Bag) -> Json:
        """What the pod asks for as a whole: what its containers do, or more."""
        spare = self.rng.choice((1.0, 1.0, 1.3, 2.0))
        step = 1000 if happens(self.rng, 0.8) else 1
        cpu = -int(-asked.get("cpu", 1000) * spare // step) * step
        memory = int(asked.get("memory", 64 * MI) * spare)
        amounts = {"cpu": f"{max(step, cpu)}m", "memory": f"{max(MI, memory)}"}
        names = self.rng.choice((["cpu", "memory"],) * 5 + (["cpu"], ["memory"]))
        limits = {name: amounts[name] for name in names}
        limits |= {name: str(asked[name]) for name in self._huge if name in asked}
        if happens(self.rng, 0.3):
            return {"limits": limits}
        kept = limits if happens(self.rng, 0.85) else {"memory": amounts["memory"]} | limits
        return {"limits": limits, "requests": dict(kept)}


_QUALITIES: Mapping[str, Callable[[_Draw], Json]] = {
    "guaranteed": _Draw.guaranteed,
    "burstable": _Draw.burstable,
    "effortless": _Draw.effortless,
}


def requested(spec: Json) -> Bag:
    """What the scheduler reserves for a pod."""
    beside: Bag = {}
    most: Bag = {}
    for one in spec.get("initContainers", []):
        own = _plus(beside, _amounts(one["resources"]))
        most = {name: max(most.get(name, 0), own.get(name, 0)) for name in {**most, **own}}
        beside = own if "restartPolicy" in one else beside
    apps = reduce(_plus, (_amounts(one["resources"]) for one in spec["containers"]), beside)
    found = {name: max(most.get(name, 0), apps.get(name, 0)) for name in {**most, **apps}}
    return found | _amounts(spec.get("resources", {}))


def _plus(one: Bag, other: Bag) -> Bag:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _amounts(resources: Json) -> Bag:
    bag = resources.get("limits", {}) | resources.get("requests", {})
    return {name: _amount(name, text) for name, text in bag.items()}


def _amount(name: str, text: str) -> int:
    if name == "cpu":
        return int(text[:-1]) if text.endswith("m") else 1000 * int(text)
    return int(text[:-2]) * MI if text.endswith("Mi") else int(text)
