"""One pod: its node, its requests, what it holds, and its alignment."""

from numalign.cache.pod_question import Exempt, Invalid, PodQuestion
from numalign.kube.decode.pod_reader import PodReading
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.free import sharing
from numalign.ledger.model import AssignedPod
from numalign.map.pods_on_node import owner_text, pods_on_node
from numalign.map.tiles import zone_uses
from numalign.map.views import ContainerRequests, PodIntent, PodOnNode, PodView, Visible, ZoneUse
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy
from numalign.model.resources import EMPTY
from numalign.scheduling.scheduler_state import SchedulerState

NO_INTENT = PodIntent(Policy.NONE, None, None, (), exclusive=False)
"""The intent of a pod that does not request alignment."""


def pod_view(
    state: SchedulerState, namespace: str, name: str, visible: Visible, *, revision: int
) -> PodView | None:
    """Return the view of a pod; None if there is none, or if the viewer may not list pods there."""
    if not visible(namespace):
        return None
    pod = next((pod for pod in state.pods.values() if (pod.namespace, pod.name) == (namespace, name)), None)
    if pod is None:
        return None
    reading = state.reader.read(pod.request, pod.namespace, _policy(state))
    node = state.reservations.node_of(pod.uid) or pod.node
    others = _beside(state, node, pod.uid)
    seen = sorted("/".join(other.name) for other in others if visible(other.name[0]))
    return PodView(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        owner=owner_text(pod.owner),
        phase=pod.phase,
        created=pod.created,
        scheduler=pod.scheduler,
        priority=pod.priority,
        gates=pod.gates,
        reason=pod.reason,
        message=pod.message,
        node=node,
        pinned=pod.pinned,
        intent=intent_of(reading),
        containers=containers(pod.demand),
        total=pod.demand.total if pod.demand else EMPTY,
        on_node=_on_node(state, node, pod, visible),
        zones=_zones(state, node),
        beside=tuple(seen),
        beside_hidden=len(others) - len(seen),
        mistakes=_mistakes(pod, reading),
        revision=revision,
        now=state.wall(),
    )


def intent_of(reading: PodReading) -> PodIntent:
    """Return the alignment that a pod requests, and where that is stated."""
    if not isinstance(reading, PodQuestion):
        return NO_INTENT
    intent: Intent = reading.question.intent
    return PodIntent(intent.policy, reading.by, intent.scope, tuple(intent.resources), intent.exclusive)


def containers(demand: Demand | None) -> tuple[ContainerRequests, ...]:
    """Return the requests of each container in the kubelet's order; none if the pod cannot be read."""
    steps = demand.steps if demand else ()
    return tuple(
        ContainerRequests(step.container, step.role, step.requests, tuple(step.loose)) for step in steps
    )


def _policy(state: SchedulerState) -> EffectivePolicy:
    return EffectivePolicy.of(state.cluster, state.policy.now)


def _on_node(state: SchedulerState, node: str, pod: PodInfo, visible: Visible) -> PodOnNode | None:
    return next((each for each in pods_on_node(state, node, visible) if each.uid == pod.uid), None)


def _zones(state: SchedulerState, node: str) -> tuple[ZoneUse, ...]:
    free = state.reservations.free_capacity(node, now=state.clock())
    return zone_uses(free) if free else ()


def _beside(state: SchedulerState, node: str, uid: str) -> tuple[AssignedPod, ...]:
    """Return the other pods with an intent in the zones of a pod with an exclusive intent."""
    info = state.reservations.node_info(node)
    pod = next((pod for pod in info.assigned_pods if pod.uid == uid), None) if info else None
    if info is None or pod is None or not pod.intent.exclusive:
        return ()
    return sharing(info.node, info.assigned_pods, pod)


def _mistakes(pod: PodInfo, reading: PodReading) -> tuple[str, ...]:
    """Return the mistakes in a pod, each once."""
    more = reading.mistakes if isinstance(reading, Invalid | Exempt) else ()
    return tuple(map(str, dict.fromkeys((*pod.request.mistakes, *more))))
