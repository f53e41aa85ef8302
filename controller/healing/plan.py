"""
A dry run of healing: which pods would be moved, where to, when at the earliest, and why.

All decisions are those of the controller; the places are held one after the other in a separate ledger.
The times follow from the rate limits alone and count from the moment at which a replica begins to lead.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from controller.gates.judging import unjudged
from controller.healing.eviction_limits import EvictionLimits, Rates
from controller.healing.healer import NO_BETTER_PLACE, Candidate, Healer
from controller.healing.moves import Moves
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from controller.healing.replacements import BetterPlaces
from controller.held import HeldPlaces
from numalign.decision.alignment import why
from numalign.kube.client import Query
from numalign.kube.cluster import Cluster
from numalign.kube.errors import Unconfigured
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.model.errors import BadInput
from numalign.model.intent import Match
from numalign.runtime import logs
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.node_fit import NodeFit
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import SchedulerState

_FOREVER = 1e18


class _NoApi:
    """Stands in for the API server: a plan writes nothing, and everything it needs was read before."""

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """Raise `Unconfigured`."""
        raise Unconfigured(f"{what} is not asked for: {path}, {query}, {most}")

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        """Raise `Unconfigured`."""
        raise Unconfigured(f"{what} is not made: {path}, {body}, {query}")


@dataclass(frozen=True, slots=True)
class HealingRules:
    """The configuration of healing."""

    policy: PolicyKeeper
    match: Match
    gates: bool
    rates: Rates


async def plan(
    cluster: Cluster, stored: Mapping[str, Object], rules: HealingRules, *, now: float
) -> tuple[str, ...]:
    """Return a line for each misaligned pod in a namespace with healing; `stored` has all pods by UID."""
    log = logs.to(io.StringIO(), level="error", form="text")
    state = SchedulerState(
        Reservations(kept=_FOREVER),
        cluster=cluster,
        policy=rules.policy,
        match=rules.match,
        clock=lambda: now,
        wall=lambda: now,
    )
    informer = PodInformer(state, state.reader, log=log, registry=CollectorRegistry())
    for raw in stored.values():
        informer.put(raw)
    nodes = NodeAnswers(state, unknown="cannot-fit", clock=lambda: now)
    alignments, held, owners = RunningPodAlignments(state), HeldPlaces(state, nodes, lambda: now), Owners()
    await alignments.judge()
    places = BetterPlaces(state, nodes, Ranker(RankingRules()), NodeFit(state).fits)
    healer = Healer(
        api=_NoApi(),
        state=state,
        alignments=alignments,
        places=places,
        held=held,
        # Rate limits block nothing here: `_Turns` computes the times.
        limits=EvictionLimits(Rates(0, 0, 0), now),
        owners=owners,
        moves=Moves(
            state=state,
            alignments=alignments,
            held=held,
            owners=owners,
            publish=lambda _event: None,
            log=log,
            registry=CollectorRegistry(),
            clock=lambda: now,
        ),
        gates=rules.gates,
        unplaceable=unjudged,
        written_until=lambda _uid: -_FOREVER,
        leading=lambda: False,
        acts_for=lambda: 0.0,
        publish=lambda _event: None,
        log=log,
        clock=lambda: now,
    )
    turns = _Turns(EvictionLimits(rules.rates, 0.0))
    lines = [await _line(candidate, healer, stored, turns) for candidate in [*healer.candidates()]]
    return tuple(lines) or ("no misaligned pod would be moved",)


@dataclass(slots=True)
class _Turns:
    """When pods would be evicted, in seconds from when a replica begins to lead."""

    limits: EvictionLimits
    last: float = 0.0

    def take(self, candidate: Candidate) -> float:
        owner, node = candidate.owner or ("", ""), candidate.pod_alignment.pod.node
        self.last = max(self.last, self.limits.due(owner, node))
        self.limits.take(owner, node, self.last)
        return self.last


async def _line(candidate: Candidate, healer: Healer, stored: Mapping[str, Object], turns: _Turns) -> str:
    pod = candidate.pod_alignment.pod
    name = f"pod {pod.namespace}/{pod.name} on {pod.node}"
    waits_for, better = candidate.waits_for and f"it waits for {candidate.waits_for}", None
    if not waits_for:
        better, waits_for = await _better(candidate, healer, stored[pod.uid])
    reason = why(candidate.pod_alignment.alignment)
    if better is None:
        return f"{name} is misaligned and stays, {waits_for}: {reason}"
    at = turns.take(candidate)
    return f"{name} would be moved to {better}, after {at:g} s at the earliest: {reason}"


async def _better(candidate: Candidate, healer: Healer, raw: Object) -> tuple[str | None, str]:
    """Hold a place for a pod and return its node; return None and why the pod stays if there is none."""
    pod = candidate.pod_alignment.pod
    if reason := healer.why_not_evict(raw):
        return None, reason
    try:
        pending = healer.places.replacement(raw, pod.uid, pod.node)
    except BadInput as error:
        return None, f"its replacement cannot be predicted: {error}"
    better = await healer.places.find(pending, other_than=pod.node)
    prediction = better and healer.places.prediction(better, pending)
    if not better or not prediction:
        return None, f"it waits for {NO_BETTER_PLACE}"
    healer.held.hold(pod, pending, better, prediction, until=_FOREVER)
    return better, ""
