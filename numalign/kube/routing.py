"""
Who is to place a pod that is created: whom it names, the scheduler of its namespace, or the controller.

A namespace hands pods over that ask for alignment, that nobody has placed yet, and that name no scheduler of
their own. `default-scheduler` counts as none: an API server writes it into every pod that names none before
it asks any webhook (pkg/apis/core/v1/defaults.go of k8s.io/kubernetes), so nobody can tell the two apart.

What a pod says of schedulers is read as it stands. What is no name or no list of gates is left for the API
server to refuse: then nothing is handed over.
"""

from collections.abc import Mapping

from numalign.cache.pod_question import PodQuestion
from numalign.model.intent import PLACEMENT_GATE, Gate

DEFAULT_SCHEDULER = "default-scheduler"
"""Who places the pods that name nobody."""

_NAMES_NOBODY = (None, "", DEFAULT_SCHEDULER)


def concerns(question: PodQuestion) -> bool:
    """Return whether the pod asks for alignment and a scheduler is to place it."""
    return question.asks and not question.pin


def scheduler(spec: Mapping[str, object], question: PodQuestion) -> str | None:
    """Return the scheduler of its namespace, if a pod of this spec is to be handed to that."""
    name = question.rules.scheduler
    return name if name not in _NAMES_NOBODY and _open(spec, question) else None


def gate(spec: Mapping[str, object], question: PodQuestion) -> str | None:
    """The gate at which a pod of this spec is to wait for the controller; none where it waits there already.

    A scheduler that its namespace names goes first: what that one binds needs no gate.
    """
    if question.rules.gate is not Gate.ENABLED or scheduler(spec, question) or not _open(spec, question):
        return None
    gates = spec.get("schedulingGates")
    if not isinstance(gates, list):
        return PLACEMENT_GATE if gates is None else None
    gated = any(isinstance(each, dict) and each.get("name") == PLACEMENT_GATE for each in gates)
    return None if gated else PLACEMENT_GATE


def _open(spec: Mapping[str, object], question: PodQuestion) -> bool:
    """Return whether the pod may be handed over at all."""
    return concerns(question) and spec.get("schedulerName") in _NAMES_NOBODY
