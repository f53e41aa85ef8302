"""
What every node says to one pod: the values, before anybody draws them.

A node is asked twice by the rules, as it is, and in health with nothing on it. So there are three answers:
the pod fits, it would fit later, or it never will. What takes too long to work out is not answered. A pod
never fits where its selectors and tolerations keep it away; a node that is cordoned, not ready or ill counts
for later. Nodes that say the same make one group, since a person reads groups.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kubectl_numa.questions import Asked, Cluster
from numalign.cache import Question, dra
from numalign.decision import scoring, wording
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import Strategy
from numalign.decision.verdict import Verdict
from numalign.kube.decode import placements
from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.constraints import Constraints, Unmet, unmet_ever, unmet_now
from numalign.model.demand import Demand, Step
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.resources import Resources, render
from numalign.shapes import KnownShape
from numalign.shapes.health import missing_devices

PRESENT, REMEMBERED, DECLARED = "present", "remembered", "declared"
"""How a shape is known: by nodes that are here, by nodes that were, or because somebody says so."""


class Chance(StrEnum):
    """What becomes of a pod on a node, from best to worst."""

    FITS = "fits"
    LATER = "later"
    UNANSWERED = "not answered"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one node says.

    `unmet` is why the pod may not go there now, `lasting` whether that stays as long as the labels and taints
    of the node do. `score` is None where the pod does not fit now.
    """

    node: Node
    node_class: str
    verdict: Verdict
    score: int | None
    unmet: Unmet | None = None
    lasting: bool = False

    @property
    def chance(self) -> Chance:
        """The verdict in a word."""
        if self.lasting:
            return Chance.NEVER
        if not self.verdict.answered:
            return Chance.UNANSWERED
        if self.verdict.refused and self.verdict.permanent:
            return Chance.NEVER
        return Chance.FITS if self.verdict.admitted and not self.unmet else Chance.LATER

    @property
    def permanent(self) -> bool:
        """Whether nothing that ends or gets well on the node would change a no."""
        return self.chance is Chance.NEVER

    @property
    def reason(self) -> str | None:
        """Why not, in a sentence without a full stop for each thing that stands in the way."""
        told = "; ".join(self._reasons())
        return told or None

    def _reasons(self) -> Iterator[str]:
        if self.unmet:
            yield wording.kept_away(self.unmet, lasting=self.lasting)
            if self.lasting:
                return
        if self.verdict.refusal:
            yield wording.sentence(self.verdict)
        if self.missing and self.chance is Chance.LATER:
            yield f"it {wording.lacking(self.missing)}; in health it could"

    @property
    def missing(self) -> Resources:
        """The devices that the node lacks while it is ill."""
        return missing_devices(self.node)

    @property
    def placement(self) -> list[dict[str, Any]] | None:
        """The zones that the pod would get and what of them, as `numalign.io/placement` holds them."""
        if self.chance is not Chance.FITS:
            return None
        return placements.render(self.node, self.verdict.placement)


@dataclass(frozen=True, slots=True)
class Absent:
    """What a shape says of which no node is here; `unmet` is why the pod may go to no node of it."""

    known: KnownShape
    verdict: Verdict
    unmet: Unmet | None

    @property
    def chance(self) -> Chance:
        """The verdict in a word: nothing fits on a node that is not there."""
        if not self.verdict.answered:
            return Chance.UNANSWERED
        return Chance.NEVER if self.unmet or self.verdict.refused else Chance.LATER

    @property
    def reason(self) -> str | None:
        """Why not ever, in one sentence without a full stop."""
        if self.unmet:
            return f"its nodes {self.unmet}"
        return wording.sentence(self.verdict) if self.verdict.refusal else None


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one class that say the same, by name; `answer` is the first one's."""

    answer: Answer
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All answers to one pod, by name of the node, and those of shapes of which no node is here.

    `never` is why no node could ever take a pod that asks for no alignment, and that nobody refuses for it.
    """

    asked: Asked
    answers: tuple[Answer, ...]
    absent: tuple[Absent, ...]
    unknown: tuple[str, ...]
    never: str | None = None

    def count(self, chance: Chance) -> int:
        """How many nodes say this."""
        return sum(answer.chance is chance for answer in self.answers)


def explain(asked: Asked, cluster: Cluster, *, strategy: Strategy = Strategy.LEAST_NUMA_NODES) -> Explanation:
    """Ask every node; nodes in the same state are asked once."""
    answers = tuple(sorted(_answers(asked, cluster, strategy), key=lambda answer: answer.node.name))
    question = _question(asked, cluster)
    absent = tuple(_absent(question, asked.constraints, known) for known in cluster.shapes if not known.nodes)
    return Explanation(asked, answers, absent, cluster.unknown, _never(asked, cluster, answers, absent))


def _question(asked: Asked, cluster: Cluster) -> Question:
    """What is asked of each node, as the scorer asks it."""
    return dra.by_node(asked.question, cluster.served)


def _never(asked: Asked, cluster: Cluster, answers: Iterable[Answer], absent: Iterable[Absent]) -> str | None:
    """What all of them have against a pod that asks for nothing; what it may not go to says nothing."""
    refused = [each.verdict.refused and each.permanent and not each.lasting for each in answers]
    hopeless = refused and all(refused) and all(each.chance is Chance.NEVER for each in absent)
    if not hopeless or asked.question.intent.policy is not Policy.NONE:
        return None
    return cluster.fleet.why_not(_question(asked, cluster), asked.constraints)


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
        "pod": asked.name,
        "namespace": asked.namespace,
        "exempt": asked.exempt,
        "intent": _intent(asked),
        "demand": _demand(asked.demand),
        "nodes": [_answer(answer) for answer in explanation.answers],
        "shapes": [_absent_to_json(each) for each in explanation.absent],
        "unknown": list(explanation.unknown),
        "refusal": asked.decision.refusal,
        "never": explanation.never,
        "warnings": list(asked.decision.all_warnings),
    }


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them."""
    return {name: render(name, amount) for name, amount in amounts.items()}


def provenance(known: KnownShape) -> dict[str, Any]:
    """By what a shape is known, for programs, and when the last node of it was here."""
    seen = None if known.seen is None else datetime.fromtimestamp(known.seen, UTC).isoformat()
    if known.nodes:
        return {"known": PRESENT, "lastSeen": seen}
    return {"known": DECLARED if known.declared else REMEMBERED, "lastSeen": seen}


def _answers(asked: Asked, cluster: Cluster, strategy: Strategy) -> Iterator[Answer]:
    question, verdicts = _question(asked, cluster), dict[Node, tuple[Verdict, int | None]]()
    for node in cluster.fleet.nodes:
        state = _state(node)
        if state not in verdicts:
            verdict = evaluate(node, question.demand, question.intent)
            placed = verdict.placement if verdict.admitted else None
            value = None if placed is None else scoring.score(strategy, node, question.demand, placed)
            verdicts[state] = (verdict, value)
        verdict, value = verdicts[state]
        unmet = unmet_now(asked.constraints, node.name, node.attributes)
        lasting = unmet is not None and unmet_ever(asked.constraints, node.name, node.attributes) is not None
        score = None if unmet else value
        yield Answer(node, cluster.fleet.class_of(node), verdict, score, unmet, lasting)


def _state(node: Node) -> Node:
    """All of a node that decides about alignment."""
    health = None if node.health is None else _state(node.health)
    return replace(node, name="", label=None, attributes=NO_ATTRIBUTES, health=health)


def _absent(question: Question, where: Constraints, known: KnownShape) -> Absent:
    verdict = evaluate(known.shape.node, question.demand, question.intent)
    return Absent(known, verdict, known.shape.unmet(where))


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


def _absent_to_json(absent: Absent) -> dict[str, Any]:
    return {
        "name": absent.known.shape.name,
        "class": absent.known.shape.node_class,
        **provenance(absent.known),
        "verdict": absent.chance,
        "reason": absent.reason,
        "unmet": absent.unmet,
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "name": answer.node.name,
        "class": answer.node_class,
        "verdict": answer.chance,
        "reason": answer.reason,
        "permanent": answer.permanent,
        "unmet": answer.unmet,
        "lacks": quantities(answer.missing),
        "placement": answer.placement,
        "score": answer.score,
        "known": answer.verdict.known,
        "doubts": list(answer.verdict.doubts),
    }
