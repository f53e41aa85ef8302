"""
What is said of pods whose devices come by dynamic resource allocation.

DRA is no hint provider: the Topology Manager asks the managers of CPUs, memory and devices, and of what DRA
allocates it hears nothing (k8s.io/kubernetes, pkg/kubelet/cm/container_manager_linux.go). So whether a device
of DRA is beside a container's CPUs is luck, and an extended resource that a DeviceClass serves is bound by no
rule of the device manager.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice

from numalign.cache.pod_question import PodQuestion
from numalign.cache.question import Question
from numalign.model import demand
from numalign.model.demand import Demand

_SHOWN = 2


def resources(asked: Demand, served: AbstractSet[str]) -> tuple[str, ...]:
    """The names of what a pod asks for that DRA may serve, in order."""
    if not served:
        return ()
    named = {name for step in asked.steps for name in step.devices} | asked.total.keys()
    return tuple(sorted(named & served))


def sure(question: Question, served: AbstractSet[str]) -> Question:
    """What a pod asks of the kubelet's managers whoever serves its devices: no more than can refuse it."""
    if not resources(question.demand, served):
        return question
    return replace(question, demand=demand.without(question.demand, served))


def by_node(question: Question, served: AbstractSet[str]) -> Question:
    """What a pod asks of each node: of what DRA may serve, as much as the node's device plugins serve."""
    if not (served or question.demand.by_dra):
        return question
    names = frozenset(resources(question.demand, served))
    if names == question.demand.by_dra:
        return question
    return replace(question, demand=replace(question.demand, by_dra=names))


def unknown(asked: PodQuestion, served: AbstractSet[str]) -> str | None:
    """Of which devices of a pod nobody knows whether they are aligned; None if there are none."""
    names = resources(asked.question.demand, served)
    claims = tuple(f'claim "{claim}"' for claim in asked.claims)
    if not (names or claims):
        return None
    told = (*names, *claims)
    more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    what = ", ".join(islice(told, _SHOWN)) + more
    return f"devices of DRA give the kubelet no hints: whether {what} will be aligned is not known"
