"""
The answers of all nodes to one pod at one moment, as for the scorer and as `kubectl numa explain` words them.

All nodes are evaluated at once; the explanations are then composed in steps, with other tasks in between.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from numalign.cache.question import Question
from numalign.cache.scheduler_cache import NotEligible
from numalign.decision import wording
from numalign.decision.doubts import SENTENCES
from numalign.decision.scoring import EVEN, Strategy
from numalign.decision.verdict import Verdict
from numalign.kube import exporters
from numalign.kube.cluster_state import Snapshot
from numalign.ledger.rearrangement import Rearrangement
from numalign.map.views import HeldInZones, WhatIfAnswer, WhatIfNode
from numalign.model.constraints import Constraints
from numalign.model.demand import Demand
from numalign.model.node import Node
from numalign.runtime.cooperative import TimeSlice, patiently
from numalign.scheduling.node_explanation import Chance, NodeExplanation, NodeResult, Rules
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import AT_ONCE, PendingPod, SchedulerState

MOST_DETAILED = 1000
"""Most nodes, the best first, to explain in detail: the zones that the pod would get, or what exactly they
lack. The reasons of others are those for a scheduler, which many nodes share."""

ANSWERS: Mapping[Chance, WhatIfAnswer] = MappingProxyType(
    {
        Chance.FITS: WhatIfAnswer.FITS,
        Chance.LATER: WhatIfAnswer.NOT_NOW,
        Chance.UNANSWERED: WhatIfAnswer.NOT_ANSWERED,
        Chance.NEVER: WhatIfAnswer.NEVER,
    }
)


@dataclass(frozen=True, slots=True)
class ExplainedNodes:
    """The answers of nodes, the best chance first, then in the order of the scorer.

    `unknown` are the names of nodes without topology that the pod may go to.
    """

    by_rank: tuple[NodeExplanation, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _AtOnce:
    """What was computed at once: the nodes, their `order`, and the score or refusal of each."""

    nodes: Sequence[Node]
    order: Sequence[int]
    codes: Sequence[int]
    scores: Sequence[int]
    refusals: Mapping[int, tuple[Verdict, str]]
    kept_away: Mapping[str, NotEligible]
    snapshot: Snapshot
    wall: float

    def result(self, at: int) -> NodeResult:
        """Return the answer of the node at a position."""
        node, refused = self.nodes[at], self.refusals.get(self.codes[at])
        return NodeResult(node, None, *refused) if refused else NodeResult(node, self.scores[at])

    def explanation(self, at: int, rules: Rules) -> NodeExplanation:
        """Return the same as an explanation for people."""
        name = self.nodes[at].name
        exporter, away = exporters.of_node(self.snapshot, name, now=self.wall), self.kept_away.get(name)
        unmet, lasting = (away.unmet, away.lasting) if away else (None, False)
        return NodeExplanation(self.result(at), rules, exporter, unmet, lasting)


async def explained_nodes(
    state: SchedulerState, ranker: Ranker, pod: PendingPod, constraints: Constraints
) -> ExplainedNodes:
    """Return the answers of all nodes to a pod with these constraints, by the current ledger."""
    await patiently(_work(state, pod.question))
    at_once, rules, time_slice = _at_once(state, ranker, pod, constraints), Rules(pod.question), TimeSlice()
    by_chance: Mapping[Chance, list[NodeExplanation]] = {chance: [] for chance in Chance}
    for at in at_once.order:
        explanation = at_once.explanation(at, rules)
        by_chance[explanation.chance].append(explanation)
        await time_slice.share()
    unknown = tuple(name for name in at_once.snapshot.unknown if name not in at_once.kept_away)
    return ExplainedNodes(tuple(each for alike in by_chance.values() for each in alike), unknown)


def _work(state: SchedulerState, question: Question) -> Iterator[None]:
    """Compute in steps what the nodes then answer at once; that is a lot if nothing was computed ahead."""
    yield from (None for _left in state.cache.work_ahead(AT_ONCE, state.clock))
    yield from state.cache.work(tuple(state.reservations.node_names()), question, now=state.clock())


def _at_once(state: SchedulerState, ranker: Ranker, pod: PendingPod, constraints: Constraints) -> _AtOnce:
    """Return all answers without a break, so that all nodes answer for the same moment."""
    now = state.clock()
    every = (state.reservations.free_capacity(name, now=now) for name in state.reservations.node_names())
    nodes = [free.node for free in every if free]
    names = [node.name for node in nodes]
    batch = state.cache.ask(names, pod.question, now=now)
    ranks = ranker.ranks(batch, state.labels, opted_out=pod.opted_out)
    return _AtOnce(
        nodes,
        ranks.order(names),
        batch.codes.tolist(),
        batch.scores(Strategy.LEAST_NUMA_NODES, EVEN).tolist(),
        {code: (refusal, wording.reason(refusal)) for code, refusal in batch.refusals.items()},
        state.cache.not_eligible(tuple(state.node_names()), constraints, now=now),
        state.snapshot or Snapshot(),
        state.wall(),
    )


async def shown_nodes(
    state: SchedulerState, explained: Sequence[NodeExplanation], demand: Demand
) -> tuple[WhatIfNode, ...]:
    """Return the answers of nodes, as shown."""
    nodes, time_slice = list[WhatIfNode](), TimeSlice()
    ledger = Rearrangement(state.reservations, state.clock())
    for at, explanation in enumerate(explained):
        shown = _shown(explanation, has_room=ledger.fits(explanation.node.name, demand))
        if at < MOST_DETAILED:
            await patiently(explanation.rules.work(explanation.node))
            shown = _detailed(explanation, shown)
        nodes.append(shown)
        await time_slice.share()
    return tuple(nodes)


def _shown(explanation: NodeExplanation, *, has_room: bool) -> WhatIfNode:
    """Return the answer of a node without details."""
    return WhatIfNode(
        explanation.node.name,
        explanation.node_class,
        ANSWERS[explanation.chance],
        explanation.kind_of_reason,
        explanation.score,
        placement=(),
        zones=(),
        doubts=(),
        has_room=has_room,
    )


def _detailed(explanation: NodeExplanation, shown: WhatIfNode) -> WhatIfNode:
    """Return the same with the node's own reason, or the zones that the pod would get there."""
    kept = explanation.verdict.placement.kept if explanation.chance is Chance.FITS else {}
    names = {zone.id: zone.name for zone in explanation.node.zones}
    placement = (HeldInZones(tuple(names[zone] for zone in zones), kept[zones]) for zones in sorted(kept))
    return replace(
        shown,
        reason=explanation.reason or "",
        placement=tuple(placement),
        zones=tuple(sorted({zone for zones in kept for zone in zones})),
        doubts=tuple(SENTENCES[doubt] for doubt in explanation.doubts),
    )
