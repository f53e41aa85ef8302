"""
What places a new pod: the scheduler it names, the one of its namespace, or the controller.

A namespace passes on pods that request alignment, that are not placed yet, and that name no scheduler of
their own. `default-scheduler` counts as none: an API server sets it on every pod that names none before it
calls any webhook (pkg/apis/core/v1/defaults.go of k8s.io/kubernetes), so the two cannot be distinguished.

The scheduler fields of a pod are read as written. Invalid names or lists of gates are left for the API server
to reject: then nothing is passed on.
"""

from collections.abc import Mapping

from numalign.cache.pod_question import PodQuestion
from numalign.model.intent import PLACEMENT_GATE, Gate

DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""

_NAMES_NOBODY = (None, "", DEFAULT_SCHEDULER)


def concerns(question: PodQuestion) -> bool:
    """Return whether the pod requests alignment and a scheduler is to place it."""
    return question.requests_alignment and not question.pin


def scheduler(spec: Mapping[str, object], question: PodQuestion) -> str | None:
    """Return the scheduler of the namespace, if a pod of this spec is to be passed on to it."""
    name = question.rules.scheduler
    return name if name not in _NAMES_NOBODY and _open(spec, question) else None


def gate(spec: Mapping[str, object], question: PodQuestion) -> str | None:
    """Return the gate at which a pod of this spec has to wait for the controller; None if it has it.

    A scheduler of its namespace takes precedence: a pod that it binds needs no gate.
    """
    if question.rules.gate is not Gate.ENABLED or scheduler(spec, question) or not _open(spec, question):
        return None
    gates = spec.get("schedulingGates")
    if not isinstance(gates, list):
        return PLACEMENT_GATE if gates is None else None
    gated = any(isinstance(each, dict) and each.get("name") == PLACEMENT_GATE for each in gates)
    return None if gated else PLACEMENT_GATE


def _open(spec: Mapping[str, object], question: PodQuestion) -> bool:
    """Return whether the pod may be passed on at all."""
    return concerns(question) and spec.get("schedulerName") in _NAMES_NOBODY
