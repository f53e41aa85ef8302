"""
A dry run of healing: which pods would be moved, where to, when at the earliest, and why.

All decisions are those of the controller; the places are held one after the other in a separate ledger.
The times follow from the rate limits alone and count from the moment at which a replica begins to lead.
"""

import io
from collections.abc import Mapping
from typing import cast

from prometheus_client import CollectorRegistry

from controller.gates.judging import unjudged
from controller.healing.eviction_limits import EvictionLimits, Rates
from controller.healing.healer import NO_BETTER_PLACE, Candidate, Healer
from controller.healing.moves import Moves
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from controller.healing.replacements import BetterPlaces
from controller.held import HeldPlaces
from controller.settings import ControllerSettings
from numalign.decision.alignment import why
from numalign.kube.client import Api
from numalign.kube.cluster import Cluster
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.model.errors import BadInput
from numalign.runtime import logs
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.node_fit import NodeFit
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import SchedulerState

_FOREVER = 1e18


async def plan(
    cluster: Cluster,
    stored: Mapping[str, Object],
    settings: ControllerSettings,
    policy: PolicyKeeper,
    *,
    now: float,
) -> tuple[str, ...]:
    """Return a line for each misaligned pod in a namespace with healing; `stored` has all pods by UID."""
    log = logs.to(io.StringIO(), level="error", form="text")
    state = SchedulerState(
        Reservations(kept=_FOREVER),
        cluster=cluster,
        policy=policy,
        match=settings.policy_match,
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
        # A plan writes nothing, and everything it needs was read before.
        api=cast("Api", None),
        state=state,
        alignments=alignments,
        places=places,
        held=held,
        # Rate limits block nothing here: the times are computed below.
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
        gates=settings.gates,
        unplaceable=unjudged,
        written_until=lambda _uid: -_FOREVER,
        leading=lambda: False,
        acts_for=lambda: 0.0,
        publish=lambda _event: None,
        log=log,
        clock=lambda: now,
    )
    # Seconds from when a replica begins to lead.
    limits, at = EvictionLimits(Rates.of(settings), 0.0), 0.0
    lines: list[str] = []
    for candidate in [*healer.candidates()]:
        pod, reason = candidate.pod_alignment.pod, why(candidate.pod_alignment.alignment)
        name, owner = f"pod {pod.namespace}/{pod.name} on {pod.node}", candidate.owner or ("", "")
        better, waits_for = await _better(candidate, healer, stored[pod.uid])
        if better is None:
            lines.append(f"{name} is misaligned and stays, {waits_for}: {reason}")
            continue
        at = max(at, limits.due(owner, pod.node))
        limits.take(owner, pod.node, at)
        lines.append(f"{name} would be moved to {better}, after {at:g} s at the earliest: {reason}")
    return tuple(lines) or ("no misaligned pod would be moved",)


async def _better(candidate: Candidate, healer: Healer, raw: Object) -> tuple[str | None, str]:
    """Hold a place for a pod and return its node; return None and why the pod stays if there is none."""
    if candidate.waits_for:
        return None, f"it waits for {candidate.waits_for}"
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
