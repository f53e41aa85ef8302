"""
The rules against the kubelet itself: two recordings of its own managers, one decision after another.

The rules are told what a NodeResourceTopology and the kubelet's configuration tell, and after every decision
what really happened. They know amounts per zone and no more, so some kinds are short of 100%:

* `options`, `dist4`, `dist8`, `distfull` and `socketdist` turn on the CPU manager's options and on cores;
* `socket` and `closest` turn on sockets and distances;
* `multidev` has devices of several zones, or of none, which no topology shows;
* everywhere, hyperthreads make the CPUs of a zone unequal, and which of equal devices is taken is chance.

Beside it, as a baseline, stands what a filter says that looks for one zone with enough of everything.
"""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from numalign.rules import demand as demands
from numalign.rules.demand import Demand, Step
from numalign.rules.intent import Policy, Scope
from numalign.rules.kubelet.admit import Admission, admit, charge
from numalign.rules.pod import Pod, Role
from numalign.rules.resources import Kind, Resources, ZoneId, kind
from numalign.rules.topology import CpuManager, Known, MemoryManager, Node, Zone

Json = dict[str, Any]
PodOf = Callable[[Json], Pod]
ZonesOf = Callable[[Json], tuple[Zone, ...]]

RECORDINGS = ("kubelet-synthetic.jsonl.gz", "kubelet-trace.jsonl.gz")


class Agreed(NamedTuple):
    """In how many decisions of a kind the rules agree with the kubelet, in each thing that a decision says.

    `reason` counts where both refuse. The others count where both admit: the zones stored for each container,
    what each container gets of which zones, and what is left in every zone.
    """

    admitted: int
    reason: int
    affinity: int
    amounts: int
    free: int


# Raise these as the rules learn more; never lower them. `plain` misses one, on a node with a zone whose CPUs
# are all reserved: its topology lists none for it, and the kubelet still counts them when it makes hints.
AT_LEAST: Mapping[str, Agreed] = {
    "asym": Agreed(admitted=140, reason=21, affinity=119, amounts=116, free=118),
    "closest": Agreed(admitted=158, reason=15, affinity=125, amounts=123, free=123),
    "dist4": Agreed(admitted=127, reason=27, affinity=100, amounts=76, free=76),
    "dist8": Agreed(admitted=223, reason=11, affinity=211, amounts=145, free=148),
    "distfull": Agreed(admitted=128, reason=10, affinity=117, amounts=100, free=100),
    "groups": Agreed(admitted=181, reason=31, affinity=150, amounts=139, free=147),
    "inits": Agreed(admitted=170, reason=64, affinity=106, amounts=34, free=93),
    "multidev": Agreed(admitted=94, reason=26, affinity=67, amounts=53, free=36),
    "odd": Agreed(admitted=185, reason=52, affinity=131, amounts=129, free=131),
    "options": Agreed(admitted=554, reason=135, affinity=415, amounts=403, free=412),
    "plain": Agreed(admitted=1503, reason=382, affinity=1118, amounts=1071, free=1099),
    "socket": Agreed(admitted=165, reason=43, affinity=119, amounts=105, free=106),
    "socketdist": Agreed(admitted=150, reason=26, affinity=124, amounts=82, free=83),
    "trace": Agreed(admitted=1590, reason=286, affinity=1304, amounts=1304, free=1304),
}


@dataclass
class Tally:
    """What was compared and what agreed, of one kind; `naive` is the baseline's `admitted`."""

    asked: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)

    def count(self, what: str, *, agreed: bool) -> None:
        """One more comparison of this kind."""
        self.asked[what] += 1
        self.agreed[what] += agreed

    def total(self) -> Agreed:
        """How many comparisons agreed."""
        return Agreed(*(self.agreed[what] for what in Agreed._fields))

    def line(self, title: str) -> str:
        """The tally as a line of the table."""
        cells = (self._cell(what) for what in (*Agreed._fields, "naive"))
        return f"{title:<12}{self.asked['admitted']:>6}" + "".join(f"{cell:>18}" for cell in cells)

    def _cell(self, what: str) -> str:
        asked, agreed = self.asked[what], self.agreed[what]
        return f"{agreed}/{asked} {agreed / asked:7.2%}" if asked else "-"


class Block(NamedTuple):
    """Bytes of one resource that a container holds from a set of zones."""

    zones: tuple[ZoneId, ...]
    resource: str
    size: int


class Given(NamedTuple):
    """What a running pod holds: CPUs and devices by zone, and its blocks of memory."""

    amounts: Mapping[ZoneId, Mapping[str, int]]
    blocks: tuple[Block, ...]


@pytest.fixture(scope="session")
def tallies(pod_of: PodOf, zones_of: ZonesOf, tables: list[str]) -> Mapping[str, Tally]:
    """All decisions of both recordings, by kind."""
    found: dict[str, Tally] = defaultdict(Tally)
    for scenario in _scenarios():
        for node, demand, expected in _decisions(scenario, pod_of, zones_of):
            _compare(found[scenario["kind"]], node, demand, expected)
    tables.append(_HEAD)
    tables.extend(found[kind].line(kind) for kind in sorted(found))
    tables.append(_all(found.values()).line("all"))
    return found


@pytest.mark.parametrize("kind", sorted(AT_LEAST))
def test_the_rules_agree_with_the_kubelet_as_often_as_they_ever_did(
    kind: str, tallies: Mapping[str, Tally]
) -> None:
    total = tallies[kind].total()
    assert all(now >= before for now, before in zip(total, AT_LEAST[kind], strict=True)), total


def test_every_recorded_kind_has_a_floor(tallies: Mapping[str, Tally]) -> None:
    assert tallies.keys() == AT_LEAST.keys()


def test_no_decision_is_left_out(tallies: Mapping[str, Tally]) -> None:
    assert sum(tally.asked["admitted"] for tally in tallies.values()) == 5431


@pytest.mark.parametrize("kind", sorted(AT_LEAST))
def test_the_rules_are_right_more_often_than_one_zone_with_enough_of_everything(
    kind: str, tallies: Mapping[str, Tally]
) -> None:
    assert tallies[kind].agreed["admitted"] >= tallies[kind].agreed["naive"]


_HEAD = f"{'kubelet':<12}{'asked':>6}" + "".join(
    f"{what:>18}" for what in (*Agreed._fields, "one zone has all")
)


def _all(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.asked.update(tally.asked)
        total.agreed.update(tally.agreed)
    return total


def _scenarios() -> Iterator[Json]:
    for name in RECORDINGS:
        packed = (Path(__file__).parent / "data" / name).read_bytes()
        yield from map(json.loads, gzip.decompress(packed).splitlines())


def _decisions(scenario: Json, pod_of: PodOf, zones_of: ZonesOf) -> Iterator[tuple[Node, Demand, Json]]:
    """What the kubelet was asked, on which node, and what it said.

    Like the kubelet's managers, a deleted pod gives back what it held when the next one is admitted.
    """
    node, running, leaving = _node(scenario, zones_of), dict[str, Given](), list[str]()
    for step in scenario["steps"]:
        if "delete" in step:
            leaving.append(step["delete"])
            continue
        for name in leaving:
            node = _returned(node, running.pop(name)) if name in running else node
        leaving = []
        pod, expected = step["create"], step["expect"]
        asked = pod_of(pod["spec"])
        yield node, demands.of(asked), expected
        if expected["admitted"]:
            node, running[pod["metadata"]["name"]] = _charged(node, asked, expected)


def _node(scenario: Json, zones_of: ZonesOf) -> Node:
    told = scenario["kubeletConfig"]
    return Node(
        scenario["name"],
        zones_of(scenario["nrt"]),
        policy=Policy(told["topologyManagerPolicy"]),
        scope=Scope(told["topologyManagerScope"]),
        cpu_manager=CpuManager(told["cpuManagerPolicy"]),
        memory_manager=MemoryManager(told["memoryManagerPolicy"]),
        known=Known.CONFIGURED,
    )


def _compare(tally: Tally, node: Node, demand: Demand, expected: Json) -> None:
    answer = admit(node, demand)
    admitted = answer.refusal is None
    tally.count("admitted", agreed=admitted == expected["admitted"])
    tally.count("naive", agreed=_one_zone_has_all(node, demand) == expected["admitted"])
    if answer.refusal and not expected["admitted"]:
        tally.count("reason", agreed=answer.refusal.reason == expected["reason"])
    if admitted and expected["admitted"]:
        seen = expected["containers"]
        tally.count("affinity", agreed=_affinities(answer) == {name: seen[name]["affinity"] for name in seen})
        tally.count("amounts", agreed=_amounts(answer) == {name: _visible(seen[name]) for name in seen})
        tally.count("free", agreed=_free(charge(node, answer)) == _left(node, expected))


def _affinities(answer: Admission) -> Json:
    grants = answer.placement.grants
    return {grant.container: grant.affinity and list(grant.affinity) for grant in grants}


def _visible(seen: Json) -> Json:
    """What a container got, without devices of no zone: no topology names them."""
    return {zones: amounts for zones, amounts in seen.get("amounts", {}).items() if zones}


def _free(node: Node) -> Mapping[ZoneId, Resources]:
    return {zone.id: zone.free for zone in node.zones}


def _left(node: Node, expected: Json) -> Mapping[ZoneId, Resources]:
    """What every zone really has left, of the resources that its topology lists."""
    return {
        zone.id: Resources(
            {**zone.free, **{n: a for n, a in expected["free"][str(zone.id)].items() if n in zone.free}}
        )
        for zone in node.zones
    }


def _amounts(answer: Admission) -> Json:
    return {
        grant.container: {
            ",".join(map(str, zones)): dict(amounts) for zones, amounts in grant.amounts.items()
        }
        for grant in answer.placement.grants
    }


def _one_zone_has_all(node: Node, demand: Demand) -> bool:
    """What a filter says that knows the policy, and looks for one zone with enough of everything."""
    if node.policy in (Policy.NONE, Policy.BEST_EFFORT):
        return True
    steps = (demand.whole,) if node.scope is Scope.POD else demand.steps
    return all(any(_has(zone, step) for zone in node.zones) for step in steps)


def _has(zone: Zone, step: Step) -> bool:
    return all(zone.free.get(name, 0) >= asked for name, asked in step.asks.items())


def _charged(node: Node, pod: Pod, expected: Json) -> tuple[Node, Given]:
    """The node as the kubelet really left it, and what the pod holds of it."""
    blocks, left = tuple(_blocks(pod, expected)), _left(node, expected)
    cells = {zone: block.zones for block in blocks for zone in block.zones}
    zones = tuple(
        replace(
            zone,
            free=left[zone.id],
            assignments=zone.assignments + sum(zone.id in block.zones for block in blocks),
            cells=frozenset(cells.get(zone.id, zone.cells)),
        )
        for zone in node.zones
    )
    return replace(node, zones=zones), Given(
        {zone.id: _taken(zone, left[zone.id]) for zone in node.zones}, blocks
    )


def _taken(zone: Zone, left: Resources) -> Mapping[str, int]:
    return {name: amount - left[name] for name, amount in zone.free.items() if kind(name) is not Kind.MEMORY}


def _blocks(pod: Pod, expected: Json) -> Iterator[Block]:
    """The memory blocks that outlive the pod's init containers."""
    staying = {container.name for container in pod.containers if container.role is not Role.INIT}
    for name in staying & expected["containers"].keys():
        for zones, amounts in _visible(expected["containers"][name]).items():
            ids = tuple(ZoneId(int(zone)) for zone in zones.split(","))
            sizes = ((resource, size) for resource, size in amounts.items() if kind(resource) is Kind.MEMORY)
            yield from (Block(ids, resource, size) for resource, size in sizes)


def _returned(node: Node, given: Given) -> Node:
    """The node after a pod has left: a block fills its zones up in turn, wherever it came from."""
    zones = {zone.id: replace(zone, free=zone.free.plus(given.amounts[zone.id])) for zone in node.zones}
    for block in given.blocks:
        rest = block.size
        for one in block.zones:
            zone, name = zones[one], block.resource
            back = min(zone.allocatable.get(name, 0) - zone.free.get(name, 0), rest)
            zones[one], rest = _freed(zone, {name: back}), rest - back
    return replace(node, zones=tuple(zones.values()))


def _freed(zone: Zone, back: Mapping[str, int]) -> Zone:
    left = zone.assignments - 1
    return replace(
        zone, free=zone.free.plus(back), assignments=left, cells=zone.cells if left else frozenset()
    )
