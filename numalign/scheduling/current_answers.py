"""
The answers of all nodes to one question at one moment, by the current ledger.

`kubectl numa explain` and the map explain the same answers, which are those of the scorer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numalign.cache.batch import Batch
from numalign.cache.question import Question
from numalign.cache.scheduler_cache import NotEligible
from numalign.decision import wording
from numalign.decision.scoring import EVEN, Strategy
from numalign.decision.verdict import Verdict
from numalign.kube import exporters
from numalign.kube.cluster import Cluster
from numalign.kube.decode.recreated import without_classes
from numalign.ledger.rearrangement import Rearrangement
from numalign.model.constraints import Constraints
from numalign.model.node import Node
from numalign.scheduling.node_explanation import NodeExplanation, NodeResult, Rules
from numalign.scheduling.scheduler_state import SchedulerState


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
    """
    Return all answers without a break, so that all nodes answer for the same moment.

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
