"""What a board says of its nodes, beside what the rules say of each of them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from numalign.cache import Question
from numalign.cache.arrays import Rows
from numalign.cache.board import Answer, Board
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import EVEN, Strategy, Weights, aligned, scores
from numalign.decision.verdict import Cause, Verdict
from numalign.model.node import Node
from scorer.reasons import reason

STRATEGIES = tuple(Strategy)


class Said(NamedTuple):
    """What is said of one node; of a refused one nothing but the verdict is."""

    admitted: bool
    permanent: bool
    able: bool
    verdict: Verdict
    width: int = -1
    aligned: bool | None = None
    scores: tuple[int, ...] = (-1,) * len(STRATEGIES)


class Why(NamedTuple):
    """What must be the same of all rows that are said to be refused alike."""

    reason: str
    cause: Cause
    text: str


class Difference(NamedTuple):
    """A node of which a board says something else than the rules."""

    node: str
    of: str
    board: object
    rules: object


def board_of(nodes: Iterable[Node]) -> Board:
    """A board with these nodes."""
    board = Board()
    for node in nodes:
        board.put(node)
    return board


def by_rules(node: Node, question: Question, weights: Weights = EVEN) -> Said:
    """What the rules say."""
    demand, intent = question.demand, question.intent
    verdict = evaluate(node, demand, intent)
    able = not evaluate(node.in_health(), demand, intent).refused
    if not verdict.admitted:
        return Said(verdict.admitted, verdict.permanent, able, verdict)
    return Said(
        verdict.admitted,
        verdict.permanent,
        able,
        verdict,
        len(verdict.placement.zones),
        aligned(node, demand, verdict.placement, intent),
        scores(STRATEGIES, node, demand, verdict.placement, weights),
    )


def by_board(answer: Answer, rows: Rows, weights: Weights = EVEN) -> list[Said]:
    """What a board says of the nodes in these rows."""
    taken, aligned = answer.admitted[rows].tolist(), answer.aligned[rows].tolist()
    values = (answer.scores(strategy, weights)[rows].tolist() for strategy in STRATEGIES)
    columns = (
        taken,
        answer.permanent[rows].tolist(),
        answer.able[rows].tolist(),
        map(answer.verdict, rows.tolist()),
        answer.width[rows].tolist(),
        (one if admitted else None for one, admitted in zip(aligned, taken, strict=True)),
        zip(*values, strict=True),
    )
    return list(map(Said._make, zip(*columns, strict=True)))


def differences(
    board: Board, question: Question, nodes: Iterable[Node], weights: Weights = EVEN
) -> list[Difference]:
    """Where a board says something else than the rules of these nodes, which are on it."""
    answer, every = board.ask(question), list(nodes)
    rows = board.rows([node.name for node in every])
    theirs = [by_rules(node, question, weights) for node in every]
    found = [
        Difference(node.name, of, mine, other)
        for node, ours, right in zip(every, by_board(answer, rows, weights), theirs, strict=True)
        for of, mine, other in zip(Said._fields, ours, right, strict=True)
        if mine != other
    ]
    return [*found, *_not_alike(every, answer.said[rows].tolist(), theirs)]


def _not_alike(nodes: list[Node], numbers: list[int], said: list[Said]) -> Iterator[Difference]:
    """Nodes that are refused under one number, and not in the same words."""
    known: dict[int, Why] = {}
    for node, number, one in zip(nodes, numbers, said, strict=True):
        why = _why(one.verdict)
        if why is not None and known.setdefault(number, why) != why:
            yield Difference(node.name, "said", known[number], why)


def _why(verdict: Verdict) -> Why | None:
    refusal = verdict.refusal
    return None if refusal is None else Why(refusal.reason, refusal.cause, reason(verdict))


def ghosts(board: Board, question: Question, nodes: Iterable[Node]) -> list[int]:
    """Rows without any of these nodes, which are all on the board, that do not say no."""
    answer = board.ask(question)
    good = answer.admitted | answer.able | answer.permanent | answer.aligned | (answer.width >= 0)
    good[board.rows([node.name for node in nodes])] = False
    return list[int](np.flatnonzero(good).tolist())
