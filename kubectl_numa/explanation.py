"""
What every node says to one pod: the values, before anybody draws them.

A node is asked twice by the rules, as it is and with nothing on it, which gives three answers: it fits, it
would fit with less on the node, or it never will. What takes too long to work out is not answered. Nodes that
say the same make one group, since a person reads groups.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kubectl_numa.questions import Asked, Cluster
from numalign.cluster import placements
from numalign.rules import scoring, wording
from numalign.rules.demand import Demand, Step
from numalign.rules.evaluate import evaluate
from numalign.rules.intent import Policy
from numalign.rules.resources import Resources, render
from numalign.rules.scoring import Strategy
from numalign.rules.topology import Node
from numalign.rules.verdict import Verdict
from numalign.shapes import KnownShape


class Chance(StrEnum):
    """What becomes of a pod on a node, from best to worst."""

    FITS = "fits"
    LATER = "later"
    UNANSWERED = "not answered"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one node says; `score` is None where the pod does not fit now."""

    node: Node
    node_class: str
    verdict: Verdict
    score: int | None

    @property
    def chance(self) -> Chance:
        """The verdict in a word."""
        if self.verdict.admitted:
            return Chance.FITS
        if not self.verdict.answered:
            return Chance.UNANSWERED
        return Chance.NEVER if self.verdict.permanent else Chance.LATER

    @property
    def reason(self) -> str | None:
        """Why not, in one sentence without a full stop."""
        return wording.sentence(self.verdict) if self.verdict.refusal else None

    @property
    def placement(self) -> list[dict[str, Any]] | None:
        """The zones that the pod would get and what of them, as `numalign.io/placement` holds them."""
        return placements.render(self.node, self.verdict.placement) if self.verdict.admitted else None


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one class that say the same, by name; `answer` is the first one's."""

    answer: Answer
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All answers to one pod, by name of the node; `refusal` where no node could ever take it."""

    asked: Asked
    answers: tuple[Answer, ...]
    unknown: tuple[str, ...]
    refusal: str | None

    def count(self, chance: Chance) -> int:
        """How many nodes say this."""
        return sum(answer.chance is chance for answer in self.answers)


def explain(asked: Asked, cluster: Cluster, *, strategy: Strategy = Strategy.LEAST_NUMA_NODES) -> Explanation:
    """Ask every node; nodes in the same state are asked once."""
    answers = tuple(sorted(_answers(asked, cluster, strategy), key=lambda answer: answer.node.name))
    hopeless = answers and all(answer.chance is Chance.NEVER for answer in answers)
    floor = asked.rules.enforce or Policy.BEST_EFFORT
    refusal = cluster.fleet.why_not(asked.question, floor=floor) if hopeless else None
    return Explanation(asked, answers, cluster.unknown, refusal)


def groups(answers: Iterable[Answer]) -> list[Group]:
    """Answers that differ only in the node's name, put together; the best first."""
    alike: dict[tuple[object, ...], list[Answer]] = {}
    for answer in answers:
        key = (answer.node_class, answer.chance, answer.reason, answer.score, repr(answer.placement))
        alike.setdefault(key, []).append(answer)
    found = [Group(same[0], tuple(answer.node.name for answer in same)) for same in alike.values()]
    return sorted(found, key=_best_first)


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation for programs."""
    asked = explanation.asked
    return {
        "pod": asked.pod.name,
        "namespace": asked.pod.namespace,
        "intent": _intent(asked),
        "demand": _demand(asked.demand),
        "nodes": [_answer(answer) for answer in explanation.answers],
        "unknown": list(explanation.unknown),
        "refusal": explanation.refusal,
    }


PRESENT, REMEMBERED, DECLARED = "present", "remembered", "declared"
"""How a shape is known: by nodes that are here, by nodes that were, or because somebody says so."""


def provenance(known: KnownShape) -> dict[str, Any]:
    """By what a shape is known, for programs, and when the last node of it was here."""
    seen = None if known.seen is None else datetime.fromtimestamp(known.seen, UTC).isoformat()
    if known.nodes:
        return {"known": PRESENT, "lastSeen": seen}
    return {"known": DECLARED if known.declared else REMEMBERED, "lastSeen": seen}


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them."""
    return {name: render(name, amount) for name, amount in amounts.items()}


def _answers(asked: Asked, cluster: Cluster, strategy: Strategy) -> Iterator[Answer]:
    question, verdicts = asked.question, dict[Node, tuple[Verdict, int | None]]()
    for node in cluster.fleet.nodes:
        state = replace(node, name="", label=None)
        if state not in verdicts:
            verdict = evaluate(node, question.demand, question.intent)
            placed = verdict.placement if verdict.admitted else None
            value = None if placed is None else scoring.score(strategy, node, question.demand, placed)
            verdicts[state] = (verdict, value)
        yield Answer(node, cluster.fleet.class_of(node), *verdicts[state])


def _best_first(group: Group) -> tuple[int, int, str, tuple[str, ...]]:
    order = list(Chance).index(group.answer.chance)
    return (order, -(group.answer.score or 0), group.answer.node_class, group.names)


def _intent(asked: Asked) -> dict[str, Any] | None:
    if asked.intent is None:
        return None
    return {
        "policy": asked.intent.policy,
        "resources": list(asked.intent.resources),
        "scope": asked.intent.scope,
        "from": asked.by,
    }


def _demand(demand: Demand) -> dict[str, Any]:
    return {
        "qos": demand.qos,
        "containers": [_step(step) for step in demand.steps],
        "total": quantities(demand.total),
    }


def _step(step: Step) -> dict[str, Any]:
    asks: Resources = step.asks
    return {
        "name": step.container,
        "role": step.role,
        "asks": quantities(asks),
        "notPinned": list(step.loose),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "name": answer.node.name,
        "class": answer.node_class,
        "verdict": answer.chance,
        "reason": answer.reason,
        "permanent": answer.verdict.permanent,
        "placement": answer.placement,
        "score": answer.score,
        "known": answer.verdict.known,
        "doubts": list(answer.verdict.doubts),
    }
