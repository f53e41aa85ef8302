"""
The limit of exclusive CPUs of a namespace, when a pod is created: a pod beyond it is warned about or denied.

All pods of the namespace that have not ended count, pending ones too, as in a ResourceQuota. The watch shows
a pod some time after its review, so pods that this replica admitted count until then, at most
`RECENT_SECONDS`: another webhook may have denied them afterwards. What other replicas admitted at the same
time is not known, so together they may admit the limit once each. Only who binds pods can keep it exactly.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from numalign.cache.admission import RequestReaction, invalid_text
from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.kinds import Key
from numalign.model.intent import EXCLUSIVE_CPUS
from webhook.known_cluster import KnownCluster
from webhook.review import MESSAGE_PREFIX, Allowed, Denied, Review, StatusReason, long_warning

RECENT_SECONDS = 5.0  # How long an admitted pod counts that the watch does not show; most come in one.
LONGEST_NAME = 253  # The limit of characters in the name of a pod (k8s.io/apimachinery, IsDNS1123Subdomain).
OVER_QUOTA = "over-quota"  # The state in the audit annotations of a denied pod.


@dataclass(eq=False, slots=True)
class RecentlyAdmitted:
    """The exclusive CPUs of the pods of limited namespaces that this replica has admitted, until seen.

    Of one whose name a pod has that is still counted, only what it has more.
    """

    clock: Callable[[], float]
    _pods: dict[Key, tuple[int, float]] = field(default_factory=dict)
    """The CPUs of each, and until when they count, in this order."""
    _sums: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        """Return how many pods are counted."""
        return len(self._pods)

    def add(self, key: Key, cpus: int) -> None:
        """Count a pod from now on; of a pod that is reviewed again, the last review counts."""
        self.forget(key)
        self._pods[key] = cpus, self.clock() + RECENT_SECONDS
        self._sums[key[0]] += cpus

    def beside(self, key: Key) -> int:
        """Return the sum of the namespace of a pod, without that pod."""
        now = self.clock()
        while self._pods and self._pods[first := next(iter(self._pods))][1] <= now:
            self.forget(first)
        own, _ = self._pods.get(key, (0, now))
        return self._sums[key[0]] - own

    def forget(self, key: Key) -> None:
        """Stop counting a pod: the watch has shown it, or it is over."""
        if key in self._pods:
            self._sums[key[0]] -= self._pods.pop(key)[0]
            if not self._sums[key[0]]:
                del self._sums[key[0]]


@dataclass(frozen=True, slots=True)
class QuotaReview:
    """Compares new pods with the limit of their namespace, and counts those that are admitted in `recent`."""

    known: KnownCluster
    reader: PodReader
    recent: RecentlyAdmitted

    def limited(self, review: Review, policy: EffectivePolicy, answer: Allowed | Denied) -> Allowed | Denied:
        """Return the answer to a review, changed if the pod is beyond the limit of its namespace."""
        namespace, reaction = review.namespace, policy.policy.over_quota
        limit, unpinned = policy.exclusive_cpus(namespace), self.known.unpinned
        if limit is None:
            return answer
        pin = scheduling(review.object).pin
        if pin and pin.node in unpinned:
            return answer
        may_have = f"namespace {namespace} may have {limit}"
        request = self.reader.request(review.object, most_mistakes=1)
        if request.demand is None:
            # It requests no alignment: otherwise it would be denied as invalid.
            why = invalid_text(request.unreadable)
            text = f"{may_have} exclusive CPUs, and those of this pod cannot be counted: {why}"
            return _beyond(text, "", "", Allowed(), reaction)
        cpus = request.demand.exclusive_cpus
        if isinstance(answer, Denied) or not cpus:
            return answer
        # Nothing but its request identifies a pod whose name is generated later.
        name = review.name or Part(review.object)["metadata"]["name"].text()
        key = namespace, name[:LONGEST_NAME] or f"/{review.uid}"
        pods = self.known.feed.pod_counts()
        existing = sum(pods.exclusive_cpus(namespace, unpinned=unpinned))
        # A pod of the same name is not beside it: it is gone, or the API server will not create this one.
        others = sum(pods.exclusive_cpus(namespace, unpinned=unpinned, without=key))
        counted = others + self.recent.beside(key)
        if counted + cpus > limit:
            then = "it never gets them" if cpus > limit else "it gets them once others end"
            text = f"{may_have} exclusive CPUs, its pods request {counted} and this one {cpus}"
            advice = (
                ". Delete pods that are not needed, or ask your platform team for a higher limit: the label"
                f" {EXCLUSIVE_CPUS} of the namespace, or exclusiveCPUs in the policy file."
            )
            answer = _beyond(text, advice, f": {then}", answer, reaction)
        if isinstance(answer, Allowed) and not review.dry_run:
            self.recent.add(key, max(0, cpus - (existing - others)))
        return answer


def _beyond(
    text: str, advice: str, then: str, answer: Allowed, reaction: RequestReaction
) -> Allowed | Denied:
    """Return the answer about a pod beyond the limit: `advice` ends a denial, and `then` a warning."""
    if reaction is RequestReaction.IGNORE:
        return answer
    if reaction is RequestReaction.DENY:
        return Denied(
            reason=StatusReason.FORBIDDEN,
            message=f"{MESSAGE_PREFIX}: {text}{advice}",
            audit={"verdict": "denied", "state": OVER_QUOTA},
        )
    return Allowed(warnings=(*answer.warnings, long_warning(f"{text}{then}")), audit=answer.audit)
