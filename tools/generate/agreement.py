"""
docs/measurements/agreement.md: how often numalign says what the kubelet did, in recordings of its managers.

Each decision is predicted at every level of knowledge, from what really happened before it; and once more
with the machine known and nothing of what happened, so that a mistake would carry on. The baseline is what a
filter says that looks for one zone with enough of everything.
"""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from tools.generate.recordings.compare import compared
from tools.generate.tables import table

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "kubelet" / "data"
PAGE = ROOT / "docs" / "measurements" / "agreement.md"


class DisagreementError(Exception):
    """Raised if a prediction for a known machine differs from the kubelet."""


class Level(StrEnum):
    """What is known of a node: the levels of knowledge, and the machine without what happened on it."""

    MACHINE = "machine"
    UNOBSERVED = "machine, unobserved"
    CONFIGURED = "configured"
    COUNTS = "counts"


FIELDS: Mapping[Level, tuple[str, ...]] = {
    Level.MACHINE: ("machine", "kubeletConfig", "kubeletVersion"),
    Level.UNOBSERVED: ("machine", "kubeletConfig", "kubeletVersion"),
    Level.CONFIGURED: ("kubeletConfig", "kubeletVersion", "labels"),
    Level.COUNTS: (),
}
"""The fields of a recorded node that are passed on, besides its name and its topology."""

COLUMNS = ADMITTED, REASON, AFFINITY, CPUS, AMOUNTS = "admitted", "reason", "affinity", "CPU ids", "amounts"
CHANCE, NAIVE = "by chance", "one zone has all"

HEAD = """\
# How often predictions agree with the kubelet

Generated and checked by `python -m tools.generate agreement`. The decisions were recorded from the
kubelet's own managers (`tests/kubelet/data/README.md`), of pods that fit the node in total.

| level | what numalign knows of the node |
|---|---|
| machine | cores, sockets, distances, devices, the kubelet's configuration; what earlier pods really got |
| machine, unobserved | the same without what earlier pods got: a wrong prediction would affect later ones |
| configured | amounts as an exporter publishes them, configuration, version, labels; what earlier pods got |
| counts | amounts, policy and scope; what earlier pods got |

*admitted* is compared for every decision, *reason* if both reject the pod, and the rest if both admit it.
If the kubelet picks at random between equal devices of different zones, the prediction says so, and other
amounts count as agreement (*by chance*). *one zone has all* is a filter that knows policy and scope, and
looks for one zone with enough of everything. A decision counts for each option of its kubelet.
"""


@dataclass
class Tally:
    """Of each thing that a decision says: how often it was compared, and how often it agreed.

    `by chance` counts decisions whose amounts differ where the kubelet picks at random between equal devices.
    """

    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)

    def count(self, found: Mapping[str, bool]) -> None:
        self.compared.update(found.keys())
        self.agreed.update(what for what, agreed in found.items() if agreed)

    def missed(self, what: str) -> int:
        """In how many comparisons it did not agree."""
        return self.compared[what] - self.agreed[what]

    def share(self, what: str) -> str:
        """A percentage that says 100 only of all."""
        compared, agreed = self.compared[what], self.agreed[what]
        return "100%" if agreed == compared else f"{min(100 * agreed / compared, 99.99):.2f}%"

    def cell(self, what: str) -> str:
        return f"{self.agreed[what]}/{self.compared[what]} {self.share(what)}" if self.compared[what] else "-"


@dataclass(frozen=True, slots=True)
class Admission:
    """One pod, and what the kubelet did with it: as recorded, and as a session takes it."""

    created: Created
    demand: Demand
    expected: Json
    observed: Observed


@dataclass(frozen=True, slots=True)
class Recorded:
    """One scenario: the node as recorded; pods with what the kubelet did, and names of those that left."""

    node: Json
    steps: tuple[Admission | str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of one scenario at one level, and what was found by comparing it."""

    recorded: Json
    level: Level
    found: Mapping[str, bool]
    causes: tuple[str, ...]


def recordings(*names: str, every: int = 1) -> Iterator[Recorded]:
    """The scenarios in these files of the data folder, or one in so many of each file."""
    for name in names:
        for line in gzip.decompress((DATA / name).read_bytes()).splitlines()[::every]:
            scenario = json.loads(line)
            minor = int(scenario["kubeletVersion"].split(".")[1])
            yield Recorded(scenario, tuple(_step(step, minor) for step in scenario.pop("steps")))


def _step(step: Json, minor: int) -> Admission | str:
    if "delete" in step:
        return str(step["delete"])
    created, expected = _read({"create": step["create"]}), step["expect"]
    assert isinstance(created, Created)
    known = {key: value for key, value in expected.items() if value is not None}
    observed = _read({"observed": {"pod": created.pod.name, **known}})
    assert isinstance(observed, Observed)
    return Admission(created, demands.of(created.pod.stored(minor)), expected, observed)


def _read(line: Json) -> NodeEvent:
    return events.read(orjson.dumps(line))


def answers(recorded: Recorded, level: Level) -> Iterator[tuple[Admission, PredictedAdmission]]:
    """Every pod of a scenario and the answers about it at one level, on the node as it was before it."""
    fields = ("name", "nrt", *FIELDS[level])
    node = {key: recorded.node[key] for key in fields if key in recorded.node}
    session, _ = follow(None, _read({"node": node}))
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
    for step, answer in answers(recorded, level):
        found = _agreed(answer, step.expected, ids="machine" in FIELDS[level])
        found[NAIVE] = naive(answer.node, step.demand) == step.expected["admitted"]
        wrong = () if found[ADMITTED] else doubts(answer.node, step.demand)
        yield Decision(recorded.node, level, found, tuple(SENTENCES[one] for one in wrong))


def _agreed(answer: PredictedAdmission, expected: Json, *, ids: bool) -> dict[str, bool]:
    """What agrees; reasons are compared where both refuse, and what containers have where both admit."""
    nothing: Json = {"shared": {}}
    predicted = orjson.loads(orjson.dumps(answer.to_json()))
    both = compared(predicted | nothing, expected | nothing)
    same = {what: ours == theirs for what, (ours, theirs) in both.items()}
    if "amounts" not in same:
        return {ADMITTED: ADMITTED not in same, **{what: same[what] for what in same if what == REASON}}
    # The kubelet took other devices than we said, and we had said that any would do.
    chance = not same["amounts"] and any(grant.chosen for grant in answer.grants)
    return {
        ADMITTED: True,
        AFFINITY: same["affinity"] and same["preferred"],
        **({CPUS: same["cpus"]} if ids else {}),
        AMOUNTS: same["amounts"] or chance,
        **({CHANCE: True} if chance else {}),
    }


def naive(node: Node, demand: Demand) -> bool:
    """What a filter says that knows the policy, and looks for one zone with enough of everything."""
    if node.policy in (Policy.NONE, Policy.BEST_EFFORT):
        return True
    steps = (demand.whole,) if node.scope is Scope.POD else demand.steps
    return all(
        any(all(zone.free.get(name, 0) >= amount for name, amount in each) for zone in node.zones)
        for each in [step.requests.items() for step in steps]
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


def everything(_node: Json) -> Iterable[str]:
    """All decisions alike."""
    return ["all"]


def _policy(node: Json) -> Iterable[str]:
    config = node["kubeletConfig"]
    return [f"{config['topologyManagerPolicy']}, {config['topologyManagerScope']}"]


def _options(node: Json) -> Iterable[str]:
    fields = ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "featureGates")
    return [name for each in fields for name in node["kubeletConfig"].get(each) or {}] or ["none"]


KEYS: Mapping[str, Key] = {
    "policy and scope": _policy,
    "option": _options,
    "version of the kubelet": lambda node: [str(node["kubeletVersion"])],
}


def text() -> str:
    """Return the page. Raise `DisagreementError` if something of a known machine differs."""
    recorded = recordings(*sorted(path.name for path in DATA.glob("kubelet-*.jsonl.gz")))
    found = [decision for each in recorded for level in Level for decision in decisions(each, level)]
    levels = tallied(found, everything)["all"]
    if wrong := {what: n for what in COLUMNS if (n := levels[Level.MACHINE].missed(what))}:
        raise DisagreementError(f"on a known machine, rules and kubelet disagree: {wrong}")
    rows = [[level, *map(each.cell, COLUMNS), str(each.agreed[CHANCE])] for level, each in levels.items()]
    rows.append([NAIVE, levels[Level.CONFIGURED].cell(NAIVE), *["-"] * len(COLUMNS)])
    parts = [HEAD, "## By level\n", table(["level", *COLUMNS, CHANCE], rows)]
    for title, key in KEYS.items():
        parts += [f"## Admitted, by {title}\n", _admitted(title, tallied(found, key))]
    parts += ["## Doubts of wrong predictions\n"]
    parts += [
        "Every prediction lists its doubts: unknown facts that matter. Wrong predictions listed these:\n"
    ]
    # Rules of tables as in the head.
    return "\n".join([*parts, *_causes(found), ""]).replace(" --- ", "---")


def _admitted(title: str, tallies: Mapping[str, Mapping[Level, Tally]]) -> str:
    rows = (
        [
            name,
            str(levels[Level.MACHINE].compared[ADMITTED]),
            *(levels[level].share(ADMITTED) for level in Level),
            levels[Level.CONFIGURED].share(NAIVE),
        ]
        for name, levels in sorted(tallies.items())
    )
    return table([title, "decisions", *Level, NAIVE], rows)


def _causes(found: Sequence[Decision]) -> Iterator[str]:
    """Each doubt that was listed with a wrong prediction, and how often."""
    for level in Level:
        here = [decision for decision in found if decision.level is level]
        wrong = [decision for decision in here if not decision.found[ADMITTED]]
        reasons = sum(not decision.found.get(REASON, True) for decision in here)
        silent = sum(not decision.causes for decision in wrong)
        counted = f"{len(wrong)} wrong, {reasons} rejected for another reason; {silent} without a doubt"
        yield f"**{level}**: {counted}"
        named = Counter(cause for decision in wrong for cause in decision.causes)
        yield from (f"* {count}: {cause}" for cause, count in named.most_common())
        yield ""
