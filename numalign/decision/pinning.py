"""
Which requests of a pod its policy applies to, and what keeps the kubelet from pinning the others.

A topology policy says where a kubelet puts what it pins. CPUs and memory that it does not pin may come from
any NUMA zone, whatever the policy, and no status says so. This module finds them, and the first container and
field that is the cause; its texts are used wherever pods are judged. That a node's CPU or Memory Manager is
off is a property of the node, not of the pod.

Restates which containers the managers ignore: guaranteedCPUs of cpumanager/policy_static.go, and GetPodQOS.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from numalign.model.demand import Demand, Step, shared_by
from numalign.model.errors import cut
from numalign.model.intent import RESOURCES, Intent, Policy, Scope
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI, Kind, kind, render

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class PartialAlignment:
    """The resources that a policy `applies_to` in a pod, and those that are not pinned, at least one each.

    A resource of which only a part is pinned is in both. `cause` is the first container and field that keeps
    the others from being pinned; empty if it may not be shown.
    """

    policy: Policy
    applies_to: tuple[str, ...]
    unpinned: tuple[str, ...]
    cause: str

    @property
    def extent(self) -> str:
        """What is aligned, in two or three words."""
        pinned = any(kind(name) in {Kind.CPU, Kind.MEMORY} for name in self.applies_to)
        return f"not all {_list(self.unpinned)}" if pinned else "devices only"

    def __str__(self) -> str:
        shared = {*self.applies_to} & {*self.unpinned}
        applies_to = _list([f"part of {name}" if name in shared else name for name in self.applies_to])
        because = f", because {self.cause}" if self.cause else ""
        rest = [f"the rest of {name}" if name in shared else name for name in self.unpinned]
        return f"{self.policy} applies to {applies_to} only: {_not_pinned(rest)}{because}"

    @property
    def refusal(self) -> str:
        """The same with what to change: two sentences."""
        return (
            f"{self}. Set equal requests and limits and whole CPUs in every container,"
            f" or list in {RESOURCES} only what is to be aligned."
        )


def partial(demand: Demand, intent: Intent, scope: Scope = Scope.POD) -> PartialAlignment | None:
    """Return what is not pinned of a pod whose policy applies to something; None if nothing is missing."""
    unpinned = unpinned_by(demand, intent, scope)
    if not unpinned:
        return None
    requested = sorted({name for step in (demand.whole, *demand.steps) for name in step.requests})
    applies_to = tuple(filter(intent.concerns, requested))
    if not applies_to:
        return None
    return PartialAlignment(intent.policy, applies_to, unpinned, why_unpinned(demand))


def unpinned_by(demand: Demand, intent: Intent, scope: Scope = Scope.POD) -> tuple[str, ...]:
    """Return which CPUs, memory and hugepages the intent concerns and no manager pins, by name."""
    # Init containers do not count: they end before the others start.
    shared = demand.whole.loose
    # In pod scope, containers without exclusive CPUs share those of their pod.
    loose = shared if scope is Scope.POD else shared.most(shared_by(demand.steps))
    return tuple(filter(intent.concerns, loose))


def no_effect(demand: Demand, intent: Intent) -> str:
    """Return why the policy of a pod applies to nothing."""
    unpinned = unpinned_by(demand, intent)
    because = f"{_not_pinned(unpinned)}, because {why_unpinned(demand)}" if unpinned else why_unpinned(demand)
    devices = "" if demand.alignable else "the pod requests no devices, and "
    return f"{intent.policy} has no effect: {devices}{because}"


def why_unpinned(demand: Demand, refused: Step | None = None) -> str:
    """Return what keeps CPUs or memory from being pinned: the first container, or the `refused` one."""
    if gap := demand.gap:
        subject = _subject(gap.role, gap.container)
        if not gap.limit:
            return f"{subject} sets no {gap.resource} limit (the pod is {demand.qos})"
        request, limit = (render(gap.resource, amount) for amount in (gap.request, gap.limit))
        return (
            f"{subject} requests {request} {gap.resource}, and its limit is {limit} (the pod is {demand.qos})"
        )
    level = demand.pod_level
    if level and demand.steps is not level.steps:
        return (
            "the pod sets spec.resources, and kubelets pin such pods only with the feature gate"
            " PodLevelResourceManagers"
        )
    last = sorted(demand.steps, key=lambda step: step.role is Role.INIT)
    step = refused or next((step for step in last if CPU in step.loose), demand.whole)
    if step.loose.get(CPU, 0) % MILLI:
        amount = render(CPU, step.loose[CPU])
        return f"{_subject(step.role, step.container)} requests {amount} cpu, which is not a whole number"
    return f"{_subject(step.role, step.container)} does not set equal requests and limits"


def _subject(role: Role, container: str) -> str:
    return f'{role} "{cut(container, _LONGEST_NAME)}"' if container else "spec.resources"


def _not_pinned(names: Sequence[str]) -> str:
    return f"{_list(names)} {'is' if len(names) == 1 else 'are'} not pinned"


def _list(names: Sequence[str]) -> str:
    return listed((cut(name, _LONGEST_NAME) for name in names), most=3)


def listed(words: Iterable[str], *, most: int) -> str:
    """Return the first of these words as a list in a sentence, and `more` if there are others."""
    shown = [*islice(words, most + 1)]
    shown[most:] = ["more"] if len(shown) > most else []
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
