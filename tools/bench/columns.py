"""
Measure how long `numalign.cache` takes to evaluate all nodes for a pod, by makes, nodes, zones and policy.

Cold is a new question: each requests one byte of memory more than the previous one, so no answer is cached.
Warm is a question that was answered before some of the nodes changed. With scores, the nodes that take the
pod are also scored by two strategies. Everything runs on one thread, and times are processor times.
"""

import gc
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean, median
from time import process_time
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from numalign.cache import ClusterCache, Question
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import EVEN, Strategy
from numalign.model.intent import Policy
from numalign.model.node import Node
from tools.bench.fleets import Case
from tools.bench.tables import MILLI, Measurement, program, row

T = TypeVar("T")
Found = Mapping[str, float | None]  # the figures of a fleet, by their names

STRATEGIES = (Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED)
SAMPLE = 40
"""Nodes that the rules evaluate one by one."""
PATIENCE_MS = 500
"""Scores are measured if those of a first question take no longer."""
INTENTS = {
    Policy.NONE: "pods without a policy",
    Policy.SINGLE_NUMA_NODE: "pods that need one zone",
}
"""Pods in mixed fleets: not all of these nodes enforce that policy themselves."""

AIMED = (
    (2, Policy.SINGLE_NUMA_NODE, 1, 0.8, 3, "2 zones, single-numa-node"),
    (8, Policy.RESTRICTED, 1, 2.3, 4, "8 zones, restricted, one is enough"),
    (8, Policy.RESTRICTED, 4, 8, 12, "8 zones, restricted, four needed"),
)
"""Fleets with targets: zones, policy, zones that the pod needs, most milliseconds, title."""
WARM_MS = 0.3
"""The target for verdicts after 1 % of the nodes changed."""
MAKES_RATIO = 2
"""The target: how many times as long as with one make anything may take with many."""


def timed(do: Callable[[T], object], over: Iterable[T]) -> list[float]:
    found = list[float]()
    for each in over:
        began = process_time()
        do(each)
        found.append(MILLI * (process_time() - began))
    return found


def evaluated(case: Case, nodes: Sequence[Node], questions: int, share: float) -> Found:
    """Return medians for all nodes, of which a share changes; None for scores that take too long."""
    cluster, known = ClusterCache.of(nodes), case.question(0)

    def admitted(question: Question) -> "NDArray[np.bool_]":
        return cluster.ask([], question).evaluation.admitted()

    def scored(question: Question) -> None:
        # Verdicts come first, as for every caller that scores.
        admitted(question)
        evaluation = cluster.ask([], question).evaluation
        for strategy in STRATEGIES:
            evaluation.scores(strategy, EVEN)

    # Without the garbage collector, as in `timeit`, so that no call pays for earlier garbage.
    gc.collect()
    gc.disable()
    feasible = int(np.count_nonzero(admitted(case.question(-1))))
    cold = timed(admitted, map(case.question, range(questions)))
    [first] = timed(scored, [case.question(-2)])
    others = range(questions, 2 * questions) if first <= PATIENCE_MS else ()
    scores = timed(scored, map(case.question, others))
    by_rules = timed(lambda node: evaluate(node, known.demand, known.intent), nodes[:SAMPLE])
    puts, warm, warm_scores = list[float](), list[float](), list[float]()
    for turn in range(questions):
        changed = case.changed(nodes, share, turn)
        puts += timed(cluster.nodes.put, changed)
        warm += timed(admitted, [known])
        warm_scores += timed(scored, [known] if others else [])
    gc.enable()
    return {
        "take it": feasible,
        "cold verdicts": median(cold),
        "cold, with scores": median(scores) if scores else None,
        "by the rules": fmean(by_rules) * case.nodes,
        "warm verdicts": median(warm),
        "warm, with scores": median(map(sum, zip(warm, warm_scores, strict=True))) if scores else None,
        "updates": round(len(puts) * MILLI / sum((*puts, *warm))),
    }


def measure(chosen: Namespace) -> Iterator[Measurement]:
    found: dict[Case, Found] = {}
    judged = sorted(chosen.nodes)[len(chosen.nodes) // 2]
    for case, nodes in _cases(chosen, judged):
        sys.stderr.write(f"{case.nodes:,} nodes, {len(case.makes)} makes, {case.makes[0].zones} zones\n")
        found[case] = evaluated(case, nodes, chosen.questions, chosen.share)
    yield from _alike(found, judged, chosen)
    yield _mixed(found, judged, chosen)


def _cases(chosen: Namespace, judged: int) -> Iterator[tuple[Case, Sequence[Node]]]:
    """Yield all fleets; smaller ones of one make are the first nodes of the largest."""
    most = max(chosen.zones)
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
        yield from ((replace(case, asks=asks), members) for asks in INTENTS)


def _alike(found: Mapping[Case, Found], judged: int, chosen: Namespace) -> Iterator[Measurement]:
    """Yield the tables of fleets of one make: those with targets, and all."""
    cold, warm = [], []
    for zones, policy, needed, most, most_scores, title in AIMED:
        if each := found.get(Case.alike(judged, zones, policy, needed)):
            verdicts, scores = each["cold verdicts"], each["cold, with scores"]
            cold += [
                row(f"verdicts, {title}", verdicts, most=most),
                row(f"with scores, {title}", scores, most=most_scores),
                row(f"by the rules, {title}", each["by the rules"], "ms", (verdicts, "in columns")),
            ]
            warm += [
                row(f"verdicts, {title}", each["warm verdicts"], "ms", (verdicts, "cold"), most=WARM_MS),
                row(f"with scores, {title}", each["warm, with scores"], "ms", (scores, "cold")),
                row(f"updates, {title}", each["updates"], "nodes/s"),
            ]
    yield Measurement(
        "Cold: new questions",
        cold,
        f"A pod of one container that requests CPUs, memory and a device, and {judged:,} nodes, all"
        " different, of which about half can take it. One thread, the median of"
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
        make, more = case.makes[0], f", {case.needed} needed" if case.needed > 1 else ""
        if len(case.makes) == 1 and case.asks is make.policy:
            figures = ("take it", "cold verdicts", "cold, with scores", "warm verdicts")
            cells = ("too long" if each[name] is None else each[name] for name in figures)
            rows.append((f"{make.zones} zones, {make.policy}{more}", case.nodes, *cells))
    head = ("zones, policy", "nodes", "take it", "verdicts", "with scores", "warm")
    yield Measurement("Cold verdicts by nodes, zones and policy", rows, "Milliseconds.", head)


def _mixed(found: Mapping[Case, Found], judged: int, chosen: Namespace) -> Measurement:
    one, usual, rows = chosen.makes[0], chosen.makes[-1], []
    for asks, of_pods in INTENTS.items():
        few, many = (found[Case.mixed(judged, makes, asks)] for makes in (one, usual))
        for what in ("cold verdicts", "cold, with scores", "warm verdicts", "warm, with scores"):
            other = few[what]
            most = MAKES_RATIO * other if other else None
            rows.append(row(f"{what}, {of_pods}", many[what], "ms", (other, f"of {one} makes"), most=most))
        for nodes in chosen.nodes:
            verdicts = found[Case.mixed(nodes, usual, asks)]["cold verdicts"]
            rows.append(row(f"cold verdicts, {nodes:,} nodes, {of_pods}", verdicts))
    return Measurement(
        f"Mixed fleets: {judged:,} nodes of {usual} makes",
        rows,
        "Nodes of a make have the same number of zones, policy, scope and hardware model. Makes alternate,"
        " and no two nodes are alike. Pods, questions and changes are as above.",
    )


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
