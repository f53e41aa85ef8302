"""
Measure how long one verdict by the rules takes, by policy and by number of zones.

The pod has one container, so each figure is the cost of a container. `ordinary` is the usual case of each
policy: an empty node takes the pod. `in use` is the worst case: every zone has different amounts of
everything, and each resource needs a different number of zones. The node rejects the pod, so it is evaluated
twice, in use and empty.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from numalign.decision.evaluate import evaluate
from numalign.model import demand
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node, Zone
from numalign.model.pod import Container, Pod
from numalign.model.resources import Resources, ZoneId, parse
from tools.bench.spreads import MILLI, quantile
from tools.bench.tables import Measurement, program, row

ZONES = (1, 2, 4, 8)
LONGEST_MS = 5.0
"""The target for the longest verdict on one node. The kubelet's own merge of as many lists never meets it."""
ORDINARY_MS = {2: 0.1, 8: 0.6}
"""Targets in the ordinary case, by number of zones."""

NAMES = ("cpu", "memory", "nvidia.com/gpu", "example.com/nic")
_GIB = 2**30
_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Case:
    """A node, and the demand and intent to evaluate on it."""

    node: Node
    demand: Demand
    intent: Intent

    def milliseconds(self, repeats: int) -> float:
        """Return the median over several rounds of the mean duration of a verdict."""
        return quantile([self._round(repeats) for _ in range(_ROUNDS)], 0.5) * MILLI

    def _round(self, repeats: int) -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            evaluate(self.node, self.demand, self.intent)
        return (time.perf_counter() - began) / repeats


def ordinary(policy: Policy, zones: int, resources: int) -> Case:
    """Return an empty node of which every zone could take the pod alone."""
    full = _amounts([16, 64 * _GIB, 4, 2], resources)
    members = tuple(_zone(at, full, full) for at in range(zones))
    asked = _ask([4, 8 * _GIB, 1, 1], resources)
    return Case(Node("node", members, policy=policy), asked, Intent(policy))


def in_use(policy: Policy, zones: int, resources: int) -> Case:
    """Return a node in use whose zones are all different; it is judged once more, as an empty one."""
    members = tuple(
        _zone(
            at,
            _amounts([16 + at, (64 + at) * _GIB, 4 + at, 2 + at], resources),
            _amounts([8 + at, (32 + 3 * at) * _GIB, 1 + at % 3, 1 + at % 2], resources),
        )
        for at in range(zones)
    )
    # A quarter of the CPUs, half of the memory, nearly all GPUs: each takes a different number of zones.
    asked = _ask([4 * zones, 40 * zones * _GIB, 5 * zones, zones], resources)
    return Case(Node("node", members, policy=policy), asked, Intent(policy))


CASES: dict[str, tuple[Callable[[Policy, int, int], Case], int]] = {
    "ordinary": (ordinary, 1),
    "in use": (in_use, 2),
}
"""Cases, and how often a node is judged in a verdict."""


def _amounts(units: Sequence[int], resources: int) -> Resources:
    return parse({name: str(amount) for name, amount in zip(NAMES[:resources], units, strict=False)})


def _zone(at: int, full: Resources, free: Resources) -> Zone:
    return Zone(ZoneId(at), f"node-{at}", full, full, free)


def _ask(units: Sequence[int], resources: int) -> Demand:
    amounts = _amounts(units, resources)
    asked = demand.of(Pod("pod", containers=(Container("c", requests=amounts, limits=amounts),)))
    # Remove the total over all zones: with it, every case would end at once, and that is not measured.
    return replace(asked, total=Resources())


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Measure every policy, case and number of zones."""
    found = {
        (name, policy): [
            make(policy, zones, chosen.resources).milliseconds(chosen.repeats) for zones in ZONES
        ]
        for (name, (make, _)), policy in product(CASES.items(), Policy)
    }
    slowest = {at: max(found["ordinary", policy][at] for policy in Policy) for at in range(len(ZONES))}
    longest = max(each / CASES[name][1] for (name, _), times in found.items() for each in times)
    yield Measurement(
        "One verdict by the rules",
        [
            *(
                row(f"an ordinary verdict, {zones} zones", slowest[at], most=ORDINARY_MS.get(zones))
                for at, zones in enumerate(ZONES)
            ),
            row("the longest verdict", longest, most=LONGEST_MS),
        ],
        f"A container that requests {chosen.resources} resources, and one node; the slowest policy counts.",
    )


main = program(
    "rules",
    __doc__,
    measure,
    resources=(len(NAMES), 1, f"number of resources, at most {len(NAMES)}"),
    repeats=(40, 1, "verdicts in each round"),
)

if __name__ == "__main__":
    sys.exit(main(None))
