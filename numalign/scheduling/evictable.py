"""
Whether a running pod may be evicted, so that its replacement is placed better; and if not, why.

A pod that is moved is ended. It is replaced only if a controller recreates it, data on its node's disks is
lost, and in a job that runs as a group all others lose their progress with it. So any obstacle counts, and
its owner overrides it with the annotation that descheduler reads. Three obstacles cannot be overridden:
nothing recreates the pod, it returns to the same node, or it is already gone.

The rows are those of descheduler's default evictor (sigs.k8s.io/descheduler,
pkg/framework/plugins/defaultevictor: Filter and applyEffectivePodProtections; pkg/utils/pod.go for what is
local storage, a mirror or a static pod, and critical), and in addition gangs and jobs, which it does not
know. Where it checks only that `evict` exists, here it must be "true", and `prefer-no-eviction` takes
precedence: contradictory settings are not enough to end a pod.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from numalign.kube.decode import movability
from numalign.kube.decode.parts import group, inner
from numalign.kube.decode.templates import GroupKind

MOST_VOLUMES = 256
"""The limit for one pod; a pod with more is not moved."""

MOST_OWNERS = 16
"""The limit for one pod."""

SYSTEM_CRITICAL = 2 * 10**9
"""The least priority of components that a cluster needs (SystemCriticalPriority of k8s.io/kubernetes)."""

_Stored = Mapping[str, object]
"""A v1 Pod as stored, not validated."""


class Obstacle(StrEnum):
    """A reason against moving a pod."""

    ENDED = "ended"
    TERMINATING = "terminating"
    STATIC = "static"
    BARE = "bare"
    OWNERS = "owners"
    DAEMON_SET = "daemon-set"
    CRITICAL = "critical"
    UNWANTED = "unwanted"
    UNREADABLE = "unreadable"
    LOCAL_STORAGE = "local-storage"
    CLAIM = "claim"
    RESOURCE_CLAIM = "resource-claim"
    GANG = "gang"
    JOB = "job"
    UNKNOWN_OWNER = "unknown-owner"


def obstacle(pod: _Stored) -> Obstacle | None:
    """Return the first obstacle to moving this pod; None if it may be evicted.

    Never raises.
    """
    may_go = _annotations(pod).get(movability.EVICT) == "true"
    rows = ((each, row) for each, row in _ROWS.items() if row.always or not may_go)
    return next((each for each, row in rows if row.applies(pod)), None)


class _Against(NamedTuple):
    """When an obstacle exists, the sentence for users, and whether the pod cannot override it."""

    applies: Callable[[_Stored], bool]
    sentence: str
    always: bool = False


def _ended(pod: _Stored) -> bool:
    return inner(pod.get("status"), "phase") in ("Succeeded", "Failed")


def _terminating(pod: _Stored) -> bool:
    return inner(pod.get("metadata"), "deletionTimestamp") is not None


def _static(pod: _Stored) -> bool:
    annotations = _annotations(pod)
    return movability.MIRROR in annotations or annotations.get(movability.SOURCE, "api") != "api"


def _bare(pod: _Stored) -> bool:
    return not any(True for _ in _controllers(pod))


def _several_owners(pod: _Stored) -> bool:
    """Return whether it is not clear which owner would recreate it."""
    owners = inner(pod.get("metadata"), "ownerReferences")
    crowded = isinstance(owners, list) and len(owners) > MOST_OWNERS
    return crowded or len([*islice(_controllers(pod), 2)]) > 1


def _daemon_set(pod: _Stored) -> bool:
    # apps.kruise.io has one too.
    return any(kind == "DaemonSet" for _, kind in _owners(pod))


def _critical(pod: _Stored) -> bool:
    priority = inner(pod.get("spec"), "priority")
    return isinstance(priority, int) and priority >= SYSTEM_CRITICAL


def _unwanted(pod: _Stored) -> bool:
    annotations = _annotations(pod)
    return movability.PREFER_NO_EVICTION in annotations or any(
        annotations.get(key) == text for key, text in movability.STAYS.items()
    )


def _unreadable(pod: _Stored) -> bool:
    volumes = inner(pod.get("spec"), "volumes")
    if volumes is None:
        return False
    if not isinstance(volumes, list) or len(volumes) > MOST_VOLUMES:
        return True
    return not all(isinstance(volume, dict) for volume in volumes)


def _local_storage(pod: _Stored) -> bool:
    return _has_volume(pod, "emptyDir", "hostPath")


def _claim(pod: _Stored) -> bool:
    return _has_volume(pod, "persistentVolumeClaim", "ephemeral")


def _resource_claim(pod: _Stored) -> bool:
    spec = pod.get("spec")
    # An extended resource can be served by a claim that is only in the status (KEP-5004).
    extended = inner(pod.get("status"), "extendedResourceClaimStatus")
    return bool(inner(spec, "resourceClaims")) or extended is not None


def _gang(pod: _Stored) -> bool:
    metadata, spec = pod.get("metadata"), pod.get("spec")
    named = any(
        isinstance(keys := inner(metadata, field), dict) and not known.isdisjoint(keys)
        for field, known in movability.GANG_KEYS.items()
    )
    # Kubernetes' own gangs (KEP-4671): workloadRef in 1.35, schedulingGroup after it.
    own = inner(spec, "workloadRef") is not None or inner(spec, "schedulingGroup") is not None
    return named or own or any(map(_of_gang, _owners(pod)))


def _of_gang(owner: GroupKind) -> bool:
    return owner in movability.GANGS or owner[0] in movability.GANG_GROUPS


def _job(pod: _Stored) -> bool:
    return ("batch", "Job") in _owners(pod)


def _unknown_owner(pod: _Stored) -> bool:
    return not all(owner in MAKES_ANEW for owner in _controllers(pod))


MAKES_ANEW: frozenset[GroupKind] = frozenset(
    {
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("", "ReplicationController"),
        ("apps.kruise.io", "CloneSet"),
        ("apps.kruise.io", "StatefulSet"),
        # A Job has a row of its own.
        ("batch", "Job"),
    }
)
"""Controllers that replace a deleted pod by another of the same template."""

_ROWS: Mapping[Obstacle, _Against] = MappingProxyType(
    {
        Obstacle.ENDED: _Against(_ended, "it has ended", always=True),
        Obstacle.TERMINATING: _Against(_terminating, "it is already being deleted", always=True),
        Obstacle.STATIC: _Against(
            _static, "it is a static pod, which its kubelet would start again", always=True
        ),
        Obstacle.BARE: _Against(_bare, "no controller owns it, so nothing would replace it", always=True),
        Obstacle.OWNERS: _Against(
            _several_owners,
            "it has several controllers, so it is unknown which would replace it",
            always=True,
        ),
        Obstacle.DAEMON_SET: _Against(
            _daemon_set, "a DaemonSet owns it and would replace it on the same node", always=True
        ),
        Obstacle.UNWANTED: _Against(
            _unwanted,
            "its annotations forbid eviction (prefer-no-eviction, safe-to-evict or do-not-disrupt)",
            always=True,
        ),
        Obstacle.CRITICAL: _Against(_critical, "it has a system-critical priority"),
        Obstacle.UNREADABLE: _Against(_unreadable, "its volumes cannot be read"),
        Obstacle.LOCAL_STORAGE: _Against(
            _local_storage, "it has an emptyDir or hostPath volume, whose data would be lost or left behind"
        ),
        Obstacle.CLAIM: _Against(_claim, "it uses a PersistentVolumeClaim, which may be tied to its node"),
        Obstacle.RESOURCE_CLAIM: _Against(
            _resource_claim, "it has ResourceClaims, which are tied to its node"
        ),
        Obstacle.GANG: _Against(
            _gang, "it belongs to a pod group that runs as a whole and would lose its progress"
        ),
        Obstacle.JOB: _Against(
            _job, "a Job owns it and may count its eviction as a failure (backoffLimit, podFailurePolicy)"
        ),
        Obstacle.UNKNOWN_OWNER: _Against(
            _unknown_owner, "it is unknown whether its controller replaces pods"
        ),
    }
)

SENTENCES: Mapping[Obstacle, str] = MappingProxyType({each: row.sentence for each, row in _ROWS.items()})
"""A sentence about each obstacle, without a full stop."""

MAY_BE_WAIVED: frozenset[Obstacle] = frozenset(each for each, row in _ROWS.items() if not row.always)
"""The obstacles that a pod overrides by `evict: "true"`."""


def _annotations(pod: _Stored) -> Mapping[str, object]:
    annotations = inner(pod.get("metadata"), "annotations")
    return annotations if isinstance(annotations, dict) else {}


def _references(pod: _Stored) -> Iterator[Mapping[str, object]]:
    owners = inner(pod.get("metadata"), "ownerReferences")
    listed = owners if isinstance(owners, list) else []
    return (owner for owner in islice(listed, MOST_OWNERS) if isinstance(owner, dict))


def _owners(pod: _Stored) -> Iterator[GroupKind]:
    return map(_owner, _references(pod))


def _controllers(pod: _Stored) -> Iterator[GroupKind]:
    return (_owner(owner) for owner in _references(pod) if owner.get("controller") is True)


def _owner(reference: Mapping[str, object]) -> GroupKind:
    version, kind = reference.get("apiVersion"), reference.get("kind")
    return group(version) if isinstance(version, str) else "", kind if isinstance(kind, str) else ""


def _has_volume(pod: _Stored, *sources: str) -> bool:
    volumes = inner(pod.get("spec"), "volumes")
    listed = volumes if isinstance(volumes, list) else []
    listed = listed[:MOST_VOLUMES]
    return any(inner(volume, source) is not None for volume in listed for source in sources)
