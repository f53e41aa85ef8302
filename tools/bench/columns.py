"""
Measure how long `numalign.cache` takes to evaluate all nodes for a pod, by makes, nodes, zones and policy.

Cold is a new question: each requests one byte of memory more than the previous one, so no answer is cached.
Warm is a question that was answered before some of the nodes changed. With scores, the nodes that take the
pod are also scored by two strategies. Everything runs on one thread, and times are processor times.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from numalign.cache import ClusterCache, Question
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import EVEN, Strategy
from numalign.model.intent import Policy
from numalign.model.node import Node
from tools.bench.fleets import Case
from tools.bench.spreads import MILLI, quantile, timed, undisturbed
from tools.bench.tables import Measurement, program, row

STRATEGIES = (Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED)
SAMPLE = 40
"""Nodes that the rules evaluate one by one."""
PATIENCE = 0.5
"""Seconds; scores are measured if those of a first question take no longer."""
BUDGET = 3.0
"""Seconds after which nothing is repeated for the sake of a median."""

ASKED = {
    Policy.NONE: "pods without a policy",
    Policy.SINGLE_NUMA_NODE: "pods that need one zone",
}
"""Pods in mixed fleets: not all of these nodes enforce that policy themselves."""


@dataclass(frozen=True, slots=True)
class Aimed:
    """A fleet of one make with targets in milliseconds, by zones, policy and zones that the pod needs."""

    zones: int
    policy: Policy
    needed: int
    verdicts: float
    scores: float
    title: str


AIMED = (
    Aimed(2, Policy.SINGLE_NUMA_NODE, 1, 0.8, 3, "2 zones, single-numa-node"),
    Aimed(8, Policy.RESTRICTED, 1, 2.3, 4, "8 zones, restricted, one is enough"),
    Aimed(8, Policy.RESTRICTED, 4, 8, 12, "8 zones, restricted, four needed"),
)
WARM_MS = 0.3
"""The target for verdicts after 1 % of the nodes changed."""
MAKES_RATIO = 2
"""The target: how many times as long as with one make anything may take with many."""


@dataclass(frozen=True, slots=True)
class Found:
    """Milliseconds for all nodes, medians; None if scoring takes too long. `updates` are nodes per second."""

    feasible: int
    verdicts: float
    scores: float | None
    by_rules: float
    warm: float
    warm_scores: float | None
    updates: float


def evaluated(case: Case, nodes: Sequence[Node], questions: int, share: float) -> Found:
    """Measure a case, in which a share of the nodes changes."""
    cluster = ClusterCache.of(nodes)
    _admitted(cluster, case.question(-1))
    plain, others = ([case.question(at + first) for at in range(questions)] for first in (0, questions))
    admitted, verdicts = timed(partial(_admitted, cluster), plain, budget=BUDGET)
    scored = partial(_scored, cluster)
    scoring = timed(scored, [case.question(-2)])[1][0] <= PATIENCE
    scores = timed(scored, others, budget=BUDGET)[1] if scoring else []
    question, puts, warm, warm_scores = case.question(0), list[float](), list[float](), list[float]()
    by_rules = timed(lambda node: evaluate(node, question.demand, question.intent), nodes[:SAMPLE])[1]
    for turn in range(questions):
        changed = case.changed(nodes, share, turn)
        puts.append(sum(timed(cluster.nodes.put, changed)[1]))
        warm += timed(partial(_admitted, cluster), [question])[1]
        warm_scores += timed(scored, [question])[1] if scoring else []
        if sum(puts) + sum(warm) + sum(warm_scores) > BUDGET:
            break
    return Found(
        feasible=int(np.count_nonzero(admitted[0])),
        verdicts=_median(verdicts),
        scores=_median(scores) if scoring else None,
        by_rules=sum(by_rules) / len(by_rules) * MILLI * case.nodes,
        warm=_median(warm),
        warm_scores=_median([*map(sum, zip(warm, warm_scores, strict=True))]) if scoring else None,
        updates=round(len(puts) * len(changed) / (sum(puts) + sum(warm))),
    )


def _median(seconds: Sequence[float]) -> float:
    return quantile(seconds, 0.5) * MILLI


def _admitted(cluster: ClusterCache, question: Question) -> "NDArray[np.bool_]":
    return cluster.ask([], question).evaluation.admitted()


def _scored(cluster: ClusterCache, question: Question) -> None:
    """Score the nodes by each strategy; verdicts come first, as for every caller that scores."""
    _admitted(cluster, question)
    evaluation = cluster.ask([], question).evaluation
    for strategy in STRATEGIES:
        evaluation.scores(strategy, EVEN)


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Measure fleets of one make, then those of several makes."""
    found: dict[Case, Found] = {}
    for case, nodes in _cases(chosen):
        sys.stderr.write(
            f"columns: {case.nodes:,} nodes, {len(case.makes)} makes, {case.makes[0].zones} zones\n"
        )
        with undisturbed():
            found[case] = evaluated(case, nodes, chosen.questions, chosen.share)
    yield from tables(found, chosen)
    yield _mixed(found, chosen)


def _cases(chosen: Namespace) -> Iterator[tuple[Case, Sequence[Node]]]:
    """Yield all fleets; smaller ones of one make are the first nodes of the largest."""
    most, judged = max(chosen.zones), _judged_at(chosen)
    plan = [*((zones, 1, tuple(Policy)) for zones in chosen.zones), (most, most // 2, (Policy.RESTRICTED,))]
    for zones, needed, policies in plan:
        every = Case.alike(max(chosen.nodes), zones, Policy.NONE, needed).members()
        for count, policy in product(chosen.nodes, policies):
            nodes = [replace(node, policy=policy) for node in every[:count]]
            yield Case.alike(count, zones, policy, needed), nodes
    sizes = [(judged, makes) for makes in chosen.makes]
    sizes += [(nodes, chosen.makes[-1]) for nodes in chosen.nodes if nodes != judged]
    for count, makes in sizes:
        case = Case.mixed(count, makes, Policy.NONE)
        members = case.members()
        yield from ((replace(case, asks=asks), members) for asks in ASKED)


def _judged_at(chosen: Namespace) -> int:
    return int(sorted(chosen.nodes)[len(chosen.nodes) // 2])


def _mixed(found: Mapping[Case, Found], chosen: Namespace) -> Measurement:
    one, usual = chosen.makes[0], chosen.makes[-1]
    judged, rows = _judged_at(chosen), []
    for asks, of_pods in ASKED.items():
        few, many = (found[Case.mixed(judged, makes, asks)] for makes in (one, usual))
        for what, mine, other in (
            ("cold verdicts", many.verdicts, few.verdicts),
            ("cold, with scores", many.scores, few.scores),
            ("warm verdicts", many.warm, few.warm),
            ("warm, with scores", many.warm_scores, few.warm_scores),
        ):
            aim = MAKES_RATIO * other if other else None
            rows.append(row(f"{what}, {of_pods}", mine, "ms", (other, f"of {one} makes"), most=aim))
        for nodes in chosen.nodes:
            each = found[Case.mixed(nodes, usual, asks)]
            rows.append(row(f"cold verdicts, {nodes:,} nodes, {of_pods}", each.verdicts))
    return Measurement(
        f"Mixed fleets: {judged:,} nodes of {usual} makes",
        rows,
        "Nodes of a make have the same number of zones, policy, scope and hardware model. Makes alternate,"
        " and no two nodes are alike. Pods, questions and changes are as above.",
    )


def tables(found: Mapping[Case, Found], chosen: Namespace) -> Iterator[Measurement]:
    """Yield the tables of fleets of one make: those with targets, and all."""
    cold, warm = [], []
    for aimed in AIMED:
        each = found.get(Case.alike(_judged_at(chosen), aimed.zones, aimed.policy, aimed.needed))
        if each:
            cold += [
                row(f"verdicts, {aimed.title}", each.verdicts, most=aimed.verdicts),
                row(f"with scores, {aimed.title}", each.scores, most=aimed.scores),
                row(f"by the rules, {aimed.title}", each.by_rules, "ms", (each.verdicts, "in columns")),
            ]
            warm += [
                row(f"verdicts, {aimed.title}", each.warm, "ms", (each.verdicts, "cold"), most=WARM_MS),
                row(f"with scores, {aimed.title}", each.warm_scores, "ms", (each.scores, "cold")),
                row(f"updates, {aimed.title}", each.updates, "nodes/s"),
            ]
    yield Measurement(
        "Cold: new questions",
        cold,
        f"A pod of one container that requests CPUs, memory and a device, and {_judged_at(chosen):,} nodes,"
        " all different, of which about half can take it. One thread, the median of"
        f" {chosen.questions} questions, compared with the rules of `numalign.decision`, which evaluate a"
        " sample of the nodes one by one.",
    )
    yield Measurement(
        f"Warm: repeated questions after {chosen.share:.0%} of the nodes changed",
        warm,
        "An update replaces a node, and includes its part of the question after it.",
    )
    rows = []
    for case, each in found.items():
        make, needed = case.makes[0], f", {case.needed} needed" if case.needed > 1 else ""
        if len(case.makes) == 1 and case.asks is make.policy:
            scores = "too long" if each.scores is None else each.scores
            title = f"{make.zones} zones, {make.policy}{needed}"
            rows.append((title, case.nodes, each.feasible, each.verdicts, scores, each.warm))
    head = ("zones, policy", "nodes", "take it", "verdicts", "with scores", "warm")
    yield Measurement("Cold verdicts by nodes, zones and policy", rows, "Milliseconds.", head)


main = program(
    "columns",
    __doc__,
    measure,
    nodes=((1000, 5000, 15_000), (10, 20, 30), "sizes of fleets; targets apply to the middle one"),
    makes=((1, 36), (1, 6), "makes of mixed fleets; the first is compared with the last"),
    zones=((2, 4, 8), (2, 8), "zones of the nodes of fleets of one make"),
    questions=(15, 2, "new questions of each kind, and updates"),
    share=(0.01, 0.1, "the share of nodes that change in an update"),
)

if __name__ == "__main__":
    sys.exit(main(None))
