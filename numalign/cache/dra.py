"""
Pods whose devices come by dynamic resource allocation.

DRA is no hint provider: the Topology Manager asks the managers of CPUs, memory and devices, and does not know
what DRA allocates (k8s.io/kubernetes, pkg/kubelet/cm/container_manager_linux.go). So whether a device
of DRA is beside a container's CPUs is luck, and an extended resource that a DeviceClass serves is bound by no
rule of the device manager.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from numalign.cache.pod_question import PodQuestion
from numalign.cache.question import Question
from numalign.model import demand
from numalign.model.demand import Demand

_SHOWN = 2


def resources(request: Demand, served: AbstractSet[str]) -> tuple[str, ...]:
    """Return the names of what a pod asks for that DRA may serve, in order."""
    if not served:
        return ()
    names = {name for step in request.steps for name in step.devices} | request.total.keys()
    return tuple(sorted(names & served))


def sure(question: Question, served: AbstractSet[str]) -> Question:
    """What a pod asks of the kubelet's managers whoever serves its devices: no more than can refuse it."""
    if not resources(question.demand, served):
        return question
    return replace(question, demand=demand.without(question.demand, served))


def by_node(question: Question, served: AbstractSet[str]) -> Question:
    """What a pod asks of each node: of what DRA may serve, as much as the node's device plugins serve."""
    names = frozenset(resources(question.demand, served))
    if names == question.demand.by_dra:
        return question
    return replace(question, demand=replace(question.demand, by_dra=names))


def unknown(pod: PodQuestion, served: AbstractSet[str]) -> str | None:
    """Return a warning of the devices that nobody knows to be aligned or not; None if there are none."""
    claims = (f'claim "{claim}"' for claim in pod.claims)
    devices = (*resources(pod.question.demand, served), *claims)
    if not devices:
        return None
    more = f" and {len(devices) - _SHOWN} more" if len(devices) > _SHOWN else ""
    names = ", ".join(devices[:_SHOWN]) + more
    return f"DRA devices give the kubelet no topology hints: alignment of {names} is unknown"
