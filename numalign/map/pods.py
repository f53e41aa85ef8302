"""
The pods of a node, and one pod by itself: what each holds, how that is known, and its alignment.

This module removes names. A pod that the viewer may not see keeps the resources that it holds, so that the
zones add up, and nothing that could identify it: not even its position among the others.
"""

from dataclasses import replace

from numalign.cache.pod_question import Exempt, Invalid, PodQuestion, StatedBy
from numalign.decision.alignment import Alignment, Judgement, why
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.decode.pod_reader import PodReading
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import Owner
from numalign.ledger.arithmetic import same
from numalign.ledger.free import sharing
from numalign.ledger.model import SEEN, AssignedPod
from numalign.map.fleet import zone_uses
from numalign.map.views import HeldInZones, PodOnNode, PodView, Visible
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.placement import Held
from numalign.model.resources import EMPTY
from numalign.scheduling.pod_alignments import pod_alignments
from numalign.scheduling.scheduler_state import SchedulerState


def pods_on_node(state: SchedulerState, name: str, visible: Visible) -> tuple[PodOnNode, ...]:
    """Return the pods on a node and on their way there.

    Pods with names come first, sorted by name; the order of the others depends only on what they hold.
    """
    info = state.reservations.node_info(name)
    if info is None:
        return ()
    judged = {each.pod.uid: each.alignment for each in pod_alignments(state, name)}

    def order(pod: PodOnNode) -> tuple[bool, str, str, str]:
        hidden = repr((pod.held, pod.cpus, pod.policy, pod.stage, pod.judgement)) if pod.hidden else ""
        return pod.hidden, pod.namespace or "", pod.name or "", hidden

    pods = (
        _pod_on_node(state, info.node, pod, judged.get(pod.uid), is_visible=visible(pod.name[0]))
        for pod in info.assigned_pods
    )
    return tuple(sorted(pods, key=order))


def _pod_on_node(
    state: SchedulerState, node: Node, pod: AssignedPod, judged: Alignment | None, *, is_visible: bool
) -> PodOnNode:
    listed, record, before = state.pods.get(pod.uid), pod.record, state.reservations.assigned_pod(pod.uid)
    # What was predicted, as far as the node allows, counts whatever was observed since.
    counted = before.counted_on(node).record if before else None
    predicted = pod.guess
    if counted and counted.source not in SEEN and not counted.unknown:
        predicted = counted.held
    observed = record.held if record and record.source in SEEN and not record.unknown else None
    not_judged = Judgement.NOT_ASKED if pod.intent.policy is Policy.NONE else Judgement.NOT_OBSERVED
    alignment = judged or Alignment(not_judged)
    spread, partial = alignment.spread, alignment.partial
    if not is_visible:
        # The name of the container that is spread or shares its CPUs stays hidden too.
        alignment = replace(
            alignment,
            spread=spread and replace(spread, container=WHOLE_POD),
            partial=partial and replace(partial, cause=""),
        )
    aligned = {Judgement.ALIGNED: True, Judgement.MISALIGNED: False}
    return PodOnNode(
        uid=pod.uid if is_visible else None,
        namespace=pod.name[0] if is_visible else None,
        name=pod.name[1] if is_visible else None,
        owner=_owner_text(listed.owner) if listed and is_visible else None,
        policy=pod.intent.policy,
        exclusive=pod.intent.exclusive,
        stage=pod.stage,
        leaving=pod.terminating,
        predicted=_by_zones(predicted),
        observed=_by_zones(observed),
        cpus=record.cpus if record else None,
        source=record.source if record else None,
        judgement=alignment.judgement,
        aligned=aligned.get(alignment.judgement),
        why=why(alignment),
        agrees=None if predicted is None or observed is None else same(predicted, observed),
        extent=partial.extent if partial else "",
        not_pinned=partial.unpinned if partial else (),
    )


def _by_zones(held: Held | None) -> tuple[HeldInZones, ...] | None:
    return None if held is None else tuple(HeldInZones(zones, held[zones]) for zones in sorted(held))


def _owner_text(owner: Owner | None) -> str | None:
    return f"{owner.kind} {owner.name}" if owner else None


def pod_view(
    state: SchedulerState, namespace: str, name: str, visible: Visible, *, revision: int
) -> PodView | None:
    """Return the view of a pod; None if there is none, or if the viewer may not list pods there."""
    if not visible(namespace):
        return None
    pod = next((pod for pod in state.pods.values() if (pod.namespace, pod.name) == (namespace, name)), None)
    if pod is None:
        return None
    policy = EffectivePolicy.of(state.cluster, state.policy.now)
    reading = state.reader.read(pod.request, pod.namespace, policy)
    intent, by = intent_of(reading)
    node = state.reservations.node_of(pod.uid) or pod.node
    free = state.reservations.free_capacity(node, now=state.clock())
    info = state.reservations.node_info(node)
    here = info.assigned_pods if info else ()
    own = next((each for each in here if each.uid == pod.uid), None)
    others = sharing(info.node, here, own) if info and own and own.intent.exclusive else ()
    seen = sorted("/".join(other.name) for other in others if visible(other.name[0]))
    mistakes = reading.mistakes if isinstance(reading, Invalid | Exempt) else ()
    return PodView(
        pod=pod,
        owner=_owner_text(pod.owner),
        node=node,
        intent=intent,
        by=by,
        containers=pod.demand.steps if pod.demand else (),
        total=pod.demand.total if pod.demand else EMPTY,
        on_node=next((each for each in pods_on_node(state, node, visible) if each.uid == pod.uid), None),
        zones=zone_uses(free) if free else (),
        beside=tuple(seen),
        beside_hidden=len(others) - len(seen),
        mistakes=tuple(map(str, dict.fromkeys((*pod.request.mistakes, *mistakes)))),
        revision=revision,
        now=state.wall(),
    )


def intent_of(reading: PodReading) -> tuple[Intent, StatedBy | None]:
    """Return the alignment that a pod requests, and where that is stated."""
    return (reading.question.intent, reading.by) if isinstance(reading, PodQuestion) else (NO_INTENT, None)
