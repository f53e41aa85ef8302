"""
Whether a pod can run on a node as its owner requests.

There is one definition: predict the placement that the kubelet would make, then check whether it satisfies
the pod's intent. Whether a refusal is permanent is shown by what every state of the node has in common
(`feasible`). There is no second rule anywhere.
"""

from collections.abc import Iterator
from dataclasses import replace

from numalign.decision.doubts import doubts
from numalign.decision.feasible import feasible
from numalign.decision.own_zones import Zones, fewest_zones, held_by_another, occupied_by_others
from numalign.decision.pinning import why_unpinned
from numalign.decision.verdict import Cause, Need, Refusal, Refuser, Shortage, Verdict
from numalign.kubelet import admit as kubelet
from numalign.kubelet.admission_errors import Rejection, RejectionReason
from numalign.kubelet.admit import PodAdmitResult, min_widths
from numalign.model.demand import Demand, Step
from numalign.model.intent import Intent, Match, Policy, Scope
from numalign.model.node import Node
from numalign.model.placement import Grant, Placement
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI, NODE_LEVEL, Kind, ZoneId, kind
from numalign.model.steps import Steps, finished

UNSATISFIED = "IntentNotSatisfied"
"""The reason of a refusal that the kubelet itself would not make."""

NO_INTENT = Intent(Policy.NONE)
"""The intent of a pod without one: only the node's own policy decides."""


def evaluate(node: Node, demand: Demand, intent: Intent = NO_INTENT) -> Verdict:
    """Return the verdict on a pod on the node in its current state.

    A refusal is permanent if no state of the node could admit the pod, and then describes the healthy, empty
    node. A verdict that takes too long to compute is not answered, which is not a refusal. Never raises for
    values that were read without error.
    """
    return finished(evaluating(node, demand, intent))


def evaluating(node: Node, demand: Demand, intent: Intent = NO_INTENT) -> Steps[Verdict]:
    """Evaluate as `evaluate` does, in steps of at most some hundredths of a second."""
    now = yield from _judging(node, kubelet.effective_demand(node, demand), intent)
    if now.admitted:
        return now
    empty = node.in_health()
    read = kubelet.effective_demand(empty, demand)
    ever = now if empty == node else (yield from _judging(empty, read, intent))
    if not ever.refused or ever.refusal is None:
        return now
    if (yield from feasible(empty, read, intent, ever.refusal)):
        return replace(now, not_when_empty=True)
    return replace(ever, permanent=True)


def keeps(node: Node, demand: Demand, intent: Intent, placement: Placement) -> bool:
    """Return whether the placement of an admitted pod satisfies an intent, its own or another."""
    demand = kubelet.effective_demand(node, demand)
    return not (unaligned(node, demand, intent) or any(too_wide(node, demand, intent, placement)))


def refusal_of(node: Node, demand: Demand, admission: PodAdmitResult) -> Refusal | None:
    """Return the refusal with its cause, needs and shortages; None if the kubelet admitted the pod."""
    refused = admission.refusal
    if refused is None:
        return None
    if refused.reason is RejectionReason.NOT_ANSWERED:
        place = refused.step.container, refused.step.role
        return Refusal(Refuser.NOBODY, refused.reason, Cause.NOT_ANSWERED, node.policy, *place)
    # What earlier containers of the pod already hold is not free for this one.
    at_refusal = kubelet.after_admission(node, admission)
    cause, needs, detail = _why(at_refusal, refused)
    place = refused.step.container, refused.step.role
    refusal = Refusal(Refuser.KUBELET, refused.reason, cause, node.policy, *place, needs, detail=detail)
    shortages = tuple(_shortages(at_refusal, refused.step))
    refusal = replace(refusal, shortages=shortages, beside=needs != _why(node, refused)[1])
    return _reusing(node, demand, refusal, kubelet.reusable_zones(node, admission))


def _judging(node: Node, demand: Demand, intent: Intent) -> Steps[Verdict]:
    refusal, placement = _too_large(node, demand) or by_kind(node, demand, intent), Placement()
    if not refusal:
        admission = yield from kubelet.admitting(node, demand)
        placement = admission.placement
        refusal = refusal_of(node, demand, admission) or _by_placement(node, demand, intent, placement)
    return Verdict(
        refusal, permanent=False, placement=placement, known=node.known, doubts=doubts(node, demand)
    )


def _too_large(node: Node, demand: Demand) -> Refusal | None:
    """Return the refusal if the node as a whole has too little; the kubelet would report OutOf<resource>."""
    needs = tuple(
        Need(name, request, len(node.zones), _total(node, name) or 0, demand.overhead.get(name, 0))
        for name, request in demand.total.items()
        if (most := most_of(node, name)) is not None and request > most
    )
    if not needs:
        return None
    return Refusal(Refuser.NODE, f"OutOf{needs[0].resource}", Cause.NODE_TOO_SMALL, node.policy, needs=needs)


def _total(node: Node, name: str) -> int | None:
    if node.totals is not None:
        return node.totals.get(name, 0) if name in node.totals or name not in NODE_LEVEL else None
    listed = [zone.allocatable[name] for zone in node.every_zone if name in zone.allocatable]
    # A manager that is off shows as no amount at all; devices that are gone show as zero.
    if not any(listed) and not (listed and kind(name) is Kind.DEVICE):
        return None
    return sum(listed)


def most_of(node: Node, name: str) -> int | None:
    """Return the most that a pod can request of the node as a whole, in its unit; None if not known."""
    has = _total(node, name)
    # CPUs are reserved whole, so a node may have almost one more than its zones list.
    return has + MILLI - 1 if has is not None and name == CPU and node.totals is None else has


def by_kind(node: Node, demand: Demand, intent: Intent) -> Refusal | None:
    """Return the refusal for the node's policy or for what its kubelet does not align, whatever it has."""
    if intent.match is Match.EQUAL and intent.policy not in (Policy.NONE, node.policy):
        return replace(_unsatisfied(intent, Cause.OTHER_POLICY), detail=node.policy)
    return unaligned(node, demand, intent)


def unaligned(node: Node, demand: Demand, intent: Intent) -> Refusal | None:
    """Return the refusal of a binding intent for what is not pinned or aligned; None on a single zone."""
    if not intent.binding or node.single:
        return None
    # No kubelet would pin these resources for this pod, and the intent names them.
    for step in demand.steps:
        if named := [name for name in step.loose if intent.names(name)]:
            needs = tuple(Need(name, 0, 0, 0) for name in named)
            refusal = _unsatisfied(intent, Cause.NOT_EXCLUSIVE, step)
            return replace(refusal, needs=needs, detail=why_unpinned(demand, step))
    steps = {name: step for step in demand.steps for name in step.requests if intent.concerns(name)}
    missed = [name for name in steps if not node.aligns(name) and name not in node.uncertain]
    broken = len(missed) == len(steps) or any(intent.names(name) for name in missed)
    if broken and missed:
        needs = tuple(Need(name, 0, 0, 0) for name in missed)
        refusal = _unsatisfied(intent, Cause.NOT_ALIGNED, steps[missed[0]])
        return replace(refusal, needs=needs, detail=node.policy)
    if node.policy is Policy.NONE:
        return replace(_unsatisfied(intent, Cause.NOT_ALIGNED), detail=node.policy)
    return None


def _why(node: Node, refused: Rejection) -> tuple[Cause, tuple[Need, ...], str]:
    """Return the cause of a kubelet's refusal, what it would have needed, and the size of a split core."""
    step, every = refused.step, len(node.zones)
    if refused.reason is RejectionReason.SMT_ALIGNMENT:
        threads, free = kubelet.whole_cores(node)
        broken = str(threads) if step.cpu // MILLI % threads else ""
        return Cause.NOT_WHOLE_CORES, (Need(CPU, step.cpu, every, free),), broken
    # A container can name a device without requesting any, and still be refused.
    listed = tuple(
        Need(name, step.requests.get(name, 0), every, _most(node, name, every)) for name in refused.resources
    )
    if refused.reason is RejectionReason.UNEXPECTED_ADMISSION:
        return Cause.NOT_ALLOCATED, listed, ""
    if refused.reason is RejectionReason.EMPTY_SHARED_POOL or refused.resources:
        return Cause.NOTHING_TO_SHARE, listed, ""
    needs = _needs(node, step, node.policy)
    if unplaced := kubelet.without_zones(node, step.devices):
        return Cause.NO_SUCH_ZONE, tuple(need for need in needs if need.resource in unplaced), ""
    return _cause(node, needs), needs, ""


def _by_placement(node: Node, demand: Demand, intent: Intent, placement: Placement) -> Refusal | None:
    """Return the refusal of a pod that the kubelet admits, by its own intent or that of pods in its zones."""
    # The first container, or the pod, in more zones than its policy allows.
    for step, needs in too_wide(node, demand, intent, placement):
        refusal = _unsatisfied(intent, _cause(node, needs), step)
        refusal = replace(refusal, needs=needs, shortages=tuple(_shortages(node, step)))
        served = zip(demand.steps, placement.grants, strict=True)
        reused = (grant.zones_of([CPU]) for each, grant in served if each.role is Role.INIT)
        return _reusing(node, demand, refusal, frozenset[ZoneId]().union(*reused))
    for cause, taken in ((Cause.NOT_SHARED, held_by_another), (Cause.NOT_ALONE, occupied_by_others)):
        if zones := taken(node, demand, intent, placement):
            names = tuple(zone.name for zone in node.zones if zone.id in zones)
            return replace(_unsatisfied(intent, cause), zones=names)
    return None


def _reusing(node: Node, demand: Demand, refusal: Refusal, zones: Zones) -> Refusal:
    """Name the init container with CPUs in `zones`, if a container that has to reuse them fits elsewhere."""
    needs = {need.resource: need.asked for need in refusal.needs}
    if refusal.cause is not Cause.SPREAD or not zones or CPU not in needs:
        return refusal
    if kubelet.fits_together(node, needs, refusal.needs[0].zones, around=zones):
        return refusal
    init = next(step.container for step in demand.steps if step.role is Role.INIT and step.cpu)
    names = tuple(zone.name for zone in node.zones if zone.id in zones)
    return replace(refusal, zones=names, reused=init)


def too_wide(
    node: Node, demand: Demand, intent: Intent, placement: Placement
) -> Iterator[tuple[Step, tuple[Need, ...]]]:
    """Yield the parts of an admitted pod in more zones than its binding policy allows, with their needs."""
    if not intent.binding:
        return
    units: list[tuple[Step, tuple[Grant, ...]]] = [(demand.whole, placement.grants)]
    if (intent.scope or node.scope) is Scope.CONTAINER:
        units = [(step, (grant,)) for step, grant in zip(demand.steps, placement.grants, strict=True)]
    for step, grants in units:
        names = [name for name in step.requests if intent.concerns(name) and node.aligns(name)]
        zones = frozenset[int]().union(*(grant.zones_of(names) for grant in grants))
        # A single zone satisfies every policy.
        if len(zones) > 1 and len(zones) > (fewest_zones(node, step, intent.policy, names) or 1):
            needs = _needs(node, step, intent.policy)
            yield step, tuple(need for need in needs if need.resource in names)


def _needs(node: Node, step: Step, policy: Policy) -> tuple[Need, ...]:
    # A named device gets hints even if none is requested.
    requests = {**step.requests, **step.devices}
    single = policy is Policy.SINGLE_NUMA_NODE
    allowed = dict.fromkeys(requests, 1) if single else min_widths(node, step)
    return tuple(
        Need(name, request, allowed[name], _most(node, name, allowed[name]))
        for name, request in requests.items()
        if node.aligns(name)
    )


def _most(node: Node, name: str, zones: int) -> int:
    return sum(sorted((zone.free.get(name, 0) for zone in node.zones), reverse=True)[:zones])


def _cause(node: Node, needs: tuple[Need, ...]) -> Cause:
    if any(need.most < need.asked for need in needs):
        return Cause.ZONES_TOO_SMALL
    widths_asked = {need.zones for need in needs}
    if len(widths_asked) > 1:
        return Cause.WIDTHS_DIFFER
    amounts = {need.resource: need.asked for need in needs}
    return Cause.SPREAD if kubelet.fits_together(node, amounts, *widths_asked) else Cause.NOT_TOGETHER


def _shortages(node: Node, step: Step) -> Iterator[Shortage]:
    aligned = [(name, request) for name, request in step.requests.items() if node.aligns(name)]
    for zone in node.zones:
        for name, request in aligned:
            free = zone.free.get(name, 0)
            if free < request:
                yield Shortage(zone.id, zone.name, name, request, free)


def _unsatisfied(intent: Intent, cause: Cause, step: Step | None = None) -> Refusal:
    place = (step.container, step.role) if step else ()
    return Refusal(Refuser.INTENT, UNSATISFIED, cause, intent.policy, *place)
