"""
Judge the change of a pod that exists: no pod falls below what its namespace enforces.

API servers send such changes only where they know no ValidatingAdmissionPolicy (before 1.30): elsewhere
`numalign-levels` applies the same rule. The annotations of a Binding are copied to its pod.
"""

from collections.abc import Mapping

from numalign.cache.admission import AdmissionState
from numalign.kube.decode.parts import Part
from numalign.kube.effective_policy import EffectivePolicy
from numalign.model import intent
from numalign.model.intent import DECISIVE, Policy
from webhook.review import AdmissionOperation, Allowed, Denied, GroupVersionKind, Review, StatusReason
from webhook.subject import POD, SkipReason, exempt
from webhook.validate import MESSAGE_PREFIX

BINDING = GroupVersionKind("", "v1", "Binding")


def is_change(review: Review) -> bool:
    """Return whether a review is about a pod that exists, or a Binding of one."""
    return review.kind == BINDING or (review.kind == POD and review.operation is AdmissionOperation.UPDATE)


def judge(review: Review, policy: EffectivePolicy) -> Allowed | Denied | SkipReason:
    """Deny what weakens an annotation in a namespace that enforces; skip what changes none."""
    before, after = _decisive(review.old), _decisive(review.object)
    if before == after:
        return SkipReason.UNCHANGED
    if exempt(review.object, review, policy) is not None:
        return SkipReason.EXEMPT
    level = policy.rules_for(review.namespace).enforce or Policy.NONE
    weakened = intent.weakened(before, after, level)
    if level is Policy.NONE or not weakened:
        return Allowed()
    names = ", ".join(weakened)
    message = (
        f'{MESSAGE_PREFIX}: namespace "{review.namespace}" enforces NUMA alignment {level}, so the annotation'
        f" {names} of an existing pod may only become stricter: leave it as it is, or create another pod"
    )
    audit = {"verdict": "denied", "state": AdmissionState.BELOW_ENFORCED, "level": level.value}
    return Denied(reason=StatusReason.FORBIDDEN, message=message, audit=audit)


def _decisive(raw: Mapping[str, object]) -> dict[str, str]:
    annotations = Part(raw)["metadata"]["annotations"]
    return {key: text for key in DECISIVE if isinstance(text := annotations[key].value, str)}
