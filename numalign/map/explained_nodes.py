"""
The answers of all nodes to one pod at one moment, as for the scorer and as `kubectl numa explain` words them.

All nodes are evaluated at once; the explanations are then composed in steps, with other tasks in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from numalign.cache.pace import Pace
from numalign.cache.ranking import Ranks
from numalign.decision.doubts import SENTENCES
from numalign.map.views import HeldInZones, WhatIfAnswer, WhatIfNode
from numalign.model.constraints import Constraints
from numalign.runtime.cooperative import TimeSlice, computed, patiently
from numalign.scheduling.node_explanation import (
    Chance,
    CurrentAnswers,
    NodeExplanation,
    Rules,
    current_answers,
)
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


async def explained_nodes(
    state: SchedulerState, ranker: Ranker, pod: PendingPod, constraints: Constraints
) -> ExplainedNodes:
    """Return the answers of all nodes to a pod with these constraints, by the current ledger."""
    await patiently(None for _left in state.cache.work_ahead(AT_ONCE, state.clock))

    def answered() -> tuple[CurrentAnswers, Ranks]:
        answers = current_answers(state, pod.question, constraints)
        return answers, ranker.ranks(answers.batch, state.labels, opted_out=pod.opted_out)

    answers, ranks = await computed(state.cache.pace, answered)
    rules, time_slice = Rules(pod.question, state.cache.pace), TimeSlice()
    by_chance: Mapping[Chance, list[NodeExplanation]] = {chance: [] for chance in Chance}
    for at in ranks.order(answers.batch.names):
        explanation = answers.explanation(at, rules)
        by_chance[explanation.chance].append(explanation)
        await time_slice.share()
    unknown = tuple(name for name in answers.cluster.unknown if name not in answers.kept_away)
    return ExplainedNodes(tuple(each for alike in by_chance.values() for each in alike), unknown)


async def shown_nodes(explained: Sequence[NodeExplanation], pace: Pace) -> tuple[WhatIfNode, ...]:
    """Return the answers of nodes, as shown."""
    nodes, time_slice = list[WhatIfNode](), TimeSlice()
    for at, explanation in enumerate(explained):
        shown = _shown(explanation)
        if at < MOST_DETAILED:
            shown = await computed(pace, partial(_detailed, explanation, shown))
        nodes.append(shown)
        await time_slice.share()
    return tuple(nodes)


def _shown(explanation: NodeExplanation) -> WhatIfNode:
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
