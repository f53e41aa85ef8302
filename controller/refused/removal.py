"""
Which rejected pods may be deleted.

A rejected pod is a failure that its controller has to see, and that users want to inspect. It may be deleted
when the controller has another active pod, created no earlier, and when enough pods that were rejected later
are kept. This applies only to controllers that are known to consider only the others by then
(`API_VERSIONS`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from controller.placing import Placing, current_policy
from numalign.kube.decode.parts import Part
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import Owner, Phase, PodInfo, owner_of
from numalign.model.intent import Heal
from numalign.model.steps import Steps
from numalign.scheduling.recent_refusals import REFUSALS, failed_at, refused

API_VERSIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {("apps", "ReplicaSet"): "apps/v1", ("", "ReplicationController"): "v1", ("batch", "Job"): "batch/v1"}
)
"""The controllers, by API group and kind, whose rejected pods may be deleted, and their API versions.

ReplicaSets and ReplicationControllers count only active pods (FilterActivePods of k8s.io/kubernetes,
pkg/controller). A Job has counted a failure once its finalizer is off the pod. StatefulSets and DaemonSets
delete failed pods themselves; how other controllers react to a deleted pod is unknown."""

JOB_TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer on a pod that its Job has not counted yet."""

_LIVING = frozenset({Phase.PENDING, Phase.RUNNING})
_A_STEP = 256


REMOVES = frozenset({Heal.FAILED, Heal.RUNNING})
"""The values of a namespace's label that allow deleting its rejected pods."""

MOST_GONE = 1024
"""Pods that may be gone without being forgotten, in addition to as many as exist."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A rejected pod that may be deleted: its `owner` has `another` active one; `kept` newer ones stay."""

    pod: PodInfo
    owner: Owner
    another: PodInfo
    kept: int


def removals(
    refused_pods: Iterable[PodInfo], pods: Iterable[PodInfo], *, heals: Callable[[str], bool], keep: int
) -> Steps[tuple[Removal, ...]]:
    """
    Return the rejected pods that may be deleted, the oldest first; of each owner the newest `keep` stay.

    `pods` are all pods, and `heals` returns whether pods of a namespace may be deleted. Takes time
    proportional to the number of pods, in steps.
    """
    surplus = yield from _surplus(refused_pods, heals, keep)
    if not surplus:
        return ()
    newest: dict[tuple[str, str], PodInfo] = {}
    for number, pod in enumerate(pods):
        if not number % _A_STEP:
            yield
        if pod.owner is None or (key := (pod.namespace, pod.owner.uid)) not in surplus:
            continue
        if pod.phase not in _LIVING or pod.leaving:
            continue
        if key not in newest or _by_age(newest[key]) < _by_age(pod):
            newest[key] = pod
    due = [
        Removal(pod, pod.owner, newest[key], keep)
        for key, several in surplus.items()
        if key in newest
        for pod in several
        if pod.owner and pod.created <= newest[key].created
    ]
    return tuple(sorted(due, key=lambda removal: _by_age(removal.pod)))


def _surplus(
    refused_pods: Iterable[PodInfo], heals: Callable[[str], bool], keep: int
) -> Steps[dict[tuple[str, str], list[PodInfo]]]:
    """Return the rejected pods of each owner but the newest, by namespace and the owner's UID."""
    by_owner: defaultdict[tuple[str, str], list[PodInfo]] = defaultdict(list)
    for number, pod in enumerate(refused_pods):
        if not number % _A_STEP:
            yield
        owner = pod.owner
        known = owner and owner.uid and (owner.group, owner.kind) in API_VERSIONS
        if owner and known and refused(pod) and not pod.leaving:
            by_owner[pod.namespace, owner.uid].append(pod)
    return {
        key: sorted(several, key=_by_age, reverse=True)[keep:]
        for key, several in by_owner.items()
        if len(several) > keep and heals(key[0])
    }


def _by_age(pod: PodInfo) -> tuple[int, int, str]:
    return pod.created, failed_at(pod), pod.uid


# The same checks on current objects of the API server.


def why_not(removal: Removal, pod: Part) -> str | None:
    """Return why the pod, as stored, must not be deleted; None if it may be."""
    metadata, status = pod["metadata"], pod["status"]
    if not _same(removal, metadata, removal.pod):
        return "changed"
    if status["phase"].value != Phase.FAILED or status["reason"].text() not in REFUSALS:
        return "changed"
    finalizers = metadata["finalizers"].value
    if isinstance(finalizers, list) and JOB_TRACKING in finalizers:
        return "uncounted"
    return None


def still_lives(removal: Removal, another: Part) -> bool:
    """Return whether the other pod, as stored, is still active."""
    same = _same(removal, another["metadata"], removal.another)
    return same and another["status"]["phase"].value in _LIVING


def _same(removal: Removal, metadata: Part, pod: PodInfo) -> bool:
    """Return whether it is the same pod of the same owner, and is not being deleted."""
    owner = owner_of(metadata)
    return (
        metadata["uid"].value == pod.uid
        and owner is not None
        and owner.uid == removal.owner.uid
        and metadata["deletionTimestamp"].value is None
    )


class RefusedPods:
    """The rejected pods that exist, by the pod events of `placing`."""

    def __init__(self, placing: Placing) -> None:
        self._placing = placing
        self._uids: set[str] = set()
        self._most = MOST_GONE

    def __len__(self) -> int:
        return len(self._uids)

    def update_pod(self, pod: PodInfo, _before: PodInfo | None) -> None:
        """Handle a pod that was added or changed."""
        if refused(pod):
            self._uids.add(pod.uid)
        # No event reports deleted pods, and a replica that does not lead never calls `due`.
        if len(self._uids) > self._most:
            self._forget()

    def _forget(self) -> None:
        self._uids &= self._placing.state.pods.keys()
        self._most = 2 * len(self._uids) + MOST_GONE

    def due(self) -> Steps[tuple[Removal, ...]]:
        """Return those that may be deleted."""
        self._forget()
        if not self._uids:
            return ()
        # Pods change between the steps.
        pods = dict(self._placing.state.pods)
        may_heal = partial(heals, self._placing.effective_policy())
        keep = self._placing.settings.keep_refused
        refused_pods = tuple(pods[uid] for uid in self._uids)
        return (yield from removals(refused_pods, pods.values(), heals=may_heal, keep=keep))

    async def permitted(self, namespace: str) -> bool:
        """Return whether a namespace, as stored, wants its rejected pods deleted; raise `ClusterError`."""
        policy = await current_policy(self._placing.api, self._placing.policy.now, namespace)
        return heals(policy, namespace)


def heals(policy: EffectivePolicy, namespace: str) -> bool:
    """Return whether a namespace wants its rejected pods deleted; not if it is exempt."""
    wants = policy.rules_for(namespace).heal in REMOVES
    return wants and policy.exemption(namespace, runtime_class="") is None
