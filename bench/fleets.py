"""
Seeded nodes for the fleet in columns, and the pods that they are asked about.

Each zone has CPUs, memory and one device. Machines of one model never report the same bytes, so the memory of
each zone varies by some MiB and no two nodes are the same shape. On one half of the nodes as many zones are
open as the pod needs, or more; on the other half fewer. A zone that is not open is short of one resource. So
about half of the nodes can take the pod, and most of the others only just cannot.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

from numalign.cache import Question
from numalign.model import demand
from numalign.model.intent import Intent, Policy
from numalign.model.node import Known, Node, Zone
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from numalign.model.sharing import shared

Raw = dict[str, Any]

GPU = "nvidia.com/gpu"
NAMES = (CPU, MEMORY, GPU)

CPUS = 32
"""Of a zone; the last one of each is reserved."""
MEMORY_MIB = 128 * 1024
"""Of a zone, before the MiB by which it differs from the next."""
RESERVED_MIB = 1024
DEVICES = 1

HERE, NEAR, FAR = 10, 12, 32
"""What a zone costs from itself, from its socket, and from the other one."""

_SEED = 7
_MIB = 2**20
_UNLIKE_MIB = 64


@dataclass(frozen=True, slots=True)
class Case:
    """So many nodes with so many zones under one policy, and a pod that takes `needed` zones of a node."""

    nodes: int
    zones: int
    policy: Policy
    needed: int = 1

    def __str__(self) -> str:
        """As a table has it."""
        takes = "" if self.needed == 1 else f", {self.needed} needed"
        return f"{self.nodes:,} nodes, {self.zones} zones, {self.policy}{takes}"

    def members(self) -> list[Node]:
        """The nodes; the same for the same case, and with the same zones for every policy."""
        dice = _dice(self.zones, self.needed)
        return [self._node(number, dice) for number in range(self.nodes)]

    def changed(self, nodes: Sequence[Node], share: float, turn: int) -> list[Node]:
        """Some of these nodes with other free amounts; others at every turn."""
        dice = _dice(self.zones, self.needed, turn)
        chosen = dice.sample(range(len(nodes)), max(1, round(share * len(nodes))))
        return [replace(nodes[at], zones=tuple(self._used(nodes[at].zones, dice))) for at in chosen]

    def question(self, number: int) -> Question:
        """A pod of one container; each number asks for a byte more, so that its answer is not remembered."""
        amounts = Resources(dict(zip(NAMES, self.asked(number), strict=True)))
        container = Container("c", requests=amounts, limits=amounts)
        return Question(demand.of(Pod("pod", containers=(container,))), Intent(self.policy))

    def asked(self, number: int) -> tuple[int, int, int]:
        """What it asks for, in the order of `NAMES`: more than fewer zones have, and less than as many."""
        full = self.needed - 1
        cpus, memory = full * CPUS + CPUS // 2, full * MEMORY_MIB + MEMORY_MIB // 2
        return cpus * MILLI, memory * _MIB + number, self.needed * DEVICES

    def _node(self, number: int, dice: random.Random) -> Node:
        hardware = [_zone(at, self.zones, dice) for at in range(self.zones)]
        totals = {name: sum(zone.allocatable[name] for zone in hardware) for name in NAMES}
        return Node(
            f"node-{number:05}",
            tuple(self._used(hardware, dice)),
            policy=self.policy,
            totals=Resources({**totals, "pods": 110}),
            known=Known.CONFIGURED,
        )

    def _used(self, hardware: Sequence[Zone], dice: random.Random) -> Iterator[Zone]:
        """The zones with pods on them."""
        enough = dice.random() < 0.5  # noqa: PLR2004 - a half
        least, most = (self.needed, self.zones) if enough else (0, self.needed - 1)
        opened = set(dice.sample(range(self.zones), dice.randint(least, most)))
        for at, zone in enumerate(hardware):
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
                    CPU: MILLI * _drawn(dice, least_cpus, most_cpus, short=lacking == CPU),
                    MEMORY: _MIB * _drawn(dice, least_mib + 1, most_mib, short=lacking == MEMORY),
                    GPU: 0 if lacking == GPU else full[GPU],
                }
            )
        )


def _drawn(dice: random.Random, least: int, most: int, *, short: bool) -> int:
    return dice.randrange(least // 2) if short else dice.randint(least, most)


def _dice(*seeds: int) -> random.Random:
    return random.Random(f"{_SEED} {seeds}")  # noqa: S311 - it makes input, not secrets


def _zone(at: int, count: int, dice: random.Random) -> Zone:
    """The hardware of a zone on a machine of two sockets."""
    memory = MEMORY_MIB + dice.randrange(_UNLIKE_MIB)
    full = Resources({CPU: CPUS * MILLI, MEMORY: memory * _MIB, GPU: DEVICES})
    left = {CPU: (CPUS - 1) * MILLI, MEMORY: (memory - RESERVED_MIB) * _MIB, GPU: DEVICES}
    costs = shared(tuple((ZoneId(to), _cost(at, to, count)) for to in range(count)))
    # As whoever reads topologies does it.
    capacity, allocatable = shared(full), shared(Resources(left))
    return Zone(ZoneId(at), intern(f"node-{at}"), capacity, allocatable, allocatable, costs)


def _cost(here: int, there: int, count: int) -> int:
    if here == there:
        return HERE
    return NEAR if here * 2 // count == there * 2 // count else FAR
