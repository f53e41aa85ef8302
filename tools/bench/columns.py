"""
Measure how long `numalign.cache` takes to evaluate all nodes for a pod, by makes, nodes, zones and policy.

Cold is a new question: each requests one byte of memory more than the previous one, so no answer is cached.
Warm is a question that was answered before some of the nodes changed. With scores, the nodes that take the
pod are also scored by two strategies. Everything runs on one thread, and times are processor times.

The run checks itself: plain Go must find as many nodes and the same scores, the rules must give the same
verdicts for a sample of nodes, and an updated cluster must give the same result as a new one that is built
from the changed nodes.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import process_time
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from numalign.cache import ClusterCache, Question
from numalign.cache.evaluation import Evaluation
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import EVEN, Strategy
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from tools.bench import command_line, floor, growth
from tools.bench.figures import MILLI, table
from tools.bench.fleets import MOST_MAKES, Case, Raw
from tools.bench.floor import MIXED, Floor, Load, Pass, Scores
from tools.bench.rows import digits
from tools.bench.timing import DIGITS, Times, timed, undisturbed
from tools.clusters.gotools import UnavailableError

STRATEGIES = (Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED)

PATIENCE = 0.5
"""The longest estimated time to score all nodes, in seconds; beyond it, scores are not measured."""
SOME = 200
"""Nodes, in addition to one of each make, from which that time is estimated."""

Say = Callable[[str], None]
"""Takes a line of progress."""


class CheckFailed(Exception):
    """Raised if a measurement did other work than it should have; the text says what differs."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is measured, and how often.

    `questions` new questions are asked for verdicts, and as many for scores; a `share` of the nodes changes
    `turns` times. The rules evaluate `sample` nodes, one by one. Fleets of several makes have the middle one
    of the numbers `nodes`, those of `usual` makes have each of them.
    """

    nodes: tuple[int, ...] = (1000, 5000, 15_000)
    usual: int = 36
    zones: tuple[int, ...] = (2, 4, 8)
    needed: int = 4
    """Zones that the pod takes in one more case, on nodes with the most zones."""
    questions: int = 15
    turns: int = 15
    share: float = 0.01
    sample: int = 40
    rounds: int = 3
    budget: float = 3.0
    """Seconds after which nothing is repeated for the sake of a median."""

    @property
    def judged_at(self) -> int:
        """The number of nodes that targets apply to."""
        return sorted(self.nodes)[len(self.nodes) // 2]


QUICK = Sizes(
    nodes=(10, 20, 30),
    usual=6,
    zones=(2, 8),
    questions=2,
    turns=2,
    share=0.1,
    sample=3,
    rounds=1,
)
"""A short run, which only shows that everything works."""

ASKED = (Policy.NONE, Policy.SINGLE_NUMA_NODE)
"""Policies of the pods in mixed fleets: none, like most pods, and one that not all nodes enforce."""


def measure(sizes: Sizes, program: Floor | None, say: Say) -> Raw:
    """Measure every cell, and the memory of the largest fleets; raise `CheckFailed` if results differ."""
    most = max(sizes.zones)
    plan = [(zones, 1, tuple(Policy)) for zones in sizes.zones]
    plan.append((most, min(sizes.needed, most), (Policy.RESTRICTED,)))
    cells: list[Raw] = []
    for zones, needed, policies in plan:
        largest = Case.alike(max(sizes.nodes), zones, Policy.NONE, needed)
        cells += _cells(sizes, largest, policies, program, say)
    say("columns: memory")
    memory = [growth.measure(max(sizes.nodes), zones) for zones in sizes.zones]
    return {
        "share": sizes.share,
        "questions": sizes.questions,
        "judged_at": sizes.judged_at,
        "cells": cells,
        "memory": memory,
    }


def measure_makes(sizes: Sizes, counts: Sequence[int], program: Floor | None, say: Say) -> Raw:
    """Measure fleets of so many makes; raise `CheckFailed` if results differ."""
    return {
        "share": sizes.share,
        "questions": sizes.questions,
        "judged_at": sizes.judged_at,
        "usual": sizes.usual,
        "mixed": list(_mixed(sizes, counts, program, say)),
        "described": list(_described(sizes, program, say)),
    }


def _mixed(sizes: Sizes, counts: Sequence[int], program: Floor | None, say: Say) -> Iterator[Raw]:
    plan = [(sizes.judged_at, makes) for makes in counts]
    if sizes.usual in counts:
        plan += [(nodes, sizes.usual) for nodes in sizes.nodes if nodes != sizes.judged_at]
    for nodes, makes in plan:
        say(f"columns: {nodes:,} nodes, {makes} makes")
        yield from _asked(sizes, Case.mixed(nodes, makes, ASKED[0]), program)


def _described(sizes: Sizes, program: Floor | None, say: Say) -> Iterator[Raw]:
    """Yield the cells of the usual fleet with its machines described."""
    say(f"columns: {sizes.judged_at:,} nodes, {sizes.usual} makes, machines described")
    case = replace(Case.mixed(sizes.judged_at, sizes.usual, ASKED[0]), known=Known.MACHINE)
    yield from _asked(sizes, case, program)


def _asked(sizes: Sizes, case: Case, program: Floor | None) -> Iterator[Raw]:
    """Yield the cells of a mixed fleet, by the policy of the pods."""
    members, load = case.members(), Load(2 * sizes.questions, sizes.rounds)
    # Plain Go ignores the policies of pods.
    passes = program.passes(case, members, (MIXED,), load) if program else {}
    for asks in ASKED:
        found = passes.get(MIXED) if asks is ASKED[0] else None
        with undisturbed():
            measured = cell(replace(case, asks=asks), members, sizes, found)
        yield {"makes": len(case.makes), "known": case.known, "asks": asks, **measured}


def _cells(
    sizes: Sizes, largest: Case, policies: Sequence[Policy], program: Floor | None, say: Say
) -> Iterator[Raw]:
    """Yield the cells of nodes with the same zones; smaller fleets are the first nodes of the largest."""
    every, zones, needed = largest.members(), largest.makes[0].zones, largest.needed
    load = Load(2 * sizes.questions, sizes.rounds)
    for count in sizes.nodes:
        say(f"columns: {count:,} nodes, {zones} zones, {needed} needed")
        some = replace(largest, nodes=count)
        passes = program.passes(some, every[:count], policies, load) if program else {}
        for policy in policies:
            case = Case.alike(count, zones, policy, needed)
            nodes = [replace(node, policy=policy) for node in every[:count]]
            with undisturbed():
                found = cell(case, nodes, sizes, passes.get(policy))
            yield {"zones": zones, "policy": policy, "needed": needed, **found}


def cell(case: Case, nodes: Sequence[Node], sizes: Sizes, found: Pass | None) -> Raw:
    """Measure a case: cold, warm and with scores, in milliseconds; raise `CheckFailed` if results differ."""
    cluster = ClusterCache()
    _, puts = _timed(cluster.nodes.put, nodes)
    _, [first] = _timed(partial(_admitted, cluster), [case.question(-1)])
    patient = _scoring(case, nodes) <= PATIENCE
    cold = _cold(case, cluster, sizes, patient=patient)
    if found:
        _agree(case, cold, found, sizes.questions)
    by_rules = _by_rules(case, cluster, nodes[: sizes.sample])
    return {
        "nodes": case.nodes,
        "feasible": cold.feasible[0],
        "building_ms": round((sum(puts) + first) * MILLI, DIGITS),
        "verdicts_ms": Times.of(cold.verdicts).millis(),
        "scores_ms": _millis(cold.scored),
        "rules_ms": round(by_rules * MILLI * case.nodes, DIGITS),
        "floor": found and {"verdicts_ms": found.verdicts.millis(), "scores_ms": _millis(found.scored)},
        **_warm(case, cluster, nodes, sizes, patient=patient),
    }


_timed = partial(timed, clock=process_time)


def _millis(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return a summary in milliseconds; None if nothing was measured."""
    return Times.of(seconds).millis() if seconds else None


def _scoring(case: Case, nodes: Sequence[Node]) -> float:
    """Estimate the seconds to score all nodes, by what each of some nodes costs more than a few."""
    makes = len(case.makes)
    few, some = nodes[: makes + SOME // 10], nodes[: makes + SOME]
    least, most = (
        min(_timed(partial(_scored, ClusterCache.of(each)), _new(case, 3))[1][1:]) for each in (few, some)
    )
    return (most - least) / max(len(some) - len(few), 1) * len(nodes)


def _new(case: Case, count: int) -> list[Question]:
    return [case.question(number) for number in range(count)]


class _Cold(NamedTuple):
    """The results of new questions, and the seconds of each."""

    feasible: Sequence[int]
    scores: Sequence[Scores]
    verdicts: Sequence[float]
    scored: Sequence[float]


def _cold(case: Case, cluster: ClusterCache, sizes: Sizes, *, patient: bool) -> _Cold:
    """Ask the first questions for verdicts, and as many after them for scores."""
    count, budget = sizes.questions, sizes.budget
    plain, with_scores = ([case.question(first + at) for at in range(count)] for first in (0, count))
    admitted, verdicts = _timed(partial(_admitted, cluster), plain, budget=budget)
    answers, scored = _timed(partial(_scored, cluster), with_scores if patient else [], budget=budget)
    return _Cold(
        feasible=[int(np.count_nonzero(each)) for each in admitted],
        scores=[Scores(*(int(found[found > 0].sum()) for found in each)) for each in answers],
        verdicts=verdicts,
        scored=scored,
    )


def _evaluation(cluster: ClusterCache, question: Question) -> Evaluation:
    """Return the evaluation of all nodes."""
    return cluster.ask([], question).evaluation


def _admitted(cluster: ClusterCache, question: Question) -> "NDArray[np.bool_]":
    return _evaluation(cluster, question).admitted()


def _scored(cluster: ClusterCache, question: Question) -> "list[NDArray[np.int16]]":
    """Return the scores of nodes by each strategy; verdicts come first, as for every caller that scores."""
    _admitted(cluster, question)
    answer = _evaluation(cluster, question)
    return [answer.scores(strategy, EVEN) for strategy in STRATEGIES]


def _agree(case: Case, ours: _Cold, theirs: Pass, questions: int) -> None:
    """Compare with plain Go, which was asked the same questions in the same order."""
    feasible = theirs.feasible[: len(ours.feasible)]
    _same(f"{case}: nodes that take the pod, here and in Go", ours.feasible, feasible)
    if theirs.scores:
        scores = theirs.scores[questions:][: len(ours.scores)]
        _same(f"{case}: scores of all nodes together, here and in Go", ours.scores, scores)


def _same(what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        raise CheckFailed(f"{what}: {ours} and {theirs}")


def _by_rules(case: Case, cluster: ClusterCache, some: Sequence[Node]) -> float:
    """Return the seconds per node of evaluation by the rules alone, after a comparison of the verdicts."""
    question = case.question(0)
    verdicts, seconds = _timed(lambda node: evaluate(node, question.demand, question.intent).admitted, some)
    found = cluster.ask([node.name for node in some], question).admitted
    _same(f"{case}: verdicts in columns and by the rules", found.tolist(), verdicts)
    return sum(seconds) / len(seconds)


def _warm(case: Case, cluster: ClusterCache, nodes: Sequence[Node], sizes: Sizes, *, patient: bool) -> Raw:
    """Repeat one question, with other nodes changed each time."""
    question = case.question(0)
    latest = {node.name: node for node in nodes}
    again = _timed(partial(_scored if patient else _admitted, cluster), [question] * 2)[1][1:]
    putting, asking, scoring = list[float](), list[float](), list[float]()
    changes = (case.changed(nodes, sizes.share, turn) for turn in range(sizes.turns))
    for changed in changes:
        latest |= {node.name: node for node in changed}
        putting.append(sum(_timed(cluster.nodes.put, changed)[1]))
        asking += _timed(partial(_admitted, cluster), [question])[1]
        scoring += _timed(partial(_scored, cluster), [question] if patient else [])[1]
        if sum(putting) + sum(asking) + sum(scoring) > sizes.budget:
            break
    ours, anew = _yes(cluster, question), _yes(ClusterCache.of(latest.values()), question)
    _same(f"{case}: a cluster that was changed and a new one", ours, anew)
    return {
        "again_ms": _millis(again),
        "putting_ms": _millis(putting),
        "warm_ms": _millis(asking),
        "warm_scores_ms": _millis([sum(both) for both in zip(asking, scoring, strict=False)]),
        "updates_per_s": round(len(putting) * len(changed) / (sum(putting) + sum(asking))),
    }


def _yes(cluster: ClusterCache, question: Question) -> set[str]:
    return {cluster.nodes.node(int(row)).name for row in np.flatnonzero(_admitted(cluster, question))}


def main() -> int:
    """Measure as the flags say; return 0 however slow it was, or 1 if results differ."""
    chosen = _parser().parse_args()
    sizes, program = QUICK if chosen.quick else Sizes(), _floor()
    try:
        if chosen.makes:
            found = measure_makes(sizes, chosen.makes, program, _say)
            print(mixed_text([*found["mixed"], *found["described"]]))
        else:
            found = measure(sizes, program, _say)
            print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    except CheckFailed as error:
        _say(str(error))
        return 1
    command_line.write(found, chosen.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("tools.bench.columns", __doc__)
    parser.add_argument(
        "--quick", action="store_true", help="use a few nodes, only to check that everything works"
    )
    parser.add_argument(
        "--makes",
        type=command_line.numbers(most=MOST_MAKES),
        default=(),
        metavar="N,...",
        help="measure fleets of so many makes instead of fleets of one make",
    )
    return parser


_MIXED = {
    "verdicts": "verdicts_ms",
    "scores": "scores_ms",
    "warm": "warm_ms",
    "warm, scores": "warm_scores_ms",
}


def mixed_text(cells: Sequence[Raw]) -> str:
    """Return the table of fleets of several makes, in milliseconds of processor time."""
    head = ["makes, ms", "nodes", "known", "asks", *_MIXED, "in Go", "by the rules"]
    return table(head, map(_mixed_row, cells))


def _mixed_row(cell: Raw) -> list[str]:
    times = [cell[key] for key in _MIXED.values()] + [(cell["floor"] or {}).get("verdicts_ms")]
    shown = [digits(each["median"]) if each else "-" for each in times]
    return [
        str(cell["makes"]),
        f"{cell['nodes']:,}",
        cell["known"],
        cell["asks"],
        *shown,
        digits(cell["rules_ms"]),
    ]


def _floor() -> Floor | None:
    try:
        return floor.find()
    except UnavailableError as error:
        _say(str(error))
        return None


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
