"""
The pods of one node: what each holds, how that is known, and its alignment.

This module removes names. A pod that the viewer may not see keeps the resources that it holds, so that the
zones add up, and nothing that could identify it: not even its position among the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from numalign.decision.alignment import Alignment, Judgement, why
from numalign.kube.pod_informer import Owner, PodInfo
from numalign.ledger.arithmetic import same
from numalign.ledger.model import SEEN, AssignedPod, NodeInfo, PlacementRecord
from numalign.map.views import HeldInZones, PodOnNode, Visible
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.placement import Held
from numalign.scheduling.pod_alignments import pod_alignments
from numalign.scheduling.scheduler_state import SchedulerState


@dataclass(frozen=True, slots=True)
class _Entry:
    """A pod of a node in the ledger, and as it is listed: None if it only has a reservation."""

    assigned_pod: AssignedPod
    listed: PodInfo | None
    visible: bool


def pods_on_node(state: SchedulerState, name: str, visible: Visible) -> tuple[PodOnNode, ...]:
    """Return the pods on a node and on their way there.

    Pods with names come first, sorted by name, then the others, sorted by what they hold.
    """
    info = state.reservations.node_info(name)
    if info is None:
        return ()
    judged = {each.pod.uid: each.alignment for each in pod_alignments(state, name)}
    entries = [_Entry(pod, state.pods.get(pod.uid), visible(pod.name[0])) for pod in info.assigned_pods]
    pods = [_pod(state, info, entry, judged.get(entry.assigned_pod.uid)) for entry in entries]
    return tuple(sorted(pods, key=_order))


def namespaces_on(state: SchedulerState, name: str) -> frozenset[str]:
    """Return the namespaces of the pods on a node and on their way there."""
    return frozenset(pod.name[0] for pod in state.reservations.assigned_to(name))


def held_in_zones(held: Held) -> tuple[HeldInZones, ...]:
    """Return what a pod holds, by set of zones, sorted."""
    return tuple(HeldInZones(zones, held[zones]) for zones in sorted(held))


def owner_text(owner: Owner | None) -> str | None:
    """Return an owner in words, as in `ReplicaSet web-5d8f`; None if there is none."""
    return f"{owner.kind} {owner.name}" if owner else None


def _pod(state: SchedulerState, info: NodeInfo, entry: _Entry, alignment: Alignment | None) -> PodOnNode:
    pod, listed = entry.assigned_pod, entry.listed
    predicted, observed = _predicted(state, info.node, pod), _observed(pod)
    judgement = alignment or Alignment(_not_judged(pod))
    if not entry.visible:
        judgement = _anonymous(judgement)
    return PodOnNode(
        uid=pod.uid if entry.visible else None,
        namespace=pod.name[0] if entry.visible else None,
        name=pod.name[1] if entry.visible else None,
        owner=owner_text(listed.owner) if listed and entry.visible else None,
        policy=pod.intent.policy,
        exclusive=pod.intent.exclusive,
        stage=pod.stage,
        leaving=pod.terminating,
        predicted=None if predicted is None else held_in_zones(predicted),
        observed=None if observed is None else held_in_zones(observed),
        cpus=pod.record.cpus if pod.record else None,
        source=pod.record.source if pod.record else None,
        judgement=judgement.judgement,
        aligned=_ALIGNED.get(judgement.judgement),
        why=why(judgement),
        agrees=None if predicted is None or observed is None else same(predicted, observed),
        extent=judgement.partial.extent if judgement.partial else "",
        not_pinned=judgement.partial.unpinned if judgement.partial else (),
    )


_ALIGNED = {Judgement.ALIGNED: True, Judgement.MISALIGNED: False}


def _not_judged(pod: AssignedPod) -> Judgement:
    """Return why a pod was not judged: it requests no alignment, or was not observed."""
    return Judgement.NOT_ASKED if pod.intent.policy is Policy.NONE else Judgement.NOT_OBSERVED


def _anonymous(alignment: Alignment) -> Alignment:
    """Return the same without the name of the container that is spread or shares its CPUs."""
    spread, partial = alignment.spread, alignment.partial
    return replace(
        alignment,
        spread=spread and replace(spread, container=WHOLE_POD),
        partial=partial and replace(partial, cause=""),
    )


def _predicted(state: SchedulerState, node: Node, pod: AssignedPod) -> Held | None:
    """Return what was predicted for a pod, as far as its node allows, whatever was observed since."""
    before = state.reservations.assigned_pod(pod.uid)
    record = before.counted_on(node).record if before else None
    if record and record.source not in SEEN and not record.unknown:
        return record.held
    return pod.guess


def _observed(pod: AssignedPod) -> Held | None:
    """Return what a pod was observed to hold."""
    return pod.record.held if pod.record and _is_seen(pod.record) else None


def _is_seen(record: PlacementRecord) -> bool:
    return record.source in SEEN and not record.unknown


def _order(pod: PodOnNode) -> tuple[bool, str, str, str]:
    """Return the sort key: the name if visible; the order of others must depend only on what they hold."""
    hidden = repr((pod.held, pod.cpus, pod.policy, pod.stage, pod.judgement)) if pod.hidden else ""
    return pod.hidden, pod.namespace or "", pod.name or "", hidden


def holders(pods: Sequence[PodOnNode]) -> Iterator[tuple[int, PodOnNode]]:
    """Return the pods that are known to have exclusive CPUs, each with its position."""
    return ((at, pod) for at, pod in enumerate(pods) if pod.cpus)
