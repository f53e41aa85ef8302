"""
Read the pod under review, or determine why the review is skipped.

Both endpoints for pods use the same facts, and so does the one for workloads, for each of their templates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from numalign.cache.pod_question import Exempt, Invalid, PodQuestion
from numalign.kube.decode.parts import inner
from numalign.kube.decode.pod_reader import UNASKED, PodReader
from numalign.kube.decode.pod_request import runtime_class
from numalign.kube.effective_policy import EffectivePolicy
from numalign.model.errors import BadInput
from webhook.review import AdmissionOperation, GroupVersionKind, Review

POD = GroupVersionKind("", "v1", "Pod")
JOB = GroupVersionKind("batch", "v1", "Job")


class SkipReason(StrEnum):
    """Why a review is skipped."""

    KIND = "kind"
    OPERATION = "operation"
    EXEMPT = "exempt"
    SILENT = "silent"
    OWNED = "owned"
    UNCHANGED = "unchanged"


class InvalidPod(BadInput):
    """Raised when a pod that numalign must evaluate cannot be read."""


@dataclass(frozen=True, slots=True)
class ReviewedPod:
    """One pod under review: what it requests, and the pod itself."""

    request: PodQuestion
    pod: Mapping[str, Any]


def subject(
    review: Review, policy: EffectivePolicy, *, reader: PodReader, server: int | None = None
) -> ReviewedPod | SkipReason:
    """
    Read the pod under review; raise `InvalidPod` with every mistake in its requests.

    `server` is the minor version of the API server that is to complete it, None if it is complete.
    """
    if review.kind != POD:
        return SkipReason.KIND
    if review.operation is not AdmissionOperation.CREATE or review.sub_resource:
        return SkipReason.OPERATION
    return read(review.object, review, policy, reader, server)


def job_template(
    review: Review, policy: EffectivePolicy, *, reader: PodReader, server: int | None = None
) -> ReviewedPod | SkipReason:
    """Read the pod template of the Job under review; raise `InvalidPod` as `subject` does."""
    template = inner(inner(review.object, "spec"), "template")
    if not isinstance(template, dict):
        return SkipReason.KIND
    if review.operation is not AdmissionOperation.CREATE or review.sub_resource:
        return SkipReason.OPERATION
    return read(template, review, policy, reader, server)


def exempt(pod: object, review: Review, policy: EffectivePolicy) -> str | None:
    """Return why a pod, or a pod template, is exempt; None if it is not."""
    return policy.exemption(review.namespace, runtime_class=runtime_class(pod), user=review.user.username)


def read(
    pod: object, review: Review, policy: EffectivePolicy, reader: PodReader, server: int | None
) -> ReviewedPod | SkipReason:
    """Read a pod or a pod template under review; raise `InvalidPod` as `subject` does."""
    request = reader.read(pod, review.namespace, policy, review.user.username, server=server)
    if isinstance(request, Invalid):
        raise InvalidPod(request.mistakes)
    if isinstance(request, Exempt):
        return SkipReason.SILENT if request.reason == UNASKED else SkipReason.EXEMPT
    raw: Any = pod
    return SkipReason.SILENT if request.silent else ReviewedPod(request, raw)
