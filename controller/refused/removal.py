"""
Which refused pods may go.

A refused pod is a failure that its controller has to see, and that people want to look at. It may go when the
controller has another that lives, made no earlier, and when so many that were refused after it are kept. Only
pods of controllers are meant that are known to look at nothing but the others by then (`API_VERSIONS`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from numalign.kube.decode.parts import Part
from numalign.kube.pod_informer import Owner, Phase, PodInfo, owner_of
from numalign.model.steps import Steps
from numalign.scheduling.recent_refusals import REFUSALS, failed_at, refused

API_VERSIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {("apps", "ReplicaSet"): "apps/v1", ("", "ReplicationController"): "v1", ("batch", "Job"): "batch/v1"}
)
"""The controllers, by API group and kind, whose refused pods may go, and the version that is written of them.

ReplicaSets and ReplicationControllers count active pods alone (FilterActivePods of k8s.io/kubernetes,
pkg/controller). A Job has counted a failure once its finalizer is off the pod. StatefulSets and DaemonSets
remove failed pods themselves; of any other controller it is not known what it makes of a pod that is gone.
"""

JOB_TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer on a pod that its Job has not counted yet."""

_LIVING = frozenset({Phase.PENDING, Phase.RUNNING})
_A_STEP = 256


@dataclass(frozen=True, slots=True)
class Removal:
    """A refused pod that may go: its `owner` has `another` that lives, and `kept` newer ones stay."""

    pod: PodInfo
    owner: Owner
    another: PodInfo
    kept: int


def removals(
    refused_pods: Iterable[PodInfo], pods: Iterable[PodInfo], *, heals: Callable[[str], bool], keep: int
) -> Steps[tuple[Removal, ...]]:
    """The refused pods that may go, the oldest first; of each owner the newest `keep` stay.

    `pods` are all that there are, and `heals` says whether pods of a namespace may be removed. Takes time by
    the number of pods, in steps.
    """
    surplus = yield from _surplus(refused_pods, heals, keep)
    if not surplus:
        return ()
    newest: dict[tuple[str, str], PodInfo] = {}
    for number, pod in enumerate(pods):
        if not number % _A_STEP:
            yield
        if pod.owner is None or (key := (pod.namespace, pod.owner.uid)) not in surplus or not _lives(pod):
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
    """The refused pods of each owner but the newest, by namespace and the owner's uid."""
    by_owner: defaultdict[tuple[str, str], list[PodInfo]] = defaultdict(list)
    for number, pod in enumerate(refused_pods):
        if not number % _A_STEP:
            yield
        owner = pod.owner
        if (
            refused(pod)
            and not pod.leaving
            and owner
            and owner.uid
            and (owner.group, owner.kind) in API_VERSIONS
        ):
            by_owner[pod.namespace, owner.uid].append(pod)
    return {
        key: sorted(several, key=_by_age, reverse=True)[keep:]
        for key, several in by_owner.items()
        if len(several) > keep and heals(key[0])
    }


def _by_age(pod: PodInfo) -> tuple[int, int, str]:
    return pod.created, failed_at(pod), pod.uid


def _lives(pod: PodInfo) -> bool:
    return pod.phase in _LIVING and not pod.leaving


# The same of pods as the API server has them at the moment.


def why_not(removal: Removal, pod: Part) -> str | None:
    """Why the pod, as it is stored, is not to be removed; None if it still is."""
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
    """Whether the other pod, as it is stored, still lives."""
    return (
        _same(removal, another["metadata"], removal.another) and another["status"]["phase"].value in _LIVING
    )


def _same(removal: Removal, metadata: Part, pod: PodInfo) -> bool:
    """Whether it is that very pod of that owner, and nobody has deleted it."""
    owner = owner_of(metadata)
    return (
        metadata["uid"].value == pod.uid
        and owner is not None
        and owner.uid == removal.owner.uid
        and metadata["deletionTimestamp"].value is None
    )
