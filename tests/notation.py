"""
The notation of the tables: nodes and pods short enough to see.

    node("cpu=16/15 mem=10Gi", "cpu=16/16/6 mem=10Gi gpu=2", policy="restricted")
    pod("init cpu=2 mem=1Gi | cpu=4..8 mem=1Gi gpu=1")

An amount of a zone is `capacity/allocatable/free`; what is left out is as much as the one before it. An
amount of a container is both its request and its limit; `4..8`, `4..` and `..8` tell them apart. Containers
are named c0, c1, ... as they stand; a first word `init` or `sidecar` gives the role.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from numalign.rules import demand, resources
from numalign.rules.demand import Demand
from numalign.rules.intent import Intent, Match, Policy, Scope
from numalign.rules.pod import Container, Pod, Role
from numalign.rules.resources import Resources, ZoneId
from numalign.rules.topology import DEFAULT_MAX_ZONES, CpuManager, MemoryManager, Node, Zone, managers

GPU = "nvidia.com/gpu"
NIC = "example.com/nic"
HUGE = "hugepages-1Gi"
HUGE_2M = "hugepages-2Mi"

_NAMES = {"mem": "memory", "gpu": GPU, "nic": NIC, "huge": HUGE, "huge2m": HUGE_2M}
_ROLES = {"init": Role.INIT, "sidecar": Role.SIDECAR}

Ids = tuple[int, ...]


def table(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The rows of a table as pytest takes them: the first column is the sentence that a row shows."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


def bag(text: str) -> Resources:
    """Resources: `cpu=4 mem=1Gi gpu=1`."""
    return resources.parse(dict(_pairs(text.split())))


def zone_ids(*ids: int) -> tuple[ZoneId, ...]:
    """Ids as the rules hold them."""
    return tuple(map(ZoneId, ids))


def zone(text: str, *, at: int = 0) -> Zone:
    """One zone, named like exporters do."""
    amounts = {name: [*told.split("/"), "", ""] for name, told in _pairs(text.split())}
    capacity = {name: told[0] for name, told in amounts.items()}
    allocatable = {name: told[1] or told[0] for name, told in amounts.items()}
    free = {name: told[2] or told[1] or told[0] for name, told in amounts.items()}
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
    )


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
    """The demand of a pod in this notation."""
    return demand.of(pod(*containers))


def means(text: str, *, scope: str | None = None, match: str = "satisfies") -> Intent:
    """An intent, its policy and the resources that it names: `means("restricted cpu gpu", scope="pod")`."""
    policy, *names = text.split()
    listed = tuple(_NAMES.get(name, name) for name in names)
    return Intent(Policy(policy), listed, None if scope is None else Scope(scope), Match(match))


def free_of(node: Node, name: str) -> list[int]:
    """What is free of a resource in each zone, in its unit: cpu in whole CPUs, memory in GiB."""
    full_name = _NAMES.get(name, name)
    unit = {"cpu": 1000, "memory": 2**30}.get(full_name, 1)
    return [zone.free.get(full_name, 0) // unit for zone in node.zones]


def _container(name: str, words: list[str]) -> Container:
    role = _ROLES.get(words[0]) if words else None
    pairs = [(key, told.partition("..")) for key, told in _pairs(words[1:] if role else words)]
    requests = {key: asked for key, (asked, _, _) in pairs if asked}
    limits = {key: limit if dots else asked for key, (asked, dots, limit) in pairs if limit or not dots}
    return Container(name, role or Role.APP, resources.parse(requests), resources.parse(limits))


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, amount = word.partition("=")
        yield _NAMES.get(name, name), amount


def _with_blocks(zone: Zone, blocks: tuple[Ids, ...]) -> Zone:
    mine = [block for block in blocks if zone.id in block]
    cells = frozenset(zone_ids(*mine[-1])) if mine else frozenset[ZoneId]()
    return replace(zone, cells=cells, assignments=len(mine))


def _with_costs(zone: Zone, costs: Mapping[Ids, int]) -> Zone:
    mine = ((ZoneId(there), cost) for (here, there), cost in costs.items() if here == zone.id)
    return replace(zone, costs=tuple(mine))
