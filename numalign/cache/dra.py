"""
Pods whose devices come from dynamic resource allocation.

DRA is not a hint provider: the Topology Manager asks the managers of CPUs, memory and devices, and does not
know what DRA allocates (k8s.io/kubernetes, pkg/kubelet/cm/container_manager_linux.go). So whether a DRA
device is close to a container's CPUs is random, and the rules of the device manager do not apply to an
extended resource that a DeviceClass serves.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from numalign.cache.pod_question import PodQuestion
from numalign.cache.question import Question
from numalign.model import demand
from numalign.model.demand import Demand

_SHOWN = 2


def resources(request: Demand, served: AbstractSet[str]) -> tuple[str, ...]:
    """Return the names of requested resources that DRA may serve, in order."""
    if not served:
        return ()
    names = {name for step in request.steps for name in step.devices} | request.total.keys()
    return tuple(sorted(names & served))


def sure(question: Question, served: AbstractSet[str]) -> Question:
    """Return the question without devices that DRA may serve: no more than can refuse it."""
    if not resources(question.demand, served):
        return question
    return replace(question, demand=demand.without(question.demand, served))


def by_node(question: Question, served: AbstractSet[str]) -> Question:
    """Return the question to each node: of what DRA may serve, only what its device plugins serve."""
    names = frozenset(resources(question.demand, served))
    if names == question.demand.by_dra:
        return question
    return replace(question, demand=replace(question.demand, by_dra=names))


def unknown(pod: PodQuestion, served: AbstractSet[str]) -> str | None:
    """Return a warning about devices whose alignment is unknown; None if there are none."""
    claims = (f'claim "{claim}"' for claim in pod.claims)
    devices = (*resources(pod.question.demand, served), *claims)
    if not devices:
        return None
    more = f" and {len(devices) - _SHOWN} more" if len(devices) > _SHOWN else ""
    names = ", ".join(devices[:_SHOWN]) + more
    return f"DRA devices give the kubelet no topology hints: alignment of {names} is unknown"
