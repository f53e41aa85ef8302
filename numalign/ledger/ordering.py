"""
Predictions for a pod, whichever pods the kubelet admits or releases first.

A kubelet admits pods in the order in which they were bound, but sorts pods that arrive together by the second
of their creation (HandlePodAdditions of pkg/kubelet/kubelet.go), and it releases a pod before the API server
is notified of its end. So all possible orders are tried, as far as the work is small enough.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, permutations
from math import factorial, perm

from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.verdict import Verdict
from numalign.kubelet import admit as kubelet
from numalign.kubelet import work_limit
from numalign.ledger import claims
from numalign.ledger.arithmetic import named, same
from numalign.ledger.free import free_capacity, nowhere_alone
from numalign.ledger.model import (
    SEEN,
    AssignedPod,
    Basis,
    FreeCapacity,
    NodeInfo,
    PlacementRecord,
    Prediction,
    Source,
)
from numalign.model.bitset import union
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node
from numalign.model.placement import Held

MOST_PENDING = 3
"""The limit of pods in unknown order: n pods have n! orders to try."""

MOST_TRIED = 2 * work_limit.LIMIT
"""The limit of work to try what else could have happened; beyond it the result is unknown."""

_Expected = tuple[Demand | None, Held | None]
"""The demand of a pod, and what it is expected to get."""


def predict(  # noqa: PLR0913  a node, a pod, and the time
    info: NodeInfo,
    demand: Demand,
    intent: Intent = NO_INTENT,
    *,
    created: int = 0,
    now: float,
    lag: float,
    free: FreeCapacity | None = None,
) -> Prediction:
    """Return the prediction for a pod that was `created` then; `free` is its free capacity, if known.

    A pod waits for the pending pods of the node unless each was created before it, or all get the same places
    in every order.
    """
    current = free or free_capacity(info, now=now, lag=lag)
    verdict = evaluate(current.node, demand, intent)
    if not verdict.admitted:
        return Prediction(current.node, verdict, current.basis)
    placement, record = verdict.placement, None
    kept = named(placement.kept, current.node)
    if current.exact and not any(grant.chosen for grant in placement.grants):
        # What init containers leave behind stays with the pod; an assumed machine has no ids of CPUs.
        grants = (*placement.grants, *filter(None, (placement.whole,)))
        cpus = union(grant.cpus for grant in grants) if current.node.machine else None
        record = PlacementRecord(kept, Source.PREDICTED, cpus=cpus)
    if not claims.holds(info.node, demand):
        return Prediction(current.node, verdict, current.basis, held=kept, record=record)
    # Pending pods with predicted places that the kubelet may admit after this one.
    waits_for = tuple(
        pod
        for pod in current.pending
        if pod.expected is not None and ((pod.unconfirmed and pod.reserved) or pod.created >= created)
    )
    if waits_for:
        before = free_capacity(info.without(pod.uid for pod in waits_for), now=now, lag=lag)
        wanted = [*((pod.demand, pod.expected) for pod in waits_for), (demand, kept)]
        if before.exact and len(waits_for) <= MOST_PENDING and _in_any_order(before.node, wanted):
            waits_for = ()
    leavers = tuple(pod for pod in info.assigned_pods if pod.terminating and pod.holds(info.node))
    after: Sequence[Node] | None = None
    if len(leavers) <= MOST_PENDING and _triable(info.node, [demand], 2 ** len(leavers)):
        uids = [pod.uid for pod in leavers]
        gone = (some for count in range(1, len(uids) + 1) for some in combinations(uids, count))
        after = [free_capacity(info.after(some), now=now, lag=lag).node for some in gone]
    if after is not None and all(_count_as_expected(node, [(demand, kept)]) for node in after):
        leavers = ()
    elif (refused := _shared_by_then(current.node, after, demand, intent)) is not None:
        return Prediction(current.node, refused, current.basis)
    return Prediction(
        current.node, verdict, current.basis, waits_for, leavers, kept, None if leavers else record
    )


def _shared_by_then(
    node: Node, after: Sequence[Node] | None, demand: Demand, intent: Intent
) -> Verdict | None:
    """Return the refusal of a pod that would share exclusive zones, if some pods have left by then.

    If that cannot be tried, only an exclusive pod is refused, unless no other pod is there.
    """
    if not (node.exclusive or intent.exclusive):
        return None
    tried = [nowhere_alone(node)] if after is None and intent.exclusive else after or ()
    verdicts = (evaluate(each, demand, intent) for each in tried)
    return next((verdict for verdict in verdicts if verdict.refused), None)


def doubted(info: NodeInfo, leaver: str, *, now: float, within: float) -> tuple[str, ...]:
    """Return the uids of pods that may have other zones than expected, because a pod has left.

    A kubelet releases a pod before the API server is notified of its end. Pods that it admitted in the last
    `within` seconds may already have got the room of the `leaver`; their records hold only if that makes no
    difference, neither for them nor for those that came before them.
    """
    if not any(pod.uid == leaver and pod.holds(info.node) for pod in info.assigned_pods):
        return ()
    late = _late(info, leaver, since=now - within)
    before = free_capacity(info.without(pod.uid for pod in late).after([leaver]), now=now, lag=0.0)
    sure = _surely_there(before.node, late) if before.basis is Basis.OBSERVED else frozenset[str]()
    return tuple(pod.uid for pod in late if pod.uid not in sure)


def at_risk(
    info: NodeInfo, demand: Demand, intent: Intent = NO_INTENT, *, now: float, within: float
) -> tuple[AssignedPod, ...]:
    """Return recently admitted pods that may be on other zones, so that this one would be refused.

    Until the end of a pod is reported, its room may have gone to one that came after it, which then left free
    what was expected of it. So with any single pod gone before they came, the late ones and this one after
    them have to be admitted all the same; otherwise this one waits until they are no longer late. An
    exclusive pod also waits if they might have got other zones than expected.
    """
    late = _late(info, "", since=now - within)
    if not late or not claims.holds(info.node, demand):
        return ()
    before = info.without(pod.uid for pod in late)
    demands = [*(pod.demand for pod in late if pod.demand), demand]
    # Of pods that would leave the same behind, one is enough. A fingerprint covers names, so with one no two
    # pods are alike.
    leavers: dict[object, str] = {}
    for pod in before.assigned_pods:
        if pod.holds(info.node):
            record = pod.record and (frozenset(pod.record.held.items()), pod.record.unknown)
            leavers.setdefault(pod.uid if info.fingerprint else (pod.demand, record, pod.admitted), pod.uid)
    if not _triable(info.node, demands, len(leavers)):
        return late
    nodes = [free_capacity(before.after([uid]), now=now, lag=0.0).node for uid in leavers.values()]
    harmless = all(_all_admitted(node, demands) for node in nodes)
    if harmless and intent.exclusive:
        expected = [(pod.demand, pod.expected) for pod in late]
        harmless = all(_count_as_expected(node, expected) == len(late) for node in nodes)
    return () if harmless else late


def _triable(node: Node, demands: Iterable[Demand | None], times: int) -> bool:
    """Return whether trying to admit all of these `times` times is within the limit."""
    units = (work_limit.units(node, kubelet.effective_demand(node, demand)) for demand in demands if demand)
    return times * sum(units) <= MOST_TRIED


def _all_admitted(node: Node, demands: Iterable[Demand]) -> bool:
    for demand in demands:
        admission = kubelet.admit(node, demand)
        if admission.refusal:
            return False
        node = kubelet.charge(node, admission)
    return True


def _late(info: NodeInfo, leaver: str, *, since: float) -> tuple[AssignedPod, ...]:
    """Return recent pods other than the leaver whose holdings are only predicted."""
    late = (
        pod
        for pod in info.assigned_pods
        if pod.record is not None and pod.record.source not in SEEN
        if not pod.admitted or pod.since >= since
        if pod.uid != leaver and pod.holds(info.node)
    )
    return tuple(sorted(late, key=AssignedPod.in_turn))


def _surely_there(node: Node, late: Sequence[AssignedPod]) -> frozenset[str]:
    """Return the uids of those that get what was expected, in whichever order the kubelet admits them."""
    ordered = [pod for pod in late if not pod.unconfirmed]
    if not all(one.turn < other.turn and one.created < other.created for one, other in pairwise(ordered)):
        wanted = [(pod.demand, pod.expected) for pod in late]
        same_in_all = len(late) <= MOST_PENDING and _in_any_order(node, wanted)
        return frozenset(pod.uid for pod in late if same_in_all)
    unconfirmed = [pod for pod in late if pod.unconfirmed]
    if unconfirmed and not _triable(node, [pod.demand for pod in late], perm(len(late), len(unconfirmed))):
        return frozenset()
    sure = frozenset(pod.uid for pod in late)
    # The unconfirmed ones come at any time, and the last may never come; all others in turn.
    for positions in permutations(range(len(late)), len(unconfirmed)):
        at, in_turn = dict(zip(positions, unconfirmed, strict=True)), iter(ordered)
        order = [at[place] if place in at else next(in_turn) for place in range(len(late))]
        count = _count_as_expected(node, [(pod.demand, pod.expected) for pod in order])
        sure &= {pod.uid for pod in order[:count]}
    return sure


def _in_any_order(node: Node, wanted: Sequence[_Expected]) -> bool:
    """Return whether all of these get what was expected, whichever comes first."""
    if not _triable(node, [demand for demand, _ in wanted], factorial(len(wanted))):
        return False
    return all(_count_as_expected(node, order) == len(wanted) for order in permutations(wanted))


def _count_as_expected(node: Node, order: Iterable[_Expected]) -> int:
    """Return how many pods, one after another, get what was expected, before one does not."""
    count = 0
    for demand, held in order:
        admission = kubelet.admit(node, demand) if demand else None
        if not admission or admission.refusal:
            return count
        if not same(named(admission.placement.kept, node), held or {}):
            return count
        node, count = kubelet.charge(node, admission), count + 1
    return count
