"""
Measure how long one verdict by the rules takes, by policy and by number of zones.

The pod has one container, so each figure is the cost of a container. `ordinary` is the usual case of each
policy: an empty node takes the pod. The other two are the worst cases: every zone has different amounts of
everything, and each resource needs a different number of zones. `unlike` is such a node while it is empty, as
at admission. `in_use` is the same node in use. It rejects the pod, so it is evaluated twice, in use and
empty. Ratios are to two zones in the same row.
"""

import sys
import time
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from numalign.decision.evaluate import evaluate
from numalign.model import demand
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node, Zone
from numalign.model.pod import Container, Pod
from numalign.model.resources import Resources, ZoneId, parse
from tools.bench import command_line
from tools.bench.figures import MILLI, ms, quantile, table

ZONES = (1, 2, 4, 8)
BASE = 2
MERGE = 0.005
"""Target for the longest judgement, in seconds. The kubelet's own merge of as many lists never meets it."""

AIMS = {2: 0.0001, 8: 0.0006}
"""Targets for one container in the ordinary case, in seconds, by number of zones."""

YARDSTICK = "sum(range(100))"

NAMES = ("cpu", "memory", "nvidia.com/gpu", "example.com/nic")
_GIB = 2**30
_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Case:
    """A node, and the demand and intent to evaluate on it."""

    node: Node
    demand: Demand
    intent: Intent

    def seconds(self, *, repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
        """Return the median over several rounds of the mean duration of a verdict."""
        return quantile([self._round(repeats, clock) for _ in range(_ROUNDS)], 0.5)

    def _round(self, repeats: int, clock: Callable[[], float]) -> float:
        began = clock()
        for _ in range(repeats):
            evaluate(self.node, self.demand, self.intent)
        return (clock() - began) / repeats


def ordinary(policy: Policy, zones: int, resources: int) -> Case:
    """Return an empty node of which every zone could take the pod alone."""
    full = _amounts([16, 64 * _GIB, 4, 2], resources)
    members = [_zone(at, full, full) for at in range(zones)]
    return Case(_node(policy, members), _ask([4, 8 * _GIB, 1, 1], resources), Intent(policy))


def unlike(policy: Policy, zones: int, resources: int) -> Case:
    """Return an empty node that could never take the pod, and whose zones are all different."""
    busy = in_use(policy, zones, resources)
    return replace(busy, node=busy.node.emptied())


def in_use(policy: Policy, zones: int, resources: int) -> Case:
    """Return the same node in use; it is judged once more, as an empty one."""
    members = [
        _zone(at, _amounts([16 + at, (64 + at) * _GIB, 4 + at, 2 + at], resources), _left(at, resources))
        for at in range(zones)
    ]
    # A quarter of the CPUs, half of the memory, nearly all GPUs: each takes a different number of zones.
    asked = [4 * zones, 40 * zones * _GIB, 5 * zones, zones]
    return Case(_node(policy, members), _ask(asked, resources), Intent(policy))


JUDGEMENTS = {ordinary: 1, unlike: 1, in_use: 2}
"""The most judgements of a verdict, by case."""


def _left(at: int, resources: int) -> Resources:
    return _amounts([8 + at, (32 + 3 * at) * _GIB, 1 + at % 3, 1 + at % 2], resources)


def _amounts(units: Sequence[int], resources: int) -> Resources:
    return parse({name: str(amount) for name, amount in zip(NAMES[:resources], units, strict=False)})


def _zone(at: int, full: Resources, free: Resources) -> Zone:
    return Zone(ZoneId(at), f"node-{at}", full, full, free)


def _node(policy: Policy, zones: Iterable[Zone]) -> Node:
    return Node("node", tuple(zones), policy=policy)


def _ask(units: Sequence[int], resources: int) -> Demand:
    amounts = _amounts(units, resources)
    asked = demand.of(Pod("pod", containers=(Container("c", requests=amounts, limits=amounts),)))
    # Remove the total over all zones: with it, every case would end at once, and that is not measured.
    return replace(asked, total=Resources())


class Measured(NamedTuple):
    """The table, the longest judgement in it, and the slowest ordinary verdict by zones, in seconds."""

    shown: str
    longest: float
    ordinary: Mapping[int, float]


def measure(*, resources: int, repeats: int) -> Measured:
    """Measure every policy, case and number of zones."""
    others = [zones for zones in ZONES if zones != BASE]
    head = ["ms", "case", *(f"{zones} zones" for zones in ZONES), *(f"{zones}:{BASE}" for zones in others)]
    found = {
        (policy, make): [make(policy, zones, resources).seconds(repeats=repeats) for zones in ZONES]
        for policy in Policy
        for make in JUDGEMENTS
    }
    longest = max(each / JUDGEMENTS[make] for (_, make), times in found.items() for each in times)
    rows = []
    for (policy, make), times in found.items():
        by_zones = dict(zip(ZONES, times, strict=True))
        marked = [f"{ms(each)}{'*' if each / JUDGEMENTS[make] == longest else ' '}" for each in times]
        ratios = [f"{by_zones[zones] / by_zones[BASE]:.1f}" for zones in others]
        rows.append([policy.value, make.__name__, *marked, *ratios])
    plain = [times for (_, make), times in found.items() if make is ordinary]
    slowest = {zones: max(times[at] for times in plain) for at, zones in enumerate(ZONES)}
    return Measured(table(head, rows), longest, slowest)


def document(found: Measured, *, resources: int) -> dict[str, object]:
    """Return the figures for a file, in milliseconds."""
    return {
        "resources": resources,
        "ordinary_ms": {str(zones): took * MILLI for zones, took in found.ordinary.items()},
        "longest_ms": found.longest * MILLI,
        "aims_ms": {str(zones): aim * MILLI for zones, aim in AIMS.items()},
        "longest_aim_ms": MERGE * MILLI,
    }


def yardstick() -> float:
    """Return the seconds of a loop that is the same everywhere: machines differ, even one with the hour."""
    return min(timeit.repeat(YARDSTICK, number=10_000, repeat=5)) / 10_000


def judged(what: str, found: float, aim: float) -> str:
    """Return a line with a target, and whether it was met."""
    return f"target {'met' if found <= aim else 'MISSED'}: {what} in {ms(aim)} ms; it took {ms(found)}"


def main() -> int:
    """Measure as the flags say; return 0 however slow it was."""
    parser = command_line.parser("tools.bench.rules", __doc__)
    parser.add_argument(
        "--resources",
        type=int,
        default=len(NAMES),
        choices=range(1, len(NAMES) + 1),
        help="number of resources (default 4)",
    )
    parser.add_argument("--repeats", type=int, default=40, help="verdicts in each round (default 40)")
    chosen = parser.parse_args()
    if chosen.repeats <= 0:
        parser.error("--repeats must be above zero")
    found = measure(resources=chosen.resources, repeats=chosen.repeats)
    command_line.write(document(found, resources=chosen.resources), chosen.json)
    print(
        f"{chosen.resources} resources: {', '.join(NAMES[: chosen.resources])}\n{found.shown}\n* the longest"
    )
    for zones, aim in AIMS.items():
        print(judged(f"an ordinary verdict on {zones} zones", found.ordinary[zones], aim))
    print(judged(f"the longest judgement on {ZONES[-1]} zones", found.longest, MERGE))
    print(f"for comparison: {YARDSTICK} takes {yardstick() * 1e6:.2f} microseconds here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
