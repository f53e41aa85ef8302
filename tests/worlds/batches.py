"""Nodes that are asked together, and what the rules answer for each of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from numalign.cache import ClusterCache, Question
from numalign.cache.batch import ADMITTED, Batch, OwnNode
from numalign.cache.ranking import Ranking, Ranks, ranks
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import EVEN, Strategy, Weights, aligned, scores
from numalign.decision.verdict import Verdict
from numalign.model.node import Node
from numalign.scheduling.reasons import reason
from tests.worlds.notation import asks, means

STRATEGIES = tuple(Strategy)


def batch(
    nodes: Sequence[Node | None], pod: str, intent: str = "none", *, own: tuple[int, Node] | None = None
) -> Batch:
    """What these nodes, None for an unknown one, answer to a pod; of its `own` node, that one counts."""
    question = Question(asks(pod), means(intent) if intent != "none" else NO_INTENT)
    named = [replace(node, name=f"n{at}") for at, node in enumerate(nodes) if node]
    asked = own and OwnNode(*own, evaluate(own[1], question.demand, question.intent))
    return ClusterCache.of(named).ask([f"n{at}" for at in range(len(nodes))], question, asked)


def ranked(nodes: Sequence[Node | None], pod: str, *rankings: Ranking, intent: str = "none") -> Ranks:
    """What these nodes are worth to a pod, by the first ranking."""
    return ranks(batch(nodes, pod, intent), rankings or [Ranking()])


class NodeFacts(NamedTuple):
    """What is answered for one node; of one that refuses the pod nothing but the verdict is."""

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
    """What the rules answer."""
    demand, intent = question.demand, question.intent
    verdict = evaluate(node, demand, intent)
    able = not evaluate(node.in_health(), demand, intent).permanent
    if not verdict.admitted:
        return NodeFacts(verdict.admitted, verdict.permanent, able, verdict)
    return NodeFacts(
        verdict.admitted,
        verdict.permanent,
        able,
        verdict,
        len(verdict.placement.zones),
        aligned(node, demand, verdict.placement, intent),
        scores(STRATEGIES, node, demand, verdict.placement, weights),
    )


def by_cache(answers: Batch, weights: Weights = EVEN) -> list[NodeFacts]:
    """What a cache answers for the nodes of a batch, which it all knows."""
    evaluation, rows = answers.evaluation, answers.rows
    values = (evaluation.scores(strategy, weights, rows).tolist() for strategy in STRATEGIES)
    admitted, able = evaluation.admitted(rows).tolist(), evaluation.able(rows).tolist()
    columns = (
        admitted,
        [not (now or ever) for now, ever in zip(admitted, able, strict=True)],
        able,
        map(evaluation.verdict, rows.tolist()),
        evaluation.zones(rows).tolist(),
        (one if now else None for one, now in zip(evaluation.aligned(rows).tolist(), admitted, strict=True)),
        zip(*values, strict=True),
    )
    return list(map(NodeFacts._make, zip(*columns, strict=True)))


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
    return [*unequal, *_told_differently(every, answers, theirs)]


def _told_differently(nodes: list[Node], answers: Batch, facts: list[NodeFacts]) -> Iterator[Difference]:
    """Nodes of whose refusal a scheduler hears something else than the rules say."""
    heard = {code: _words(verdict) for code, verdict in answers.refusals.items()}
    for node, code, one in zip(nodes, answers.codes.tolist(), facts, strict=True):
        mine, theirs = heard.get(code, code), _words(one.verdict) if one.verdict.refusal else ADMITTED
        if mine != theirs:
            yield Difference(node.name, "refusals", mine, theirs)


def _words(verdict: Verdict) -> object:
    """What is told alike of all nodes that refuse alike: by how, why, and in which words."""
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
