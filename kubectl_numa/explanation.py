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

from kubectl_numa.questions import ClusterView, PodDecision
from numalign.decision import scoring, wording
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import Strategy
from numalign.decision.verdict import Verdict
from numalign.kube.decode import placements
from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.constraints import Unmet, unmet_ever, unmet_now
from numalign.model.intent import Policy
from numalign.model.node import Node, node_class
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
class NodeExplanation:
    """What one node says.

    `unmet` is why the pod may not go there now, `lasting` whether that stays as long as the labels and taints
    of the node do. `score` is None where the pod does not fit now.
    """

    node: Node
    verdict: Verdict
    score: int | None
    unmet: Unmet | None = None
    lasting: bool = False

    @property
    def node_class(self) -> str:
        """The class of the node, in health."""
        return node_class(self.node)

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
        return "; ".join(self._reasons()) or None

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

    def to_json(self) -> dict[str, Any]:
        """The answer for programs."""
        return {
            "name": self.node.name,
            "class": self.node_class,
            "verdict": self.chance,
            "reason": self.reason,
            "permanent": self.permanent,
            "unmet": self.unmet,
            "lacks": quantities(self.missing),
            "placement": self.placement,
            "score": self.score,
            "known": self.verdict.known,
            "doubts": list(self.verdict.doubts),
        }


@dataclass(frozen=True, slots=True)
class ShapeAnswer:
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

    def to_json(self) -> dict[str, Any]:
        """The answer for programs."""
        return {
            "name": self.known.shape.name,
            "class": self.known.shape.node_class,
            **provenance(self.known),
            "verdict": self.chance,
            "reason": self.reason,
            "unmet": self.unmet,
        }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one class that say the same, by name; `answer` is the first one's."""

    answer: NodeExplanation
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All answers to one pod, by name of the node, and those of shapes of which no node is here.

    `never` is why no node could ever take a pod that asks for no alignment, and that nobody refuses for it.
    """

    pod: PodDecision
    answers: tuple[NodeExplanation, ...]
    absent: tuple[ShapeAnswer, ...]
    unknown: tuple[str, ...]
    never: str | None = None

    def count(self, chance: Chance) -> int:
        """How many nodes say this."""
        return sum(answer.chance is chance for answer in self.answers)

    def to_json(self) -> dict[str, Any]:
        """The explanation for programs."""
        pod, intent, demand = self.pod, self.pod.intent, self.pod.demand
        return {
            "pod": pod.name,
            "namespace": pod.namespace,
            "exempt": pod.exempt,
            "intent": intent
            and {
                "policy": intent.policy,
                "resources": list(intent.resources),
                "scope": intent.scope,
                "from": pod.by,
            },
            "demand": {
                "qos": demand.qos,
                "containers": [
                    {
                        "name": step.container,
                        "role": step.role,
                        "asks": quantities(step.asks),
                        "notPinned": list(step.loose),
                    }
                    for step in demand.steps
                ],
                "total": quantities(demand.total),
            },
            "nodes": [answer.to_json() for answer in self.answers],
            "shapes": [answer.to_json() for answer in self.absent],
            "unknown": list(self.unknown),
            "refusal": pod.decision.refusal,
            "never": self.never,
            "warnings": list(pod.decision.all_warnings),
        }


def explain(
    pod: PodDecision, cluster: ClusterView, *, strategy: Strategy = Strategy.LEAST_NUMA_NODES
) -> Explanation:
    """Ask every node; nodes in the same state are asked once."""
    question = cluster.by_node(pod)
    answers = tuple(sorted(_answers(pod, cluster, strategy), key=lambda answer: answer.node.name))
    absent = tuple(
        ShapeAnswer(
            shape,
            evaluate(shape.shape.node, question.demand, question.intent),
            shape.shape.unmet(pod.constraints),
        )
        for shape in cluster.snapshot.shapes
        if not shape.nodes
    )
    # What the pod may not go to has nothing against it.
    refusing = [answer.verdict.refused and answer.permanent and not answer.lasting for answer in answers]
    hopeless = refusing and all(refusing) and all(answer.chance is Chance.NEVER for answer in absent)
    never = cluster.why_not(pod) if hopeless and pod.question.intent.policy is Policy.NONE else None
    return Explanation(pod, answers, absent, cluster.snapshot.unknown, never)


def _answers(pod: PodDecision, cluster: ClusterView, strategy: Strategy) -> Iterator[NodeExplanation]:
    question, verdicts = cluster.by_node(pod), dict[Node, tuple[Verdict, int | None]]()
    for node in cluster.snapshot.nodes:
        state = _state(node)
        if state not in verdicts:
            verdict = evaluate(node, question.demand, question.intent)
            placed = verdict.placement if verdict.admitted else None
            value = None if placed is None else scoring.score(strategy, node, question.demand, placed)
            verdicts[state] = (verdict, value)
        verdict, value = verdicts[state]
        unmet = unmet_now(pod.constraints, node.name, node.attributes)
        lasting = unmet is not None and unmet_ever(pod.constraints, node.name, node.attributes) is not None
        yield NodeExplanation(node, verdict, None if unmet else value, unmet, lasting)


def _state(node: Node) -> Node:
    """All of a node that decides about alignment."""
    health = None if node.health is None else _state(node.health)
    return replace(node, name="", label=None, attributes=NO_ATTRIBUTES, health=health)


def groups(answers: Iterable[NodeExplanation]) -> list[NodeGroup]:
    """Answers that differ only in the node's name, put together; the best first."""
    alike: dict[tuple[object, ...], list[NodeExplanation]] = {}
    for answer in answers:
        key = (answer.node_class, answer.chance, answer.reason, answer.score, repr(answer.placement))
        alike.setdefault(key, []).append(answer)
    same = [NodeGroup(group[0], tuple(answer.node.name for answer in group)) for group in alike.values()]
    return sorted(same, key=_best_first)


def _best_first(group: NodeGroup) -> tuple[int, int, str, tuple[str, ...]]:
    order = list(Chance).index(group.answer.chance)
    return (order, -(group.answer.score or 0), group.answer.node_class, group.names)


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them."""
    return {name: render(name, amount) for name, amount in amounts.items()}


def provenance(shape: KnownShape) -> dict[str, Any]:
    """By what a shape is known, for programs, and when the last node of it was here."""
    last_seen = None if shape.seen is None else datetime.fromtimestamp(shape.seen, UTC).isoformat()
    if shape.nodes:
        return {"known": PRESENT, "lastSeen": last_seen}
    return {"known": DECLARED if shape.declared else REMEMBERED, "lastSeen": last_seen}
