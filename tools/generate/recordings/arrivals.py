"""
Pods drawn for one machine: those that come, and those that leave.

They are such as a scheduler would send, which looks at the node as a whole and at the pods that run there. So
what comes next turns on what the kubelet refused. A few pods that do not fit are kept, and marked.
"""

from collections.abc import Callable, Generator, Mapping

from numalign.kube.decode import pods
from numalign.model import demand, resources
from tools.generate.recordings.hardware import MI, PAGES, for_pods
from tools.generate.recordings.recipes import Draw, Json

Bag = Mapping[str, int]
"""Amounts by name: CPUs in thousandths, the others in units."""

UNKNOWN = "example.com/unheard"
"""A device of which the kubelet knows nothing."""

Steps = Generator[Json, bool | None, None]
"""What happens to a node; to each pod that comes, the answer is sent whether it was admitted."""


def steps(draw: Draw, machine: Json) -> Steps:
    """Pods that come, and pods that go in any order, one or several at once."""
    whole = _whole_node(machine)
    drawn, running = _Pods(draw, machine, whole), dict[str, Bag]()
    for number in range(draw.rng.randint(*draw.recipe["steps"])):
        step = _coming(drawn, whole, running, f"p{number:02}")
        if step and (yield step) is False:
            del running[step["create"]["metadata"]["name"]]
        if running and draw.happens("deleted" if step else 0.9):
            count = min(len(running), draw.pick("at_once"))
            for name in draw.rng.sample(sorted(running), count):
                del running[name]
                yield {"delete": name}


def _coming(drawn: "_Pods", whole: Bag, running: dict[str, Bag], name: str) -> Json | None:
    """A pod that fits, or one that is marked because it does not; None if no attempt fitted."""
    for _ in range(6):
        pod = drawn.pod(name)
        requests = requested(pod["spec"])
        fits = all(
            sum(bag.get(resource, 0) for bag in running.values()) + amount <= whole.get(resource, 0)
            for resource, amount in requests.items()
        )
        if fits or drawn.draw.happens(drawn.draw.recipe["misfits"] / 6):
            running[name] = requests
            return {"create": pod} if fits else {"create": pod, "fits": False}
    return None


def _whole_node(machine: Json) -> Bag:
    """What the scheduler believes a node to have."""
    zones = machine["zones"]
    named = machine.get("reservedSystemCPUs", "")
    kept = machine.get("reservedCPUs") or len(named.split(",") if named else ())
    return {
        "cpu": 1000 * (sum(len(core) for zone in zones for core in zone["cores"]) - kept),
        "memory": sum(map(for_pods, zones)),
        **{
            name: sum(one.get("healthy", True) for one in listed)
            for name, listed in machine["devices"].items()
        },
        **{
            f"hugepages-{size}": PAGES[size] * sum(zone["hugepages"][size] for zone in zones)
            for size in zones[0]["hugepages"]
        },
    }


def requested(spec: Json) -> Bag:
    """What the scheduler reserves for a pod, zeros among it."""
    containers = {name: spec[name] for name in ("initContainers", "containers") if name in spec}
    bags = [one["resources"] for listed in containers.values() for one in listed]
    zeros = {name: 0 for each in bags for bag in each.values() for name in bag}
    whole = spec.get("resources", {})
    stated = resources.parse(whole.get("limits", {}) | whole.get("requests", {}))
    return {**zeros, **demand.of(pods.pod({"metadata": {"name": "pod"}, "spec": containers})).total, **stated}


class _Pods:
    """Draws pods whose sizes are measured by the zones of a machine."""

    def __init__(self, draw: Draw, machine: Json, whole: Bag) -> None:
        self.draw = draw
        zones = machine["zones"]
        with_cpus = sum(bool(zone["cores"]) for zone in zones)
        self._cpus = max(1, sum(len(core) for zone in zones for core in zone["cores"]) // with_cpus)
        self._memory = whole["memory"] // len(zones)
        self._devices = {name: whole[name] for name in machine["devices"]}
        self._huge = {f"hugepages-{size}": PAGES[size] for size in zones[0]["hugepages"]}
        self._whole = whole

    def pod(self, name: str) -> Json:
        """A pod of any class."""
        draw = self.draw
        quality = draw.pick("quality")
        before = [self._container(f"i{at}", quality) for at in range(draw.pick("before"))]
        before = [one | ({"restartPolicy": "Always"} if draw.happens(0.4) else {}) for one in before]
        apps = [self._container(f"c{at}", quality) for at in range(draw.pick("apps"))]
        spec: Json = {"initContainers": before, "containers": apps} if before else {"containers": apps}
        if draw.happens("whole"):
            spec["resources"] = self._pod_level(requested(spec))
        metadata = {"name": name, "namespace": "default", "uid": name}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _container(self, name: str, quality: str) -> Json:
        own = self.draw.rng.choice(("guaranteed", "guaranteed", "burstable", "effortless"))
        bags = _QUALITIES[own if quality == "mixed" else quality](self)
        return {
            "name": name,
            "image": "busybox",
            "resources": {kind: bag for kind, bag in bags.items() if bag},
        }

    def guaranteed(self) -> Json:
        limits = {"cpu": self._cpu(), "memory": self._bytes()} | self._hugepages() | self._pieces()
        return {"limits": limits, "requests": dict(limits) if self.draw.happens(0.7) else {}}

    def burstable(self) -> Json:
        amounts = {"cpu": self._cpu(), "memory": self._bytes()}
        names = self.draw.rng.choice((["cpu"], ["memory"], ["cpu", "memory"]))
        fixed = self._hugepages() | self._pieces()
        above = {"cpu": "64"} if "cpu" in names and self.draw.happens(0.3) else {}
        return {"requests": {name: amounts[name] for name in names} | fixed, "limits": fixed | above}

    def effortless(self) -> Json:
        """Nothing but devices."""
        return {"limits": self._pieces()}

    def _cpu(self) -> str:
        draw = self.draw
        if draw.happens(draw.recipe["zeros"] / 4):
            return "0"
        if draw.happens("fractional"):
            return draw.rng.choice(("500m", "250m", "1500m", "2500m"))
        share = round(self._cpus * draw.pick("cpus"))
        count = max(1, share + draw.rng.choice((0, 0, 0, 1, -1)))
        return draw.rng.choice((f"{count}", f"{count}", f"{count}", f"{count}000m"))

    def _bytes(self) -> str:
        share = int(self._memory * self.draw.pick("memory"))
        amount = max(MI, share + self.draw.rng.choice((0, 0, 1, MI)))
        return self.draw.rng.choice((f"{amount // MI}Mi", f"{amount // MI}Mi", f"{amount}"))

    def _hugepages(self) -> dict[str, str]:
        names = [name for name in self._huge if self._whole[name] and self.draw.happens("huge")]
        return {name: f"{self._some_pages(name) // MI}Mi" for name in names}

    def _some_pages(self, name: str) -> int:
        size = self._huge[name]
        return size * max(
            1, int(self._whole[name] // size * self.draw.rng.choice((0.01, 0.1, 0.25, 0.5, 1.0)))
        )

    def _pieces(self) -> dict[str, str]:
        """Amounts of devices; of one that the kubelet does not know, only none at all."""
        draw, found = self.draw, {}
        for name, count in self._devices.items():
            if draw.happens("zeros"):
                found[name] = "0"
            elif draw.happens("devices"):
                found[name] = str(draw.rng.choice((1, 1, 1, 2, 2, 3, max(1, count // 2), max(1, count))))
        return found | ({UNKNOWN: "0"} if draw.happens(draw.recipe["zeros"] / 4) else {})

    def _pod_level(self, requests: Bag) -> Json:
        """What the pod asks for as a whole: what its containers do, or more."""
        draw = self.draw
        spare = draw.rng.choice((1.0, 1.0, 1.3, 2.0))
        step = 1000 if draw.happens(0.8) else 1
        cpu = -int(-requests.get("cpu", 1000) * spare // step) * step
        memory = int(requests.get("memory", 64 * MI) * spare)
        amounts = {"cpu": f"{max(step, cpu)}m", "memory": f"{max(MI, memory)}"}
        names = draw.rng.choice((["cpu", "memory"],) * 5 + (["cpu"], ["memory"]))
        limits = {name: amounts[name] for name in names}
        limits |= {name: str(requests[name]) for name in self._huge if name in requests}
        if draw.happens(0.3):
            return {"limits": limits}
        kept = limits if draw.happens(0.85) else {"memory": amounts["memory"]} | limits
        return {"limits": limits, "requests": dict(kept)}


_QUALITIES: Mapping[str, Callable[[_Pods], Json]] = {
    "guaranteed": _Pods.guaranteed,
    "burstable": _Pods.burstable,
    "effortless": _Pods.effortless,
}
