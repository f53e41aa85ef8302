"""
What is written into a pod: a requirement that keeps it away from node classes that could never align it.

Mutation never refuses. The pod may still be changed by webhooks after this one, and what is refused must be
what would be stored; so a pod that is broken or fits nowhere passes here untouched and ends at validation.
One that holds more than is read passes untouched as well, and the audit log says so. A class counts, too,
if its nodes have gone or may come: what is written holds for as long as the pod waits.
"""

from collections.abc import Set as AbstractSet

from numalign.cache import ClusterCache, dra
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import CLASS_LABEL
from webhook.patch import Mode, Unsteered, inject
from webhook.review import Allowed, Patched
from webhook.subject import ReviewedPod

UNSTEERED = "unsteered"
"""The audit annotation of a pod that was left as it is, though it could have been kept from some classes."""


def mutate(
    pod: ReviewedPod, cache: ClusterCache, *, mode: Mode, served: AbstractSet[str] = frozenset()
) -> Allowed | Patched:
    """Keep the pod from the classes that could never take it; nothing, if none could or all could.

    For resources that DRA serves it is kept from none: no class tells of them.
    """
    if not concerns(pod, mode=mode):
        return Allowed()
    # Wherever the pod may go: which classes could take it is the same for all that ask this.
    survey = cache.ever(dra.sure(pod.request.question, served))
    if not survey.feasible:
        return Allowed()
    operator, classes = Operator.IN, survey.feasible
    if mode is Mode.EXCLUDE:
        operator, classes = Operator.NOT_IN, survey.infeasible
    try:
        requirement = Requirement(CLASS_LABEL, operator, frozenset(classes))
        operations = inject(pod.pod, requirement, mode=mode)
    except Unsteered as error:
        return Allowed(audit={UNSTEERED: str(error)})
    if not operations:
        return Allowed()
    written = f"{operator} {','.join(sorted(requirement.values))}"
    return Patched(operations=operations, audit={"classes": written})


def concerns(pod: ReviewedPod, *, mode: Mode) -> bool:
    """Whether anything could be written: the pod asks for alignment, and a scheduler is to place it."""
    return pod.request.asks and not pod.request.pin and mode is not Mode.OFF
