"""
Seeded nodes for benchmarks, and the pods to evaluate on them.

Each zone has CPUs, memory and devices. Machines of one model never report the same bytes, so the memory of
zones differs by some KiB, and no two nodes have the same shape. On half of the nodes, at least as many zones
are open as the pod needs; on the other half, fewer. A zone that is not open is short of one resource. So
about half of the nodes can take the pod, and most of the others only just cannot.

The nodes are of one make, or of several makes in turn, as in clusters that have grown over years.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from sys import intern
from typing import Any

from numalign.cache import Question
from numalign.model import demand
from numalign.model.bitset import bits, members
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.machine import Core, DevicePlace, Machine, Stock
from numalign.model.node import Known, Node, Zone
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from numalign.model.sharing import shared

Raw = dict[str, Any]

GPU, HCA = "nvidia.com/gpu", "rdma/hca"
SMALL_PAGES, LARGE_PAGES = "hugepages-2Mi", "hugepages-1Gi"
NAMES = (CPU, MEMORY, GPU)

CPUS = 32
"""CPUs of a zone of the first model; one CPU of each zone is reserved."""
MEMORY_MIB = 128 * 1024
"""Memory of such a zone, before the KiB by which it differs from the next."""
RESERVED_MIB = 1024
DEVICES = 1

HERE = 10
"""The cost of a zone from itself."""

_SEED = 7
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
_UNLIKE_KIB = 2**20


@dataclass(frozen=True, slots=True)
class Hardware:
    """The resources of a zone of a model; `more` are those in addition to CPUs, memory and GPUs, by name.

    `near` and `far` are the costs of zones in the same socket and in the other one.
    """

    cpus: int = CPUS
    memory_mib: int = MEMORY_MIB
    gpus: int = DEVICES
    more: tuple[tuple[str, int], ...] = ()
    near: int = 12
    far: int = 32


MODELS = (
    Hardware(),
    Hardware(cpus=48, memory_mib=192 * 1024, gpus=2, more=((HCA, 1),)),
    Hardware(cpus=64, memory_mib=256 * 1024, gpus=4, more=((HCA, 4), (LARGE_PAGES, 16 * _GIB)), near=11),
    Hardware(cpus=24, memory_mib=96 * 1024, far=21),
    Hardware(cpus=28, memory_mib=112 * 1024, more=((SMALL_PAGES, 2 * _GIB),), far=21),
    Hardware(cpus=56, memory_mib=256 * 1024, gpus=2, far=20),
    Hardware(cpus=40, memory_mib=160 * 1024, gpus=2, more=((LARGE_PAGES, 8 * _GIB),), near=11),
    Hardware(cpus=96, memory_mib=384 * 1024, gpus=8, more=((HCA, 8),)),
    Hardware(cpus=36, memory_mib=144 * 1024, more=((SMALL_PAGES, _GIB), (LARGE_PAGES, 4 * _GIB)), far=21),
)
"""Any zone of these models, while it is empty, has room for a pod that needs one zone."""

ZONES = (2, 4, 8, 1)
ALIGNING = (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT)
MOST_MAKES = len(MODELS) * len(ZONES) * len(Scope) * len(ALIGNING)


@dataclass(frozen=True, slots=True)
class Make:
    """The common properties of nodes that were bought and set up together."""

    zones: int
    policy: Policy
    scope: Scope = Scope.CONTAINER
    hardware: Hardware = MODELS[0]

    def machine(self, dice: random.Random) -> list[Zone]:
        """Return the zones of a machine with two sockets; no two machines are the same."""
        return [self._zone(at, dice) for at in range(self.zones)]

    def _zone(self, at: int, dice: random.Random) -> Zone:
        model = self.hardware
        memory, more = model.memory_mib * _MIB + dice.randrange(_UNLIKE_KIB) * _KIB, dict(model.more)
        full = Resources({CPU: model.cpus * MILLI, MEMORY: memory, GPU: model.gpus, **more})
        reserved = {CPU: (model.cpus - 1) * MILLI, MEMORY: memory - RESERVED_MIB * _MIB}
        costs = shared(tuple((ZoneId(to), self._cost(at, to)) for to in range(self.zones)))
        # Share equal values, as the reader of topologies does.
        capacity, allocatable = shared(full), shared(Resources({**full, **reserved}))
        return Zone(ZoneId(at), intern(f"node-{at}"), capacity, allocatable, allocatable, costs)

    def _cost(self, here: int, there: int) -> int:
        if here == there:
            return HERE
        alike = here * 2 // self.zones == there * 2 // self.zones
        return self.hardware.near if alike else self.hardware.far


def makes(count: int) -> tuple[Make, ...]:
    """Return the first `count` of `MOST_MAKES` makes; policy and scope vary first, then zones, then models.

    1 is single-numa-node on two zones, 6 are all configurations of nodes with two zones, 24 all makes of one
    model, 36 those and half of another model, 216 all.
    """
    every = product(MODELS, ZONES, Scope, ALIGNING)
    return tuple(Make(zones, policy, scope, model) for model, zones, scope, policy in islice(every, count))


@dataclass(frozen=True, slots=True)
class Case:
    """Nodes of several makes in turn, and a pod that needs `needed` zones of a node and requests a policy.

    If `known` is `Known.MACHINE`, the cores, the free CPUs and the zones of devices are known.
    """

    nodes: int
    makes: tuple[Make, ...]
    asks: Policy
    needed: int = 1
    known: Known = Known.CONFIGURED

    @classmethod
    def alike(cls, nodes: int, zones: int, policy: Policy, needed: int = 1) -> "Case":
        """Return nodes of one make, and a pod that requests the policy of the nodes."""
        return cls(nodes, (Make(zones, policy),), policy, needed)

    @classmethod
    def mixed(cls, nodes: int, count: int, asks: Policy) -> "Case":
        """Return nodes of `count` makes."""
        return cls(nodes, makes(count), asks)

    def __str__(self) -> str:
        """Return the case as a table shows it."""
        make = self.makes[0]
        of_what = f"{make.zones} zones, {make.policy}" if len(self.makes) == 1 else f"{len(self.makes)} makes"
        takes = "" if self.needed == 1 else f", {self.needed} needed"
        return f"{self.nodes:,} nodes, {of_what}, asked for {self.asks}{takes}"

    def members(self) -> list[Node]:
        """Return the nodes; the same for the same case, and with the same zones for every policy."""
        dice = self._dice()
        return [self._node(number, dice) for number in range(self.nodes)]

    def changed(self, nodes: Sequence[Node], share: float, turn: int) -> list[Node]:
        """Return some of these nodes with other free amounts; a different selection each turn."""
        dice = self._dice(turn)
        chosen = dice.sample(range(len(nodes)), max(1, round(share * len(nodes))))
        return [
            self._told(replace(nodes[at], zones=tuple(self._used(nodes[at].zones, dice))), dice)
            for at in chosen
        ]

    def question(self, number: int) -> Question:
        """Return a pod of one container; each number requests a byte more, so no answer is cached."""
        amounts = Resources(dict(zip(NAMES, self.asked(number), strict=True)))
        container = Container("c", requests=amounts, limits=amounts)
        return Question(demand.of(Pod("pod", containers=(container,))), Intent(self.asks))

    def asked(self, number: int) -> tuple[int, int, int]:
        """Return the requests in the order of `NAMES`: too much for fewer zones, but not for `needed`."""
        full = self.needed - 1
        cpus, memory = full * CPUS + CPUS // 2, full * MEMORY_MIB + MEMORY_MIB // 2
        return cpus * MILLI, memory * _MIB + number, self.needed * DEVICES

    def _dice(self, *turns: int) -> random.Random:
        zones = (make.zones for make in dict.fromkeys(self.makes))
        return random.Random(f"{_SEED} {(*zones, self.needed, *turns)}")  # noqa: S311 - it makes input, not secrets

    def _node(self, number: int, dice: random.Random) -> Node:
        make = self.makes[number % len(self.makes)]
        machine = make.machine(dice)
        names = machine[0].allocatable
        totals = {name: sum(zone.allocatable[name] for zone in machine) for name in names}
        node = Node(
            f"node-{number:05}",
            tuple(self._used(machine, dice)),
            policy=make.policy,
            scope=make.scope,
            totals=Resources({**totals, "pods": 110}),
            known=self.known,
        )
        return self._told(node, dice)

    def _told(self, node: Node, dice: random.Random) -> Node:
        """Return the node as it is known, with its machine if the case has it described."""
        return described(node, dice) if self.known is Known.MACHINE else node

    def _used(self, machine: Sequence[Zone], dice: random.Random) -> Iterator[Zone]:
        """Yield the zones with pods on them."""
        enough = dice.random() < 0.5  # noqa: PLR2004 - a half
        least, most = (self.needed, len(machine)) if enough else (0, self.needed - 1)
        opened = set(dice.sample(range(len(machine)), dice.randint(least, most)))
        for at, zone in enumerate(machine):
            yield replace(zone, free=self._free(zone.allocatable, dice, short=at not in opened))

    def _free(self, full: Resources, dice: random.Random, *, short: bool) -> Resources:
        """Return at least an even share of the requests; if `short`, less than that of one resource."""
        lacking = dice.choice(NAMES) if short else None
        cpus, memory, _ = self.asked(0)
        least_cpus, least_mib = -(-cpus // MILLI // self.needed), -(-memory // _MIB // self.needed)
        most_cpus, most_mib = full[CPU] // MILLI, full[MEMORY] // _MIB
        return shared(
            Resources(
                {
                    **full,
                    CPU: MILLI * _drawn(dice, least_cpus, most_cpus, short=lacking == CPU),
                    MEMORY: _MIB * _drawn(dice, least_mib + 1, most_mib, short=lacking == MEMORY),
                    GPU: 0 if lacking == GPU else full[GPU],
                }
            )
        )


def described(node: Node, dice: random.Random) -> Node:
    """Return the node with its machine: two sockets, cores of two threads, each device in one zone.

    Linux numbers the first threads of all cores before the second ones. The free CPUs are random.
    """
    machine = node.machine or _machine(node)
    names = [name for name, _ in machine.devices]
    free = 0
    for zone, cpus in zip(node.zones, machine.topology.zones, strict=True):
        given_out = [*members(cpus & ~machine.reserved)]
        free |= bits(dice.sample(given_out, zone.free[CPU] // MILLI))
    left = tuple((name, tuple(zone.free[name] for zone in node.zones)) for name in names)
    return replace(node, machine=machine, stock=Stock(free, left))


def _machine(node: Node) -> Machine:
    count = len(node.zones)
    sizes = [zone.capacity[CPU] // MILLI for zone in node.zones]
    half = sum(sizes) // 2
    starts = [sum(sizes[:at]) // 2 for at in range(count)]
    cores = (
        Core(zone.id, at * 2 // count, zone.id, bits([first, half + first]))
        for at, zone in enumerate(node.zones)
        for first in range(starts[at], starts[at] + sizes[at] // 2)
    )
    devices = tuple((name, tuple(_places(node, name))) for name in sorted(node.devices))
    return Machine(node.ids, tuple(cores), bits(starts), devices)


def _places(node: Node, name: str) -> Iterator[DevicePlace]:
    for zone in node.zones:
        yield DevicePlace((zone.id,), zone.capacity[name], zone.allocatable[name])


def _drawn(dice: random.Random, least: int, most: int, *, short: bool) -> int:
    return dice.randrange(least // 2) if short else dice.randint(least, most)
