"""
Seeded nodes for benchmarks, and the pods to evaluate on them.

The memory of zones differs by some KiB, as on real machines of one model: no two nodes have the same shape.
On half of the nodes, at least as many zones are open as the pod needs; on the other half, fewer. A zone that
is not open is short of one resource. So about half of the nodes can take the pod, and most others just not.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from sys import intern
from typing import Any

from numalign.cache import Question
from numalign.model import demand
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Known, Node, Zone
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId, render
from numalign.model.sharing import shared

Raw = dict[str, Any]

GPU, HCA = "nvidia.com/gpu", "rdma/hca"
NAMES = (CPU, MEMORY, GPU)

CPUS = 32
"""CPUs of a zone of the first model; one CPU of each zone is reserved."""
MEMORY_MIB = 128 * 1024
"""Memory of such a zone, before the KiB by which it differs from the next."""
RESERVED_MIB = 1024
DEVICES = 1

HERE, NEAR, FAR = 10, 12, 32
"""The costs of a zone from itself, from one in the same socket, and from one in the other socket."""

_SEED = 7
_KIB, _MIB = 2**10, 2**20
_UNLIKE_KIB = 2**20


@dataclass(frozen=True, slots=True)
class Hardware:
    """The resources of a zone of a model; `more` are those in addition to CPUs, memory and GPUs, by name."""

    cpus: int = CPUS
    memory_mib: int = MEMORY_MIB
    gpus: int = DEVICES
    more: tuple[tuple[str, int], ...] = ()


MODELS = Hardware(), Hardware(cpus=48, memory_mib=192 * 1024, gpus=2, more=((HCA, 1),))
"""Any zone of these models, while it is empty, has room for a pod that needs one zone."""

ZONES = (2, 4, 8, 1)
ALIGNING = (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT)


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
        return NEAR if here * 2 // self.zones == there * 2 // self.zones else FAR


def makes(count: int) -> tuple[Make, ...]:
    """Return the first `count` makes; policy and scope vary first, then zones, then models.

    1 is single-numa-node on two zones, 6 are all configurations of nodes with two zones, 24 all makes of one
    model, 36 those and half of another model.
    """
    every = product(MODELS, ZONES, Scope, ALIGNING)
    return tuple(Make(zones, policy, scope, model) for model, zones, scope, policy in islice(every, count))


@dataclass(frozen=True, slots=True)
class Case:
    """Nodes of several makes in turn, and a pod that needs `needed` zones of a node and requests a policy."""

    nodes: int
    makes: tuple[Make, ...]
    asks: Policy
    needed: int = 1

    @classmethod
    def alike(cls, nodes: int, zones: int, policy: Policy, needed: int = 1) -> "Case":
        """Return nodes of one make, and a pod that requests the policy of the nodes."""
        return cls(nodes, (Make(zones, policy),), policy, needed)

    @classmethod
    def mixed(cls, nodes: int, count: int, asks: Policy) -> "Case":
        """Return nodes of `count` makes."""
        return cls(nodes, makes(count), asks)

    def members(self) -> list[Node]:
        """Return the nodes; the same for the same case, and with the same zones for every policy."""
        dice = self._dice()
        return [self._node(number, dice) for number in range(self.nodes)]

    def changed(self, nodes: Sequence[Node], share: float, turn: int) -> list[Node]:
        """Return some of these nodes with other free amounts; a different selection each turn."""
        dice = self._dice(turn)
        chosen = dice.sample(range(len(nodes)), max(1, round(share * len(nodes))))
        return [replace(nodes[at], zones=tuple(self._used(nodes[at].zones, dice))) for at in chosen]

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
        return Node(
            f"node-{number:05}",
            tuple(self._used(machine, dice)),
            policy=make.policy,
            scope=make.scope,
            totals=Resources({**totals, "pods": 110}),
            known=Known.CONFIGURED,
        )

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


def _drawn(dice: random.Random, least: int, most: int, *, short: bool) -> int:
    return dice.randrange(least // 2) if short else dice.randint(least, most)


def objects(nodes: Iterable[Node]) -> Iterator[Raw]:
    """Yield a Node and a NodeResourceTopology for each of these nodes."""
    for node in nodes:
        totals = {name: render(name, amount) for name, amount in (node.totals or {}).items()}
        labels = {"kubernetes.io/hostname": node.name}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name, "labels": labels},
            "status": {"capacity": totals, "allocatable": totals},
        }
        yield topology(node)


def topology(node: Node) -> Raw:
    """Return the topology of a node, as an exporter publishes it."""
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node.name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": node.policy.value},
            {"name": "topologyManagerScope", "value": node.scope.value},
        ],
        "zones": [
            {
                "name": zone.name,
                "type": "Node",
                "costs": [{"name": f"node-{to}", "value": cost} for to, cost in zone.costs],
                "resources": [
                    {
                        "name": name,
                        "capacity": render(name, capacity),
                        "allocatable": render(name, zone.allocatable[name]),
                        "available": render(name, zone.free[name]),
                    }
                    for name, capacity in zone.capacity.items()
                ],
            }
            for zone in node.zones
        ],
    }
