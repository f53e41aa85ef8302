"""
Seeded nodes for the fleet in columns, and the pods that they are asked about.

Each zone has CPUs, memory and devices. Machines of one model never report the same bytes, so the memory of
each zone differs by some KiB and no two nodes are the same shape. On one half of the nodes as many zones are
open as the pod needs, or more; on the other half fewer. A zone that is not open is short of one resource. So
about half of the nodes can take the pod, and most of the others only just cannot.

A fleet is of one make, or of several whose nodes stand in turn, as they do in clusters that grew over years.
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
"""Of a zone of the first model; the last one of each is reserved."""
MEMORY_MIB = 128 * 1024
"""Of such a zone, before the KiB by which it differs from the next."""
RESERVED_MIB = 1024
DEVICES = 1

HERE = 10
"""What a zone costs from itself."""

_SEED = 7
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
_UNLIKE_KIB = 2**20


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a zone of a model has, beside CPUs, memory and GPUs `more` by name.

    `near` and `far` are what a zone costs from its socket and from the other one.
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
"""In each zone of any of them a pod that needs one zone has room, when it is empty."""

ZONES = (2, 4, 8, 1)
ALIGNING = (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT)
MOST_MAKES = len(MODELS) * len(ZONES) * len(Scope) * len(ALIGNING)


@dataclass(frozen=True, slots=True)
class Make:
    """What is the same on nodes that were bought and set up together."""

    zones: int
    policy: Policy
    scope: Scope = Scope.CONTAINER
    hardware: Hardware = MODELS[0]

    def machine(self, dice: random.Random) -> list[Zone]:
        """The zones of a machine of two sockets; no two machines are alike."""
        return [self._zone(at, dice) for at in range(self.zones)]

    def _zone(self, at: int, dice: random.Random) -> Zone:
        model = self.hardware
        memory, more = model.memory_mib * _MIB + dice.randrange(_UNLIKE_KIB) * _KIB, dict(model.more)
        full = Resources({CPU: model.cpus * MILLI, MEMORY: memory, GPU: model.gpus, **more})
        reserved = {CPU: (model.cpus - 1) * MILLI, MEMORY: memory - RESERVED_MIB * _MIB}
        costs = shared(tuple((ZoneId(to), self._cost(at, to)) for to in range(self.zones)))
        # As whoever reads topologies does it.
        capacity, allocatable = shared(full), shared(Resources({**full, **reserved}))
        return Zone(ZoneId(at), intern(f"node-{at}"), capacity, allocatable, allocatable, costs)

    def _cost(self, here: int, there: int) -> int:
        if here == there:
            return HERE
        alike = here * 2 // self.zones == there * 2 // self.zones
        return self.hardware.near if alike else self.hardware.far


def makes(count: int) -> tuple[Make, ...]:
    """So many makes, `MOST_MAKES` at most: every policy and scope, then more zones, then more models.

    1 is single-numa-node on two zones, 6 are all that nodes of two zones can be set up as, 24 all of one
    model, 36 those and half of another, 216 all.
    """
    every = product(MODELS, ZONES, Scope, ALIGNING)
    return tuple(Make(zones, policy, scope, model) for model, zones, scope, policy in islice(every, count))


@dataclass(frozen=True, slots=True)
class Case:
    """So many nodes, their makes in turn, and a pod that takes `needed` zones of a node and asks a policy.

    With `known` of level machine, cores, the CPUs that are free and the places of devices are known.
    """

    nodes: int
    makes: tuple[Make, ...]
    asks: Policy
    needed: int = 1
    known: Known = Known.CONFIGURED

    @classmethod
    def alike(cls, nodes: int, zones: int, policy: Policy, needed: int = 1) -> "Case":
        """Nodes of one make, and a pod that asks what they do anyway."""
        return cls(nodes, (Make(zones, policy),), policy, needed)

    @classmethod
    def mixed(cls, nodes: int, count: int, asks: Policy) -> "Case":
        """Nodes of so many makes."""
        return cls(nodes, makes(count), asks)

    def __str__(self) -> str:
        """As a table has it."""
        make = self.makes[0]
        of_what = f"{make.zones} zones, {make.policy}" if len(self.makes) == 1 else f"{len(self.makes)} makes"
        takes = "" if self.needed == 1 else f", {self.needed} needed"
        return f"{self.nodes:,} nodes, {of_what}, asked for {self.asks}{takes}"

    def members(self) -> list[Node]:
        """The nodes; the same for the same case, and with the same zones for every policy."""
        dice = self._dice()
        return [self._node(number, dice) for number in range(self.nodes)]

    def changed(self, nodes: Sequence[Node], share: float, turn: int) -> list[Node]:
        """Some of these nodes with other free amounts; others at every turn."""
        dice = self._dice(turn)
        chosen = dice.sample(range(len(nodes)), max(1, round(share * len(nodes))))
        return [
            self._told(replace(nodes[at], zones=tuple(self._used(nodes[at].zones, dice))), dice)
            for at in chosen
        ]

    def question(self, number: int) -> Question:
        """A pod of one container; each number asks for a byte more, so that its answer is not remembered."""
        amounts = Resources(dict(zip(NAMES, self.asked(number), strict=True)))
        container = Container("c", requests=amounts, limits=amounts)
        return Question(demand.of(Pod("pod", containers=(container,))), Intent(self.asks))

    def asked(self, number: int) -> tuple[int, int, int]:
        """What it asks for, in the order of `NAMES`: more than fewer zones have, and less than as many."""
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
        """The node as it is known."""
        return described(node, dice) if self.known is Known.MACHINE else node

    def _used(self, machine: Sequence[Zone], dice: random.Random) -> Iterator[Zone]:
        """The zones with pods on them."""
        enough = dice.random() < 0.5  # noqa: PLR2004 - a half
        least, most = (self.needed, len(machine)) if enough else (0, self.needed - 1)
        opened = set(dice.sample(range(len(machine)), dice.randint(least, most)))
        for at, zone in enumerate(machine):
            yield replace(zone, free=self._free(zone.allocatable, dice, short=at not in opened))

    def _free(self, full: Resources, dice: random.Random, *, short: bool) -> Resources:
        """At least an even share of what is asked; where `short`, of one resource less than that."""
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
    """The node with the machine that it has: two sockets, cores of two threads, devices each on one zone.

    Linux counts the first threads of all cores before the second ones. Which CPUs are free is drawn.
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
