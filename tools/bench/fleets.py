"""
Seeded nodes for benchmarks, and the pods to evaluate on them.

The memory of zones differs by some KiB, as on real machines of one model: no two nodes have the same shape.
On half of the nodes, at least as many zones are open as the pod needs; on the other half, fewer. A zone that
is not open is short of one resource. So about half of the nodes can take the pod, and most others just not.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from tools.clusters import fleets as registered

Raw = dict[str, Any]

GPU, HCA = "nvidia.com/gpu", "rdma/hca"
NAMES = (CPU, MEMORY, GPU)
KIB, MIB, GIB = 2**10, 2**20, 2**30

MODELS: Sequence[Mapping[str, int]] = (
    {CPU: 32 * MILLI, MEMORY: 128 * GIB, GPU: 1},
    {CPU: 48 * MILLI, MEMORY: 192 * GIB, GPU: 2, HCA: 1},
)
"""The resources of a zone; of memory, some KiB more. An empty one has room for a pod that needs one zone."""
RESERVED = {CPU: MILLI, MEMORY: GIB}

HERE, NEAR, FAR = 10, 12, 32
"""The costs of a zone from itself, from one in the same socket, and from one in the other socket."""


@dataclass(frozen=True, slots=True)
class Make:
    """The common properties of nodes that were bought and set up together; `model` is one of `MODELS`."""

    zones: int
    policy: Policy
    scope: Scope = Scope.CONTAINER
    model: int = 0

    def machine(self, dice: random.Random) -> list[Zone]:
        """Return the zones of a machine with two sockets; no two machines are the same."""
        return [self._zone(at, dice) for at in range(self.zones)]

    def _zone(self, at: int, dice: random.Random) -> Zone:
        model = MODELS[self.model]
        full = {**model, MEMORY: model[MEMORY] + dice.randrange(MIB) * KIB}
        near = (ZoneId(to) for to in range(self.zones))
        costs = (
            (to, HERE if to == at else NEAR if to * 2 // self.zones == at * 2 // self.zones else FAR)
            for to in near
        )
        # Share equal values, as the reader of topologies does.
        capacity = shared(Resources(full))
        allocatable = shared(Resources({name: full[name] - RESERVED.get(name, 0) for name in full}))
        return Zone(
            ZoneId(at), intern(f"node-{at}"), capacity, allocatable, allocatable, shared(tuple(costs))
        )


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
        """Return nodes of `count` makes; policy and scope vary first, then zones, then models.

        1 is single-numa-node on two zones, 6 are all configurations of nodes with two zones, 24 all makes of
        one model, 36 those and half of another model.
        """
        aligning = (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT)
        every = product(range(len(MODELS)), (2, 4, 8, 1), Scope, aligning)
        makes = (Make(zones, policy, scope, model) for model, zones, scope, policy in every)
        return cls(nodes, tuple(islice(makes, count)), asks)

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
        requests = self._requests()
        amounts = Resources({**requests, MEMORY: requests[MEMORY] + number})
        container = Container("c", requests=amounts, limits=amounts)
        return Question(demand.of(Pod("pod", containers=(container,))), Intent(self.asks))

    def _requests(self) -> dict[str, int]:
        """Return requests that are too much for fewer zones than `needed`."""
        halves = 2 * self.needed - 1
        return {**{name: MODELS[0][name] * halves // 2 for name in (CPU, MEMORY)}, GPU: self.needed}

    def _dice(self, *turns: int) -> random.Random:
        zones = (make.zones for make in dict.fromkeys(self.makes))
        return random.Random(f"7 {(*zones, self.needed, *turns)}")  # noqa: S311 - it makes input, not secrets

    def _node(self, number: int, dice: random.Random) -> Node:
        make = self.makes[number % len(self.makes)]
        machine = make.machine(dice)
        names = machine[0].allocatable
        totals = Resources(
            {**{name: sum(zone.allocatable[name] for zone in machine) for name in names}, "pods": 110}
        )
        used, name = tuple(self._used(machine, dice)), f"node-{number:05}"
        return Node(name, used, policy=make.policy, scope=make.scope, totals=totals, known=Known.CONFIGURED)

    def _used(self, machine: Sequence[Zone], dice: random.Random) -> Iterator[Zone]:
        """Yield the zones with pods on them."""
        enough = dice.random() < 0.5
        least, most = (self.needed, len(machine)) if enough else (0, self.needed - 1)
        opened = set(dice.sample(range(len(machine)), dice.randint(least, most)))
        for at, zone in enumerate(machine):
            yield replace(zone, free=self._free(zone.allocatable, dice, short=at not in opened))

    def _free(self, full: Resources, dice: random.Random, *, short: bool) -> Resources:
        """Return at least an even share of the requests; if `short`, less than that of one resource."""
        lacking, requests, free = dice.choice(NAMES) if short else None, self._requests(), dict(full)
        for name, unit, more in ((CPU, MILLI, 0), (MEMORY, MIB, 1)):
            least = -(-requests[name] // unit // self.needed) + more
            drawn = dice.randrange(least // 2) if lacking == name else dice.randint(least, full[name] // unit)
            free[name] = drawn * unit
        if lacking == GPU:
            free[GPU] = 0
        return shared(Resources(free))


def objects(nodes: Iterable[Node]) -> Iterator[Raw]:
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
    attributes = {"topologyManagerPolicy": node.policy.value, "topologyManagerScope": node.scope.value}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node.name},
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
        "zones": [_zone(zone, len(node.zones)) for zone in node.zones],
    }


def _zone(zone: Zone, zones: int) -> Raw:
    capacity, allocatable, free = (
        {name: render(name, amount) for name, amount in amounts.items()}
        for amounts in (zone.capacity, zone.allocatable, zone.free)
    )
    amounts = {name: (capacity[name], allocatable[name], free[name]) for name in capacity}
    costs = [{"name": f"node-{to}", "value": cost} for to, cost in zone.costs]
    return {**registered.zone(zone.id, zones, amounts), "costs": costs}
