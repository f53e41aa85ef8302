"""
The notation of the tables: nodes and pods short enough to see.

    node("cpu=16/15 mem=10Gi", "cpu=16/16/6 mem=10Gi gpu=2", policy="restricted")
    pod("init cpu=2 mem=1Gi | cpu=4..8 mem=1Gi gpu=1")

An amount of a zone is `capacity/allocatable/free`; what is left out is as much as the one before it. An
amount of a container is both its request and its limit; `4..8`, `4..` and `..8` tell them apart. Containers
are named c0, c1, ... as they stand; a first word `init` or `sidecar` gives the role.

    machine("cpu=0-3,8-11 mem=10Gi", "cpu=4-7,12-15 mem=10Gi", threads=2, reserved="0,8", devices="gpu=0,1x")

A zone of a machine lists its CPUs. The cores of a zone are its CPUs side by side: with two threads, the
first zone here has the cores 0+8, 1+9, 2+10 and 3+11. A device is written as the digits of its zones, `-` if
its plugin reports none, `?` if it reports one that does not exist; `x` says that it is unhealthy, `*` that it
is given out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import pytest

from numalign.model import demand, resources
from numalign.model.bitset import bits, members, union
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Match, Policy, Scope
from numalign.model.machine import (
    UNKNOWN_ZONE,
    Core,
    CpuSet,
    DevicePlace,
    Machine,
    Stock,
    device_places,
    read_list,
)
from numalign.model.node import DEFAULT_MAX_ZONES, CpuManager, Known, MemoryManager, Node, Zone, managers
from numalign.model.options import DEFAULTS, CpuOption, FeatureGate, NumaStrategy, Options, TopologyOption
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import Resources, ZoneId

GPU = "nvidia.com/gpu"
NIC = "example.com/nic"
HUGE = "hugepages-1Gi"
HUGE_2M = "hugepages-2Mi"

_NAMES = {"mem": "memory", "gpu": GPU, "nic": NIC, "huge": HUGE, "huge2m": HUGE_2M}
_ROLES = {"init": Role.INIT, "sidecar": Role.SIDECAR}

Ids = tuple[int, ...]
Device = tuple[frozenset[ZoneId], str]
"""The zones of a device, and the letter that says what is the matter with it, if anything."""


class Facts(TypedDict, total=False):
    """What may be said of a node beside its zones."""

    policy: str
    scope: str
    ids: Sequence[int]
    blocks: Iterable[Ids]
    cpu_manager: CpuManager
    memory_manager: MemoryManager
    totals: str
    max_zones: int
    costs: Mapping[Ids, int]
    options: Options


def table(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The rows of a table as pytest takes them: the first column is the sentence that a row shows."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


def bag(text: str) -> Resources:
    """Resources: `cpu=4 mem=1Gi gpu=1`."""
    return resources.parse(dict(_pairs(text.split())))


def zone_ids(*ids: int) -> tuple[ZoneId, ...]:
    return tuple(map(ZoneId, ids))


def zone(text: str, *, at: int = 0) -> Zone:
    """One zone, named like exporters do."""
    amounts = {name: [*written.split("/"), "", ""] for name, written in _pairs(text.split())}
    capacity = {name: written[0] for name, written in amounts.items()}
    allocatable = {name: written[1] or written[0] for name, written in amounts.items()}
    free = {name: written[2] or written[1] or written[0] for name, written in amounts.items()}
    return Zone(
        ZoneId(at),
        f"node-{at}",
        resources.parse(capacity),
        resources.parse(allocatable),
        resources.parse(free),
    )


def node(  # noqa: PLR0913 - one keyword for each fact of a node
    *zones: str,
    policy: str = "none",
    scope: str = "container",
    ids: Sequence[int] | None = None,
    blocks: Iterable[Ids] = (),
    cpu_manager: CpuManager | None = None,
    memory_manager: MemoryManager | None = None,
    totals: str | None = None,
    max_zones: int = DEFAULT_MAX_ZONES,
    costs: Mapping[Ids, int] | None = None,
    options: Options = DEFAULTS,
    threads: int | None = None,
) -> Node:
    """A node; its managers are those that its zones show. `blocks` lists the zones of each memory block."""
    order = ids or range(len(zones))
    made = [zone(text, at=at) for at, text in zip(order, zones, strict=True)]
    made = [_with_costs(_with_blocks(each, tuple(blocks)), costs or {}) for each in made]
    cpus, memory = managers(made)
    return Node(
        name="node",
        zones=tuple(made),
        policy=Policy(policy),
        scope=Scope(scope),
        cpu_manager=cpu_manager or cpus,
        memory_manager=memory_manager or memory,
        totals=None if totals is None else bag(totals),
        max_zones=max_zones,
        options=options,
        threads=threads,
    )


def machine(  # noqa: PLR0913 - one keyword for each fact of a machine
    *zones: str,
    threads: int = 1,
    sockets: Sequence[int] = (),
    caches: Sequence[str] = (),
    reserved: str = "",
    free: str | None = None,
    devices: str = "",
    **facts: Unpack[Facts],
) -> Node:
    """A node whose machine is known.

    A zone is a socket and a cache, unless `sockets` tells the one of each zone and `caches` the CPUs of each
    cache. `free` are the CPUs that are not given out: all but the reserved ones, if it is left out.
    """
    order = zone_ids(*(facts.get("ids") or range(len(zones))))
    written = [dict(_pairs(text.split())) for text in zones]
    lists = [read_list(amounts.pop("cpu", "")) for amounts in written]
    kept = read_list(reserved)
    left = union(lists) & ~kept if free is None else read_list(free)
    found = [(name, [*map(_device, text.split(","))]) for name, text in _pairs(devices.split())]
    for at, (amounts, held) in enumerate(zip(written, lists, strict=True)):
        if held:
            amounts["cpu"] = _counted(held, held & ~kept, held & left)
        amounts |= {name: listed for name, every in found if (listed := _listed(order[at], every))}
    made = Machine(
        order,
        tuple(_cores(lists, order, sockets or order, threads, [*map(read_list, caches)] or lists)),
        kept,
        tuple(
            (name, device_places(order, ((at, state != "x") for at, state in every))) for name, every in found
        ),
    )
    stock = Stock(left, tuple((name, _left(every, dict(made.devices)[name])) for name, every in found))
    texts = (" ".join(f"{name}={amount}" for name, amount in amounts.items()) for amounts in written)
    return replace(node(*texts, **facts), machine=made, stock=stock, known=Known.MACHINE)


def options(
    words: str = "", *, minor: int | None = None, strategy: str = "none", weights: str = "", unknown: str = ""
) -> Options:
    """What a kubelet was told, in its own words, and its minor version; weights as in `cpu=3 gpu=6`."""
    written = words.split()
    made = Options(
        frozenset(word for word in CpuOption if word in written),
        frozenset(word for word in TopologyOption if word in written),
        frozenset(word for word in FeatureGate if word in written),
        minor,
        NumaStrategy(strategy),
        tuple(sorted((_NAMES.get(name, name), int(weight)) for name, weight in _pairs(weights.split()))),
        frozenset(unknown.split()),
    )
    assert len(written) == len(made.cpu | made.topology | made.gates)
    return made


def pod(
    *containers: str,
    requests: str | None = None,
    limits: str | None = None,
    overhead: str = "",
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """A pod; `requests` and `limits` are those of the pod level."""
    texts = [text for several in containers for text in several.split("|")]
    return Pod(
        name="pod",
        annotations=annotations or {},
        containers=tuple(_container(f"c{at}", text.split()) for at, text in enumerate(texts)),
        pod_requests=None if requests is None else bag(requests),
        pod_limits=None if limits is None else bag(limits),
        overhead=bag(overhead),
    )


def asks(*containers: str) -> Demand:
    return demand.of(pod(*containers))


def means(
    text: str, *, scope: str | None = None, match: str = "satisfies", exclusive: bool = False
) -> Intent:
    """An intent, its policy and the resources that it names: `means("restricted cpu gpu", scope="pod")`."""
    policy, *names = text.split()
    listed = tuple(_NAMES.get(name, name) for name in names)
    return Intent(Policy(policy), listed, None if scope is None else Scope(scope), Match(match), exclusive)


def free_of(node: Node, name: str) -> list[int]:
    """What is free of a resource in each zone, in its unit: cpu in whole CPUs, memory in GiB."""
    full_name = _NAMES.get(name, name)
    unit = {"cpu": 1000, "memory": 2**30}.get(full_name, 1)
    return [zone.free.get(full_name, 0) // unit for zone in node.zones]


def _container(name: str, words: list[str]) -> Container:
    role = _ROLES.get(words[0]) if words else None
    pairs = [(key, written.partition("..")) for key, written in _pairs(words[1:] if role else words)]
    requests = {key: asked for key, (asked, _, _) in pairs if asked}
    limits = {key: limit if dots else asked for key, (asked, dots, limit) in pairs if limit or not dots}
    return Container(name, role or Role.APP, resources.parse(requests), resources.parse(limits))


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, amount = word.partition("=")
        yield _NAMES.get(name, name), amount


def _cores(
    lists: list[CpuSet], order: Iterable[ZoneId], sockets: Iterable[int], threads: int, caches: list[CpuSet]
) -> Iterator[Core]:
    for held, zone, socket in zip(lists, order, sockets, strict=True):
        every = list(members(held))
        count = len(every) // threads
        for core in (bits(every[first::count]) for first in range(count)):
            yield Core(zone, socket, next(at for at, cache in enumerate(caches) if cache & core), core)


def _device(word: str) -> Device:
    digits = word.rstrip("x*-?")
    zones = [UNKNOWN_ZONE] if "?" in word else zone_ids(*map(int, digits))
    return frozenset(zones), word[len(digits) :].strip("-?")


def _counted(*held: CpuSet) -> str:
    return "/".join(str(cpus.bit_count()) for cpus in held)


def _listed(zone: ZoneId, devices: Iterable[Device]) -> str:
    """The devices of one zone, as exporters count them: one between zones counts for each."""
    here = [state for at, state in devices if zone in at]
    healthy = [state for state in here if state != "x"]
    return f"{len(here)}/{len(healthy)}/{healthy.count('')}" if here else ""


def _left(devices: list[Device], every: Iterable[DevicePlace]) -> Ids:
    return tuple(devices.count((frozenset(place.zones), "")) for place in every)


def _with_blocks(zone: Zone, blocks: tuple[Ids, ...]) -> Zone:
    mine = [block for block in blocks if zone.id in block]
    cells = frozenset(zone_ids(*mine[-1])) if mine else frozenset[ZoneId]()
    return replace(zone, cells=cells, assignments=len(mine))


def _with_costs(zone: Zone, costs: Mapping[Ids, int]) -> Zone:
    mine = ((ZoneId(there), cost) for (here, there), cost in costs.items() if here == zone.id)
    return replace(zone, costs=tuple(mine))
