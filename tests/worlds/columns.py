"""Nodes in columns, what a pod requests of them there, and what the rules answer for each of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from numalign.cache import ClusterCache, Question
from numalign.cache.arrays import Bools
from numalign.cache.batch import ADMITTED, Batch, OwnNode
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import Columns, FreeOrEmpty, When
from numalign.cache.layout import Layout, layout_of
from numalign.cache.node_table import ZoneTable
from numalign.cache.plan import Plans, StepRequest, TablePlan
from numalign.cache.ranking import Ranking, Ranks, ranks
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import EVEN, Strategy, Weights, aligned, scores
from numalign.decision.verdict import Verdict
from numalign.kubelet import hint_sets
from numalign.kubelet.hint_sets import HintSet
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node
from numalign.scheduling.node_answers import reason
from tests.laws.fleets import Case
from tests.worlds.notation import asks, bag, means

STRATEGIES = tuple(Strategy)


# Nodes of one table.


def with_free(node: Node, *free: str) -> Node:
    """The node with so much free in its zones; what is left out stays as it is."""
    zones = (
        replace(zone, free=type(zone.free)({**zone.free, **bag(text)}))
        for zone, text in zip(node.zones, free, strict=True)
    )
    return replace(node, zones=tuple(zones))


def numbered(nodes: Iterable[Node]) -> list[Node]:
    """Nodes under names of their own: n0, n1, ..."""
    return [replace(node, name=f"n{at}") for at, node in enumerate(nodes)]


def layout(node: Node) -> Layout:
    layout = layout_of(node)
    assert isinstance(layout, Layout)
    return layout


def zone_table(*nodes: Node) -> ZoneTable:
    """Nodes with equally many zones, one per row."""
    (zones,) = {len(node.zones) for node in nodes}
    table = ZoneTable(zones)
    for row, node in enumerate(nodes):
        table.add(row, layout(node), node)
    return table


def columns(*nodes: Node) -> Columns:
    return zone_table(*nodes).columns


def plans(demand: Demand, *nodes: Node, intent: Intent = NO_INTENT) -> tuple[TablePlan, ...]:
    return Plans(Question(demand, intent)).of(zone_table(*nodes))


def plan(demand: Demand, *nodes: Node, intent: Intent = NO_INTENT) -> TablePlan:
    (one,) = plans(demand, *nodes, intent=intent)
    return one


def state(
    demand: Demand, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW
) -> ColumnState:
    return ColumnState(plan(demand, *nodes, intent=intent), when)


def only_request(state: ColumnState) -> StepRequest:
    (one,) = state.plan.steps
    return one


def parts_of(case: Case, when: FreeOrEmpty = When.NOW) -> Iterator[tuple[ColumnState, Sequence[Node]]]:
    """The nodes of a fleet that columns cover, in parts that decide alike, and the node of each row."""

    def zones(node: Node) -> int:
        return len(node.zones)

    covered = [node for node in case.nodes if isinstance(layout_of(node), Layout)]
    for _, same in groupby(sorted(covered, key=zones), key=zones):
        nodes = [*same]
        for plan in plans(case.question.demand, *nodes, intent=case.question.intent):
            if not plan.undecided:
                rows = np.flatnonzero(plan.meant[plan.kinds.of_rows(None)])
                some = [nodes[row] for row in rows.tolist()]
                state = ColumnState(plan, when, rows)
                yield state, some if when is When.NOW else [node.emptied() for node in some]


# Sets of zones.


def lattice(rows: Sequence[HintSet], zones: int) -> Bools:
    """The sets of each row: (2^zones, rows)."""
    return np.array([[bool(sets >> mask & 1) for sets in rows] for mask in range(1 << zones)], dtype=np.bool_)


def hint_sets_of(sets: Bools) -> list[HintSet]:
    return [hint_sets.of(np.flatnonzero(row).tolist()) for row in sets.T]


def masks_of(sets: Bools) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in sets.T]


# Answers of nodes.


def batch(
    nodes: Sequence[Node | None], pod: str, intent: str = "none", *, own: tuple[int, Node] | None = None
) -> Batch:
    """The answers of these nodes, None for an unknown one; its `own` node is evaluated by itself."""
    question = Question(asks(pod), means(intent) if intent != "none" else NO_INTENT)
    present = [replace(node, name=f"n{at}") for at, node in enumerate(nodes) if node]
    own_node = own and OwnNode(*own, evaluate(own[1], question.demand, question.intent))
    return ClusterCache.of(present).ask([f"n{at}" for at in range(len(nodes))], question, own_node)


def ranked(nodes: Sequence[Node | None], pod: str, *rankings: Ranking, intent: str = "none") -> Ranks:
    return ranks(batch(nodes, pod, intent), rankings or [Ranking()])


class NodeFacts(NamedTuple):
    """The answer of one node; of one that refuses the pod nothing but the verdict counts."""

    admitted: bool
    permanent: bool
    able: bool
    verdict: Verdict
    zones: int = -1
    aligned: bool | None = None
    scores: tuple[int, ...] = (-1,) * len(STRATEGIES)


class Difference(NamedTuple):
    """A node for which the cache answers something else than the rules."""

    node: str
    of: str
    cache: object
    rules: object


def by_rules(node: Node, question: Question, weights: Weights = EVEN) -> NodeFacts:
    demand, intent = question.demand, question.intent
    verdict = evaluate(node, demand, intent)
    able = not evaluate(node.in_health(), demand, intent).permanent
    facts = NodeFacts(verdict.admitted, verdict.permanent, able, verdict)
    if not verdict.admitted:
        return facts
    tight = aligned(node, demand, verdict.placement, intent)
    values = scores(STRATEGIES, node, demand, verdict.placement, weights)
    return facts._replace(zones=len(verdict.placement.zones), aligned=tight, scores=values)


def by_cache(answers: Batch, weights: Weights = EVEN) -> list[NodeFacts]:
    """The answers of a cache that has all nodes of the batch."""
    evaluation, rows = answers.evaluation, answers.rows
    values = (evaluation.scores(strategy, weights, rows).tolist() for strategy in STRATEGIES)
    admitted, able = evaluation.admitted(rows).tolist(), evaluation.able(rows).tolist()
    facts = (
        admitted,
        [not (now or ever) for now, ever in zip(admitted, able, strict=True)],
        able,
        map(evaluation.verdict, rows.tolist()),
        evaluation.zones(rows).tolist(),
        (one if now else None for one, now in zip(evaluation.aligned(rows).tolist(), admitted, strict=True)),
        zip(*values, strict=True),
    )
    return list(map(NodeFacts._make, zip(*facts, strict=True)))


def differences(
    cache: ClusterCache, question: Question, nodes: Iterable[Node], weights: Weights = EVEN
) -> list[Difference]:
    """Where a cache answers something else than the rules for these nodes, which are in it."""
    every = list(nodes)
    answers = cache.ask([node.name for node in every], question)
    theirs = [by_rules(node, question, weights) for node in every]
    unequal = [
        Difference(node.name, of, mine, other)
        for node, ours, right in zip(every, by_cache(answers, weights), theirs, strict=True)
        for of, mine, other in zip(NodeFacts._fields, ours, right, strict=True)
        if mine != other
    ]
    return [*unequal, *_other_refusals(every, answers, theirs)]


def _other_refusals(nodes: list[Node], answers: Batch, facts: list[NodeFacts]) -> Iterator[Difference]:
    """Nodes whose refusal a scheduler prints in other words than the rules."""
    refusals = {code: _words(verdict) for code, verdict in answers.refusals.items()}
    for node, code, one in zip(nodes, answers.codes.tolist(), facts, strict=True):
        mine, theirs = refusals.get(code, code), _words(one.verdict) if one.verdict.refusal else ADMITTED
        if mine != theirs:
            yield Difference(node.name, "refusals", mine, theirs)


def _words(verdict: Verdict) -> object:
    refusal = verdict.refusal
    assert refusal is not None
    return refusal.refuser, refusal.reason, refusal.cause, verdict.permanent, reason(verdict)


def ghosts(cache: ClusterCache, question: Question, nodes: Iterable[Node]) -> list[int]:
    """Rows without any of these nodes, which are all in the cache, of which anything is true."""
    answers = cache.ask([node.name for node in nodes], question)
    evaluation = answers.evaluation
    true = evaluation.admitted() | evaluation.able() | evaluation.aligned() | (evaluation.zones() >= 0)
    true[answers.rows] = False
    return list[int](np.flatnonzero(true).tolist())
