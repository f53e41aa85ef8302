"""
How often numalign says what the kubelet did, counted over recordings of the kubelet's own managers.

`agreement_page` makes a page of it. Each decision is predicted at every level of knowledge, from
what really happened before it; and once more with the machine known and nothing told of what happened, so
that a mistake would carry on. The baseline is what a filter says that looks for one zone with enough of
everything.
"""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from kubectl_numa import events
from kubectl_numa.events import Created, Deleted, NodeEvent, Observed
from kubectl_numa.replaying import PredictedAdmission, follow
from numalign.decision.doubts import SENTENCES, doubts
from numalign.model import demand as demands
from numalign.model.demand import Demand
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node

Json = dict[str, Any]

DATA = Path(__file__).parents[2] / "tests" / "kubelet" / "data"


class Level(StrEnum):
    """What is told of a node: the levels of knowledge, and the machine without what happened on it."""

    MACHINE = "machine"
    UNOBSERVED = "machine, unobserved"
    CONFIGURED = "configured"
    COUNTS = "counts"


TOLD: Mapping[Level, tuple[str, ...]] = {
    Level.MACHINE: ("machine", "kubeletConfig", "kubeletVersion"),
    Level.UNOBSERVED: ("machine", "kubeletConfig", "kubeletVersion"),
    Level.CONFIGURED: ("kubeletConfig", "kubeletVersion", "labels"),
    Level.COUNTS: (),
}
"""The fields of a recorded node that are passed on, besides its name and its topology."""

COLUMNS = ADMITTED, REASON, AFFINITY, CPUS, AMOUNTS = "admitted", "reason", "affinity", "CPU ids", "amounts"
CHANCE, NAIVE = "by chance", "one zone has all"


@dataclass
class Tally:
    """Of each thing that a decision says: how often it was compared, and how often it agreed.

    `by chance` counts decisions whose amounts differ where the kubelet picks at random between equal devices.
    """

    asked: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)

    def count(self, found: Mapping[str, bool]) -> None:
        self.asked.update(found.keys())
        self.agreed.update(what for what, agreed in found.items() if agreed)

    def missed(self, what: str) -> int:
        """In how many comparisons it did not agree."""
        return self.asked[what] - self.agreed[what]

    def cell(self, what: str) -> str:
        asked, agreed = self.asked[what], self.agreed[what]
        return f"{agreed}/{asked} {share(agreed, asked)}" if asked else "-"


def share(agreed: int, asked: int) -> str:
    """A percentage that says 100 only of all."""
    return "100%" if agreed == asked else f"{min(100 * agreed / asked, 99.99):.2f}%"


@dataclass(frozen=True, slots=True)
class Asked:
    """One pod, and what the kubelet did with it: as recorded, and as a session is told of it."""

    created: Created
    demand: Demand
    expected: Json
    observed: Observed


@dataclass(frozen=True, slots=True)
class Recorded:
    """One scenario: the node as recorded; pods with what the kubelet did, and names of those that left."""

    node: Json
    steps: tuple[Asked | str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of one scenario at one level, and what was found by comparing it."""

    recorded: Json
    level: Level
    pod: str
    found: Mapping[str, bool]
    causes: tuple[str, ...]


def recordings(*names: str, every: int = 1) -> Iterator[Recorded]:
    """The scenarios in these files of the data folder, or one in so many of each file."""
    for name in names:
        for line in gzip.decompress((DATA / name).read_bytes()).splitlines()[::every]:
            scenario = json.loads(line)
            minor = int(scenario["kubeletVersion"].split(".")[1])
            yield Recorded(scenario, tuple(_step(step, minor) for step in scenario.pop("steps")))


def answers(recorded: Recorded, level: Level) -> Iterator[tuple[Asked, PredictedAdmission]]:
    """Every pod of a scenario with what is said of it at one level, on the node as it was before the pod."""
    fields = ("name", "nrt", *TOLD[level])
    session, _ = follow(
        None, _read({"node": {key: recorded.node[key] for key in fields if key in recorded.node}})
    )
    for step in recorded.steps:
        if isinstance(step, str):
            session, _ = follow(session, Deleted(step))
            continue
        session, answer = follow(session, step.created)
        assert answer
        yield step, answer
        if level is not Level.UNOBSERVED:
            session, _ = follow(session, step.observed)


def decisions(recorded: Recorded, level: Level) -> Iterator[Decision]:
    node = recorded.node
    for asked, answer in answers(recorded, level):
        found = _compared(answer, asked.expected, ids="machine" in TOLD[level])
        found[NAIVE] = naive(answer.node, asked.demand) == asked.expected["admitted"]
        wrong = () if found[ADMITTED] else doubts(answer.node, asked.demand)
        causes = tuple(SENTENCES[one] for one in wrong)
        yield Decision(node, level, asked.created.pod.name, found, causes)


def _step(step: Json, minor: int) -> Asked | str:
    if "delete" in step:
        return str(step["delete"])
    created, expected = _read({"create": step["create"]}), step["expect"]
    assert isinstance(created, Created)
    told = {key: value for key, value in expected.items() if value is not None}
    observed = _read({"observed": {"pod": created.pod.name, **told}})
    assert isinstance(observed, Observed)
    return Asked(created, demands.of(created.pod.stored(minor)), expected, observed)


def _read(line: Json) -> NodeEvent:
    return events.read(orjson.dumps(line))


def _compared(answer: PredictedAdmission, expected: Json, *, ids: bool) -> dict[str, bool]:
    """What agrees; reasons are compared where both refuse, and the rest where both admit."""
    said = answer.to_json()
    found = {ADMITTED: said["admitted"] == expected["admitted"]}
    if not said["admitted"] and not expected["admitted"]:
        return {**found, REASON: said["reason"] == expected["reason"]}
    if not said["admitted"] or not expected["admitted"]:
        return found
    found[AFFINITY] = _each(
        said, expected, lambda one: (one["affinity"] and [*one["affinity"]], one["preferred"])
    )
    if ids:
        found[CPUS] = _each(said, expected, lambda one: one.get("cpus"))
    same = _each(said, expected, lambda one: one.get("amounts") or {})
    # The kubelet took other devices than we said, and we had said that any would do.
    by_chance = not same and any(grant.chosen for grant in answer.grants)
    found[AMOUNTS] = same or by_chance
    return {**found, CHANCE: True} if by_chance else found


def _each(said: Json, expected: Json, of: Callable[[Json], object]) -> bool:
    ours, theirs = said["containers"], expected["containers"]
    return {name: of(one) for name, one in ours.items()} == {name: of(one) for name, one in theirs.items()}


def _affinity(one: Json) -> object:
    zones = one["affinity"]
    return (None if zones is None else list(zones)), one["preferred"]


def naive(node: Node, demand: Demand) -> bool:
    """What a filter says that knows the policy, and looks for one zone with enough of everything."""
    if node.policy in (Policy.NONE, Policy.BEST_EFFORT):
        return True
    steps = (demand.whole,) if node.scope is Scope.POD else demand.steps
    wanted = [step.requests.items() for step in steps]
    return all(
        any(all(zone.free.get(name, 0) >= amount for name, amount in each) for zone in node.zones)
        for each in wanted
    )


Key = Callable[[Json], Iterable[str]]
"""What a decision about a node counts for."""


def tallied(found: Iterable[Decision], key: Key) -> Mapping[str, Mapping[Level, Tally]]:
    tallies: dict[str, dict[Level, Tally]] = defaultdict(lambda: defaultdict(Tally))
    for decision in found:
        for name in key(decision.recorded):
            tallies[name][decision.level].count(decision.found)
    return tallies


def kind(node: Json) -> Iterable[str]:
    return [str(node["kind"])]


def policy(node: Json) -> Iterable[str]:
    told = node["kubeletConfig"]
    return [f"{told['topologyManagerPolicy']}, {told['topologyManagerScope']}"]


def options(node: Json) -> Iterable[str]:
    fields = ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "featureGates")
    return [name for field in fields for name in node["kubeletConfig"].get(field) or {}] or ["none"]


def version(node: Json) -> Iterable[str]:
    return [str(node["kubeletVersion"])]


def everything(_node: Json) -> Iterable[str]:
    """All decisions alike."""
    return ["all"]
