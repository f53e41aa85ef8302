"""The reasons for which a kubelet refuses a pod, as in the pod's status."""

from dataclasses import dataclass
from enum import StrEnum

from numalign.model.demand import Step
from numalign.model.machine import CpuSet


class RejectionReason(StrEnum):
    """The reasons that a kubelet writes to the status of a pod that it refuses."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"
    SMT_ALIGNMENT = "SMTAlignmentError"
    EMPTY_SHARED_POOL = "EmptyPodSharedPoolError"
    NOT_ANSWERED = "NotAnswered"
    """Not a reason of the kubelet: the prediction takes too long to compute (`work_limit`)."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The refused step, resources that could not be allocated, and the CPUs that the step had by then."""

    reason: RejectionReason
    step: Step
    resources: tuple[str, ...] = ()
    cpus: CpuSet = 0
