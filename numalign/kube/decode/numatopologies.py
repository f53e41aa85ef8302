"""
Numatopology, in which Volcano's exporter publishes the CPUs of a node.

It is the API of volcano.sh/apis (pkg/apis/nodeinfo/v1alpha1), as volcano-sh/resource-exporter fills it in:
two policies from the kubelet's file, how much CPU is reserved, which CPUs there are and where (`cpuDetail`,
in which a zero is omitted), which of them no pod has exclusively (`numares`, including the reserved ones)
and, since 2026, which pod has which. Volcano's guide also shows the zone of each NVIDIA GPU (`gpuDetail`),
but nothing says which are free. It does not have memory, other devices, the scope and options. So a node
without other reports is known by the amounts of its CPUs, and by its GPUs if its device plugin has as many.

Zones have the names that other exporters give them. A CPU that is in `allocatable` and belongs to a pod at
the same time counts as the pod's.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from sys import intern
from types import MappingProxyType

from numalign.kube.decode.nrt import MOST_ZONES, Topology
from numalign.kube.decode.parts import Part, inner, inner_list
from numalign.kube.kinds import Collection
from numalign.kubelet import cpu_manager
from numalign.model.bitset import union
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy
from numalign.model.machine import LARGEST_ZONE, MOST_CPUS, Core, CpuSet, cpu_topology
from numalign.model.node import CpuManager, Zone
from numalign.model.options import DEFAULTS
from numalign.model.resources import CPU, EMPTY, MILLI, Resources, ZoneId

GROUP = "nodeinfo.volcano.sh"
KIND = "Numatopology"

_SPEC = ("policies", "resReserved", "numares", "cpuDetail", "gpuDetail", "podAllocations")
_KEPT = MappingProxyType({"metadata": {"name": True}, "spec": dict.fromkeys(_SPEC, True)})
COLLECTIONS = (Collection(KIND, f"{GROUP}/v1alpha1", f"/apis/{GROUP}/v1alpha1/numatopologies", _KEPT),)
"""The versions that can be read, the preferred one first."""

GPU = "nvidia.com/gpu"

MOST_GPUS = 1024

MOST_PODS = 1024
"""The limit for one node; a kubelet runs 110 pods, unless configured otherwise."""

MOST_CONTAINERS = 4096


@dataclass(frozen=True, slots=True)
class CpuReport:
    """One Numatopology: threads per core if all are alike, and GPUs by zone if all of those are known."""

    topology: Topology
    threads: int | None
    gpus: Mapping[ZoneId, int]

    def with_gpus(self, total: int) -> Topology:
        """Return the topology with all GPUs, free as far as known, if the node has so many of its plugin."""
        if not total or total != sum(self.gpus.values()):
            return self.topology
        zones = []
        for zone in self.topology.zones:
            has, given_out, free = (
                Resources({**bag, GPU: self.gpus.get(zone.id, 0)})
                for bag in (zone.capacity, zone.allocatable, zone.free)
            )
            zones.append(replace(zone, capacity=has, allocatable=given_out, free=free))
        return replace(self.topology, zones=tuple(zones), uncertain=frozenset({GPU}))


def report(raw: Mapping[str, object]) -> CpuReport:
    """Return the CPUs and the policy of a node; raise `BadTopology` with every mistake, or one limit."""
    part = Part(raw)
    spec = part["spec"].required()
    _measure(spec)
    part.raise_mistakes(BadTopology)
    name = intern(part["metadata"]["name"].required_text())
    policies = spec["policies"]
    policy = policies["TopologyManagerPolicy"].one_of(Policy)
    static = policies["CPUManagerPolicy"].one_of(CpuManager) is CpuManager.STATIC
    cores = _cores(spec["cpuDetail"].required())
    free = 0
    if static:
        # No pod has these CPUs exclusively; the reserved ones are among them.
        listed = spec["numares"][CPU].required()["allocatable"].cpu_list() or 0
        free = listed & ~union(
            container["allocations"][CPU].cpu_list() or 0
            for pod in spec["podAllocations"].objects()
            for container in pod["containerAllocations"].objects()
        )
    kept = -(-spec["resReserved"].amounts().get(CPU, 0) // MILLI)
    ids = sorted({core.zone for core in cores})
    if len(ids) > MOST_ZONES:
        spec["cpuDetail"].wrong(f"names {len(ids)} zones: at most {MOST_ZONES} are allowed")
    part.raise_mistakes(BadTopology)
    cpus = cpu_topology(cores, ids)
    reserved = cpu_manager.reserved_cpus(cpus, DEFAULTS, min(kept, sum(cpus.sizes))) if kept else 0
    zones = []
    for zone, own in zip(ids, cpus.zones, strict=True):
        capacity = allocatable = available = EMPTY
        if static:
            given_out = own & ~reserved
            capacity, allocatable, available = (
                Resources({CPU: each.bit_count() * MILLI}) for each in (own, given_out, given_out & free)
            )
        zones.append(Zone(zone, f"node-{zone}", capacity, allocatable, available))
    threads = {core.threads.bit_count() for core in cores}
    return CpuReport(
        Topology(name, tuple(zones), policy=policy or Policy.NONE),
        threads.pop() if len(threads) == 1 else None,
        _gpus(spec["gpuDetail"], frozenset(ids)),
    )


def _measure(spec: Part) -> None:
    """Note what exceeds a limit, without reading it."""
    detail, pods = spec["cpuDetail"], spec["podAllocations"]
    if isinstance(detail.value, dict) and len(detail.value) > MOST_CPUS:
        detail.wrong(f"has {len(detail.value)} CPUs: at most {MOST_CPUS} are allowed")
    listed = inner_list(pods.value)
    count = sum(len(inner_list(pod, "containerAllocations")) for pod in listed)
    if len(listed) > MOST_PODS or count > MOST_CONTAINERS:
        many = f"has {len(listed)} pods with {count} containers"
        pods.wrong(f"{many}: at most {MOST_PODS} and {MOST_CONTAINERS} are allowed")


def _gpus(detail: Part, zones: frozenset[ZoneId]) -> Mapping[ZoneId, int]:
    """Return the GPUs of each of these zones; none if the zone of any is unknown."""
    listed = detail.value if isinstance(detail.value, dict) and len(detail.value) <= MOST_GPUS else {}
    numbers = [inner(gpu, "numa") for gpu in listed.values()]
    # A zero may be omitted, and a GPU on no zone has a negative number. If all are omitted, none is known.
    if not any(type(number) is int for number in numbers):
        return MappingProxyType({})
    places = Counter(ZoneId(number or 0) for number in numbers if number is None or type(number) is int)
    known = places.total() == len(numbers) and places.keys() <= zones
    return MappingProxyType(dict(places) if known else {})


def _cores(detail: Part) -> tuple[Core, ...]:
    # The number of a core is unique only on its socket.
    threads: dict[tuple[ZoneId, int, int], CpuSet] = defaultdict(int)
    for name, part in detail.members():
        if not (
            name.isascii() and name.isdigit() and len(name) <= len(str(MOST_CPUS)) and int(name) < MOST_CPUS
        ):
            part.wrong(f"is not a CPU ID: a number below {MOST_CPUS}")
            continue
        zone, socket, core = (part[key].integer() or 0 for key in ("numa", "socket", "core"))
        if zone > LARGEST_ZONE:
            part["numa"].wrong(f"{zone} is above {LARGEST_ZONE}, the highest NUMA node ID of Linux")
        threads[ZoneId(zone), socket, core] |= 1 << int(name)
    if detail.value == {}:
        detail.wrong("contains no CPU")
    return tuple(Core(zone, socket, zone, cpus) for (zone, socket, _), cpus in threads.items())
