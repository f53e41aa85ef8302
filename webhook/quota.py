"""
The limit of exclusive CPUs of a namespace, when a pod is created: a pod beyond it is warned about or denied.

All pods of the namespace that have not ended count, pending ones too, as in a ResourceQuota. The watch shows
a pod some time after its review, so pods that this replica admitted count until then, at most
`RECENT_SECONDS`: another webhook may have denied them afterwards. What other replicas admitted at the same
time is not known, so together they may admit the limit once each. Only who binds pods can keep it exactly.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from numalign.cache.admission import RequestReaction, invalid_text
from numalign.kube.kinds import Key
from numalign.kube.pod_counts import PodCounts
from numalign.model.errors import Mistake
from numalign.model.intent import EXCLUSIVE_CPUS
from webhook.review import Allowed, Denied, StatusReason
from webhook.validate import MESSAGE_PREFIX, long_warning

RECENT_SECONDS = 5.0
"""How long an admitted pod counts that the watch does not show: it shows nearly all within a second."""


class _Recent(NamedTuple):
    cpus: int
    until: float


@dataclass(eq=False, slots=True)
class RecentlyAdmitted:
    """The exclusive CPUs of the pods of limited namespaces that this replica has admitted, until seen.

    Of one whose name a pod has that is still counted, only what it has more.
    """

    clock: Callable[[], float]
    _pods: dict[Key, _Recent] = field(default_factory=dict)
    _sums: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        """Return how many pods are counted."""
        return len(self._pods)

    def add(self, key: Key, cpus: int) -> None:
        """Count a pod from now on; of a pod that is reviewed again, the last review counts."""
        self.forget(key)
        self._pods[key] = _Recent(cpus, self.clock() + RECENT_SECONDS)
        self._sums[key[0]] += cpus

    def beside(self, key: Key) -> int:
        """Return the sum of the namespace of a pod, without that pod."""
        now = self.clock()
        # They are in the order of their ends.
        while self._pods and self._pods[first := next(iter(self._pods))].until <= now:
            self.forget(first)
        own = self._pods.get(key)
        return self._sums[key[0]] - (own.cpus if own else 0)

    def forget(self, key: Key) -> None:
        """Stop counting a pod: the watch has shown it, or it is over."""
        if pod := self._pods.pop(key, None):
            self._sums[key[0]] -= pod.cpus
            if not self._sums[key[0]]:
                del self._sums[key[0]]


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod under review. `limit` is that of its namespace, and `cpus` what it would pin, in whole CPUs."""

    key: Key
    cpus: int
    limit: int


@dataclass(frozen=True, slots=True)
class QuotaReview:
    """Compares new pods with the limit of their namespace. `pods` are those that exist.

    `unpinned` are the nodes whose kubelets pin no CPUs.
    """

    pods: Callable[[], PodCounts]
    unpinned: Callable[[], AbstractSet[str]]
    recent: RecentlyAdmitted

    def limited(
        self, pod: NewPod, answer: Allowed | Denied, reaction: RequestReaction, *, dry_run: bool
    ) -> Allowed | Denied:
        """Return the answer to a review, changed if the pod is beyond the limit; count it if admitted."""
        if isinstance(answer, Denied) or not pod.cpus:
            return answer
        pods, unpinned = self.pods(), self.unpinned()
        existing = sum(pods.exclusive_cpus(pod.key[0], unpinned=unpinned))
        # A pod of the same name is not beside it: it is gone, or the API server will not create this one.
        others = sum(pods.exclusive_cpus(pod.key[0], unpinned=unpinned, without=pod.key))
        counted = others + self.recent.beside(pod.key)
        if counted + pod.cpus > pod.limit and reaction is not RequestReaction.IGNORE:
            answer = _beyond(pod, counted, answer, reaction)
        if isinstance(answer, Allowed) and not dry_run:
            self.recent.add(pod.key, max(0, pod.cpus - (existing - others)))
        return answer


def _beyond(pod: NewPod, counted: int, answer: Allowed, reaction: RequestReaction) -> Allowed | Denied:
    namespace, _ = pod.key
    used = f"its pods request {counted} and this one {pod.cpus}"
    limit = f"namespace {namespace} may have {pod.limit} exclusive CPUs, {used}"
    if reaction is RequestReaction.DENY:
        return Denied(
            reason=StatusReason.FORBIDDEN,
            message=f"{MESSAGE_PREFIX}: {limit}. {_ADVICE}",
            audit={"verdict": "denied", "state": OVER_QUOTA},
        )
    then = "it never gets them" if pod.cpus > pod.limit else "it gets them once others end"
    return Allowed(warnings=(*answer.warnings, long_warning(f"{limit}: {then}")), audit=answer.audit)


def uncounted(
    namespace: str, limit: int, unreadable: tuple[Mistake, ...], reaction: RequestReaction
) -> Allowed | Denied:
    """Return the answer about a pod that requests no alignment, and whose containers cannot be read."""
    if reaction is RequestReaction.IGNORE:
        return Allowed()
    why = "and those of this pod cannot be counted"
    text = f"namespace {namespace} may have {limit} exclusive CPUs, {why}: {invalid_text(unreadable)}"
    if reaction is RequestReaction.DENY:
        audit = {"verdict": "denied", "state": OVER_QUOTA}
        return Denied(reason=StatusReason.FORBIDDEN, message=f"{MESSAGE_PREFIX}: {text}", audit=audit)
    return Allowed(warnings=(long_warning(text),))


OVER_QUOTA = "over-quota"
"""The state in the audit annotations of a denied pod."""

_ADVICE = (
    "Delete pods that are not needed, or ask your platform team for a higher limit: the label"
    f" {EXCLUSIVE_CPUS} of the namespace, or exclusiveCPUs in the policy file."
)
