"""
The answer of one node for a pod: whether it fits, why not, and which zones it would get.

A node is evaluated in its current state, and healthy and empty. So there are three answers: the pod fits, it
would fit later, or it never will. An evaluation that takes too long is not answered. A pod never fits where
its selectors and tolerations keep it away; a node that is cordoned, not ready or degraded counts for later.

Many nodes are evaluated at once, as the scorer does, and `kubectl numa explain` and the map explain the same
answers. The details of one node, and which zones the pod would get there, are computed for each on demand.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from numalign.cache import Question
from numalign.cache.batch import Batch
from numalign.cache.pace import Pace
from numalign.cache.scheduler_cache import NotEligible
from numalign.decision import scoring, unmatched, wording
from numalign.decision.doubts import Doubt, doubts
from numalign.decision.evaluate import evaluating
from numalign.decision.scoring import EVEN, Strategy
from numalign.decision.verdict import Verdict
from numalign.kube import exporters
from numalign.kube.cluster import Cluster
from numalign.kube.decode import placements
from numalign.kube.decode.recreated import without_classes
from numalign.kube.exporters import ExporterHealth
from numalign.kubelet.admit import effective_demand
from numalign.ledger.rearrangement import Rearrangement
from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.constraints import ANYWHERE, Constraints, Unmet
from numalign.model.node import Node, node_class
from numalign.model.resources import EMPTY, Resources, quantities
from numalign.scheduling.scheduler_state import SchedulerState
from numalign.shapes.health import missing_devices


class NodeResult(NamedTuple):
    """The answer of one node: the score of the placement, 0 to 100, or its refusal, as shared by many.

    `reason` describes all nodes with the same refusal, empty if the pod is admitted.
    """

    node: Node
    score: int | None = None
    refusal: Verdict | None = None
    reason: str = ""


class Chance(StrEnum):
    """The chance of a pod on a node, from best to worst."""

    FITS = "fits"
    LATER = "later"
    UNANSWERED = "not answered"
    NEVER = "never"


PLACES: Mapping[Chance, int] = MappingProxyType({chance: place for place, chance in enumerate(Chance)})
"""The position of each chance, the best first."""


class Rules:
    """The verdicts for one question; nodes in the same state are evaluated once."""

    def __init__(self, question: Question, pace: Pace | None = None) -> None:
        self._question = question
        self._pace = pace or Pace()
        self._verdicts: dict[Node, Verdict] = {}

    def verdict(self, node: Node) -> Verdict:
        """Return the verdict of a node."""
        state = _state(node)

        def evaluate() -> Iterator[None]:
            self._verdicts[state] = yield from evaluating(node, self._question.demand, self._question.intent)

        if state not in self._verdicts:
            self._pace.do(state, evaluate())
        return self._verdicts[state]

    def why_scored(self, node: Node, strategy: Strategy) -> str:
        """Return why a node that admits the pod has its score, as words that follow it."""
        return scoring.why(strategy, node, self._question.demand, self.verdict(node).placement)

    def doubts(self, node: Node) -> tuple[Doubt, ...]:
        """Return what could make a verdict on this state of a node wrong."""
        return doubts(node, effective_demand(node, self._question.demand))


@dataclass(frozen=True)
class NodeExplanation:
    """The answer of one node, explained.

    `unmet` is why the pod may not go there now, `lasting` whether that holds as long as the labels and taints
    of the node do. `constraints` are those of the pod. `short` is what the node as a whole lacks by the rule
    of kube-scheduler, whatever its zones have.
    """

    answer: NodeResult
    rules: Rules = field(repr=False)
    exporter: ExporterHealth
    unmet: Unmet | None = None
    lasting: bool = False
    short: Resources = EMPTY
    constraints: Constraints = field(default=ANYWHERE, repr=False)

    @property
    def node(self) -> Node:
        """The node."""
        return self.answer.node

    @property
    def score(self) -> int | None:
        """The score of the placement, 0 to 100; None if the pod does not fit now."""
        return self.answer.score if self.chance is Chance.FITS else None

    @cached_property
    def node_class(self) -> str:
        """The class of the node when healthy."""
        return node_class(self.node)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on exactly this node."""
        return self.rules.verdict(self.node)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What could make the answer wrong; as for the verdict, without computing it."""
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
            return Chance.LATER if self.unmet or self.short else Chance.FITS
        if not refusal.answered:
            return Chance.UNANSWERED
        return Chance.NEVER if refusal.permanent else Chance.LATER

    @property
    def permanent(self) -> bool:
        """Whether no change of pods or health on the node would change a refusal."""
        return self.chance is Chance.NEVER

    @property
    def reason(self) -> str | None:
        """Why not, one sentence without a full stop for each obstacle."""
        reasons = list[str]()
        if self.unmet:
            labels = ""
            if self.unmet is Unmet.AFFINITY:
                labels = unmatched.lacking(self.constraints, {self.node.name: self.node.attributes.labels})
            away = wording.kept_away(self.unmet, lasting=self.lasting)
            reasons.append(f"{away}: it has no {labels}" if labels else away)
            if self.lasting:
                return reasons[0]
        if self.answer.refusal is not None:
            reasons.append(wording.sentence(self.verdict))
            if self.verdict.not_when_empty:
                reasons.append("an empty node would refuse it too")
        if self.chance is Chance.LATER:
            if self.short:
                reasons.append(f"the node {wording.short_as_a_whole(self.short)}")
            if self.missing:
                reasons.append(f"it {wording.lacking(self.missing)}; it could when healthy")
        return "; ".join(reasons) or None

    @property
    def kind_of_reason(self) -> str:
        """Why not, in words for all nodes with the same reason; empty if the pod fits."""
        lacking = self.short and self.chance is Chance.LATER
        short = f"lack {', '.join(self.short)} beside what their pods request" if lacking else ""
        kinds = (self.unmet, "" if self.lasting else self.answer.reason, short)
        return " and ".join(filter(None, kinds))

    @property
    def missing(self) -> Resources:
        """The devices that the node lacks while it is degraded."""
        return missing_devices(self.node)

    @property
    def placement(self) -> list[dict[str, Any]] | None:
        """The zones that the pod would get and the amounts, in the form of `numalign.io/placement`."""
        if self.chance is not Chance.FITS:
            return None
        return placements.render(self.node, self.verdict.placement)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON."""
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
            **self.exporter.to_json(),
            "doubts": list(self.verdict.doubts),
        }


def counted_by_reason(answers: Iterable[NodeExplanation]) -> list[tuple[int, Chance, str]]:
    """Return the number of nodes by answer and kind of reason, the best chance first, then the most nodes."""
    counts = Counter((answer.chance, answer.kind_of_reason) for answer in answers)
    ranked = sorted(counts.items(), key=lambda item: (PLACES[item[0][0]], -item[1], item[0][1]))
    return [(count, chance, reason) for (chance, reason), count in ranked]


def _state(node: Node) -> Node:
    """Return all of a node that matters for alignment."""
    health = None if node.health is None else _state(node.health)
    return replace(node, name="", label=None, attributes=NO_ATTRIBUTES, health=health)


@dataclass(frozen=True, slots=True)
class CurrentAnswers:
    """The answers of the `nodes` as they are now, in the order of the `batch`; to be explained one by one.

    `kept_away` are nodes where the pod may not run. `excluded` are those without the classes that the webhook
    excludes: of them the nodes themselves say why.
    """

    nodes: Sequence[Node]
    batch: Batch
    kept_away: Mapping[str, NotEligible]
    excluded: Mapping[str, NotEligible]
    own_constraints: Constraints
    cluster: Cluster
    _ledger: Rearrangement
    _wall: float
    _codes: Sequence[int]
    _scores: Sequence[int]
    _refusals: Mapping[int, tuple[Verdict, str]]

    def explanation(self, at: int, rules: Rules) -> NodeExplanation:
        """Return the answer of the node at a position, explained by the rules for the same question."""
        node, refused = self.nodes[at], self._refusals.get(self._codes[at])
        name = node.name
        result = NodeResult(node, None, *refused) if refused else NodeResult(node, self._scores[at])
        away = (self.excluded if refused and refused[0].permanent else self.kept_away).get(name)
        exporter = exporters.of_node(self.cluster, name, now=self._wall)
        unmet, lasting = (away.unmet, away.lasting) if away else (None, False)
        short = self._ledger.short_of(name, self.batch.question.demand)
        return NodeExplanation(result, rules, exporter, unmet, lasting, short, self.own_constraints)


def current_answers(
    state: SchedulerState,
    question: Question,
    constraints: Constraints,
    *,
    strategy: Strategy = Strategy.LEAST_NUMA_NODES,
    uid: str = "",
) -> CurrentAnswers:
    """Return all answers without a break, so that all nodes answer for the same moment.

    The pod with this `uid`, if it is known already, does not take room from itself.
    """
    now, names, everywhere = state.clock(), tuple(state.node_names()), without_classes(constraints)
    every = (state.reservations.free_capacity(name, now=now) for name in state.reservations.node_names())
    nodes = [free.node for free in every if free]
    batch = state.cache.ask([node.name for node in nodes], question, now=now, uid=uid)
    if batch.own:
        nodes[batch.own.position] = batch.own.node
    own = state.reservations.node_of(uid)
    ledger = Rearrangement(state.reservations, now)
    return CurrentAnswers(
        nodes,
        batch,
        state.cache.not_eligible(names, constraints, now=now),
        state.cache.not_eligible(names, everywhere, now=now),
        everywhere,
        state.cluster,
        ledger.leaving(own, (uid,)) if own else ledger,
        state.wall(),
        batch.codes.tolist(),
        batch.scores(strategy, EVEN).tolist(),
        {code: (refusal, wording.reason(refusal)) for code, refusal in batch.refusals.items()},
    )
