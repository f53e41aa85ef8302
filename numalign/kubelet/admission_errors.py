"""Why a kubelet refuses a pod, in the words that it writes into the pod's status."""

from dataclasses import dataclass
from enum import StrEnum

from numalign.model.demand import Step
from numalign.model.machine import CpuSet


class RejectionReason(StrEnum):
    """The reasons that a kubelet writes into the status of a pod that it refuses."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"
    SMT_ALIGNMENT = "SMTAlignmentError"
    EMPTY_SHARED_POOL = "EmptyPodSharedPoolError"
    NOT_ANSWERED = "NotAnswered"
    """No kubelet says this: what it would say takes too long to work out (`work_limit`)."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the kubelet refuses a pod: at which step, and which resources it could not give out, if any.

    `cpus` are those that the step itself had been given by then.
    """

    reason: RejectionReason
    step: Step
    resources: tuple[str, ...] = ()
    cpus: CpuSet = 0
