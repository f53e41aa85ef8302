"""
What every node says to one pod: the values, before anybody draws them.

A node is asked as it is, and in health with nothing on it. So there are three answers: the pod fits, it would
fit later, or it never will. What takes too long to work out is not answered. A pod never fits where its
selectors and tolerations keep it away; a node that is cordoned, not ready or ill counts for later. Nodes that
say the same make one group, since a person reads groups.

All nodes are asked at once, as the scorer asks them. What one of them has, and which zones the pod would get
there, the rules say of each node that somebody looks at.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from kubectl_numa.questions import ClusterView, NodeResult, PodDecision
from numalign.cache import Question
from numalign.decision import wording
from numalign.decision.doubts import Doubt, doubts
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import Strategy
from numalign.decision.verdict import Verdict
from numalign.kube.decode import placements
from numalign.kube.exporters import ExporterHealth
from numalign.kubelet.admit import effective_demand
from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.constraints import Unmet, unmet_ever, unmet_now
from numalign.model.intent import Exclusive, Policy
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


class Rules:
    """What the rules say to one question; nodes in the same state are asked once."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._verdicts: dict[Node, Verdict] = {}

    def verdict(self, node: Node) -> Verdict:
        """The verdict of a node."""
        state = _state(node)
        if state not in self._verdicts:
            self._verdicts[state] = evaluate(node, self._question.demand, self._question.intent)
        return self._verdicts[state]

    def doubts(self, node: Node) -> tuple[Doubt, ...]:
        """What could make a verdict on this state of a node wrong."""
        return doubts(node, effective_demand(node, self._question.demand))


@dataclass(frozen=True)
class NodeExplanation:
    """What one node says.

    `unmet` is why the pod may not go there now, `lasting` whether that stays as long as the labels and taints
    of the node do.
    """

    answer: NodeResult
    rules: Rules = field(repr=False)
    exporter: ExporterHealth
    unmet: Unmet | None = None
    lasting: bool = False

    @property
    def node(self) -> Node:
        """The node."""
        return self.answer.node

    @property
    def score(self) -> int | None:
        """How good the placement is, 0 to 100; None where the pod does not fit now."""
        return None if self.unmet else self.answer.score

    @cached_property
    def node_class(self) -> str:
        """The class of the node, in health."""
        return node_class(self.node)

    @cached_property
    def verdict(self) -> Verdict:
        """What the rules say of this very node."""
        return self.rules.verdict(self.node)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What could make the answer wrong; those of the verdict, without asking for that."""
        refusal = self.answer.refusal
        permanent = refusal is not None and refusal.permanent
        return self.rules.doubts(self.node.in_health() if permanent else self.node)

    @cached_property
    def chance(self) -> Chance:
        """The answer in a word."""
        refusal = self.answer.refusal
        if self.lasting:
            return Chance.NEVER
        if refusal is None:
            return Chance.LATER if self.unmet else Chance.FITS
        if not refusal.answered:
            return Chance.UNANSWERED
        return Chance.NEVER if refusal.permanent else Chance.LATER

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
        if self.answer.refusal is not None:
            yield wording.sentence(self.verdict)
        if self.missing and self.chance is Chance.LATER:
            yield f"it {wording.lacking(self.missing)}; in health it could"

    @property
    def kind_of_reason(self) -> str:
        """Why not, in words about all nodes that say no alike; empty where the pod fits."""
        if self.unmet is None:
            return self.answer.reason
        kinds = (self.unmet.value, "" if self.lasting else self.answer.reason)
        return " and ".join(filter(None, kinds))

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
            **told(self.exporter),
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
    `room` is what it would take for the pod to fit, in words, where it fits nowhere now and would later.
    """

    pod: PodDecision
    answers: tuple[NodeExplanation, ...]
    absent: tuple[ShapeAnswer, ...]
    unknown: tuple[str, ...]
    never: str | None = None
    room: str | None = None

    @property
    def only_later(self) -> bool:
        """Whether there are nodes that could take the pod, and none has room now."""
        return not self.count(Chance.FITS) and self.count(Chance.LATER) > 0

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
            "scheduler": pod.scheduler,
            "gate": pod.gate,
            "intent": intent
            and {
                "policy": intent.policy,
                "resources": list(intent.resources),
                "scope": intent.scope,
                "exclusive": Exclusive.ZONE if intent.exclusive else None,
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
            "room": self.room,
            "warnings": list(pod.decision.all_warnings),
        }


def explain(
    pod: PodDecision, cluster: ClusterView, *, strategy: Strategy = Strategy.LEAST_NUMA_NODES
) -> Explanation:
    """Ask every node."""
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
    refusing = [answer.permanent and not answer.lasting for answer in answers]
    hopeless = refusing and all(refusing) and all(answer.chance is Chance.NEVER for answer in absent)
    never = cluster.why_not(pod) if hopeless and pod.question.intent.policy is Policy.NONE else None
    return Explanation(pod, answers, absent, cluster.snapshot.unknown, never)


def _answers(pod: PodDecision, cluster: ClusterView, strategy: Strategy) -> Iterator[NodeExplanation]:
    rules, where = Rules(cluster.by_node(pod)), pod.constraints
    for answer in cluster.answers(pod, strategy):
        node = answer.node
        unmet = unmet_now(where, node.name, node.attributes)
        lasting = unmet is not None and unmet_ever(where, node.name, node.attributes) is not None
        yield NodeExplanation(answer, rules, cluster.exporter(node), unmet, lasting)


def _state(node: Node) -> Node:
    """All of a node that decides about alignment."""
    health = None if node.health is None else _state(node.health)
    return replace(node, name="", label=None, attributes=NO_ATTRIBUTES, health=health)


def groups(answers: Iterable[NodeExplanation]) -> Iterator[NodeGroup]:
    """Answers that differ only in the node's name, put together; the best first.

    The rules are asked about the nodes of a group when its turn comes.
    """
    ranked = defaultdict[_Rank, list[NodeExplanation]](list)
    for answer in answers:
        ranked[_rank(answer)].append(answer)
    for _, equal in sorted(ranked.items()):
        alike = defaultdict[object, list[NodeExplanation]](list)
        for answer in equal:
            alike[answer.reason, repr(answer.placement)].append(answer)
        same = [NodeGroup(group[0], tuple(each.node.name for each in group)) for group in alike.values()]
        yield from sorted(same, key=lambda group: group.names)


_Rank = tuple[int, int, str]
"""By the place of the chance, then the best score first, then the class."""


def _rank(answer: NodeExplanation) -> _Rank:
    return _PLACES[answer.chance], -(answer.score or 0), answer.node_class


_PLACES = {chance: place for place, chance in enumerate(Chance)}


def counted_by_reason(answers: Iterable[NodeExplanation]) -> list[tuple[int, Chance, str]]:
    """How many nodes say what and for which kind of reason, the best chance first, then the most nodes."""
    counts = Counter((answer.chance, answer.kind_of_reason) for answer in answers)
    ranked = sorted(counts.items(), key=lambda item: (_PLACES[item[0][0]], -item[1], item[0][1]))
    return [(count, chance, reason) for (chance, reason), count in ranked]


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them."""
    return {name: render(name, amount) for name, amount in amounts.items()}


def told(exporter: ExporterHealth) -> dict[str, Any]:
    """Who tells of a node, and how many seconds ago its agent looked, for programs."""
    return {"source": exporter.source, "age": None if exporter.age is None else int(exporter.age)}


def provenance(shape: KnownShape) -> dict[str, Any]:
    """By what a shape is known, for programs, and when the last node of it was here."""
    last_seen = None if shape.seen is None else datetime.fromtimestamp(shape.seen, UTC).isoformat()
    if shape.nodes:
        return {"known": PRESENT, "lastSeen": last_seen}
    return {"known": DECLARED if shape.declared else REMEMBERED, "lastSeen": last_seen}
