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

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from numalign.kube.decode import movability
from numalign.kube.decode.parts import group, inner
from numalign.kube.decode.templates import GroupKind

MOST_VOLUMES = 256
"""The limit for one pod; a pod with more is not moved."""

MOST_OWNERS = 16
"""The limit for one pod."""

SYSTEM_CRITICAL = 2 * 10**9
"""The least priority of components that a cluster needs (SystemCriticalPriority of k8s.io/kubernetes)."""


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


_ALWAYS: Mapping[Obstacle, str] = MappingProxyType(
    {
        Obstacle.ENDED: "it has ended",
        Obstacle.TERMINATING: "it is already being deleted",
        Obstacle.STATIC: "it is a static pod, which its kubelet would start again",
        Obstacle.BARE: "no controller owns it, so nothing would replace it",
        Obstacle.OWNERS: "it has several controllers, so it is unknown which would replace it",
        Obstacle.DAEMON_SET: "a DaemonSet owns it and would replace it on the same node",
        Obstacle.UNWANTED: (
            "its annotations forbid eviction (prefer-no-eviction, safe-to-evict or do-not-disrupt)"
        ),
    }
)

_WITHOUT_CONSENT: Mapping[Obstacle, str] = MappingProxyType(
    {
        Obstacle.CRITICAL: "it has a system-critical priority",
        Obstacle.UNREADABLE: "its volumes cannot be read",
        Obstacle.LOCAL_STORAGE: (
            "it has an emptyDir or hostPath volume, whose data would be lost or left behind"
        ),
        Obstacle.CLAIM: "it uses a PersistentVolumeClaim, which may be tied to its node",
        Obstacle.RESOURCE_CLAIM: "it has ResourceClaims, which are tied to its node",
        Obstacle.GANG: "it belongs to a pod group that runs as a whole and would lose its progress",
        Obstacle.JOB: (
            "a Job owns it and may count its eviction as a failure (backoffLimit, podFailurePolicy)"
        ),
        Obstacle.UNKNOWN_OWNER: "it is unknown whether its controller replaces pods",
    }
)

SENTENCES: Mapping[Obstacle, str] = MappingProxyType({**_ALWAYS, **_WITHOUT_CONSENT})
"""A sentence about each obstacle, without a full stop; in the order in which they count."""

MAY_BE_WAIVED = frozenset(_WITHOUT_CONSENT)
"""The obstacles that a pod overrides by `evict: "true"`."""

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


def obstacle(pod: Mapping[str, object]) -> Obstacle | None:
    """Return the first obstacle to moving this v1 Pod, None if it may be evicted; never raise for any pod."""
    metadata, spec, status = pod.get("metadata"), pod.get("spec"), pod.get("status")
    annotations = _dict(inner(metadata, "annotations"))
    references, volumes = inner(metadata, "ownerReferences"), inner(spec, "volumes")
    known = [each for each in _list(references)[:MOST_OWNERS] if isinstance(each, dict)]
    owners = [_owner(each) for each in known]
    controllers = [_owner(each) for each in known if each.get("controller") is True]
    read = [_dict(volume) for volume in _list(volumes)[:MOST_VOLUMES]]
    sources = {source for volume in read for source in volume if volume[source] is not None}
    priority = inner(spec, "priority")
    grouped = [
        not keys.isdisjoint(_dict(inner(metadata, field))) for field, keys in movability.GANG_KEYS.items()
    ]
    applies = {
        Obstacle.ENDED: inner(status, "phase") in ("Succeeded", "Failed"),
        Obstacle.TERMINATING: inner(metadata, "deletionTimestamp") is not None,
        Obstacle.STATIC: (
            movability.MIRROR in annotations or annotations.get(movability.SOURCE, "api") != "api"
        ),
        Obstacle.BARE: not controllers,
        # With too many it is not clear either which of them would recreate it.
        Obstacle.OWNERS: len(controllers) > 1 or len(_list(references)) > MOST_OWNERS,
        # apps.kruise.io has one too.
        Obstacle.DAEMON_SET: any(kind == "DaemonSet" for _, kind in owners),
        Obstacle.UNWANTED: (
            movability.PREFER_NO_EVICTION in annotations
            or any(annotations.get(key) == text for key, text in movability.STAYS.items())
        ),
        Obstacle.CRITICAL: isinstance(priority, int) and priority >= SYSTEM_CRITICAL,
        Obstacle.UNREADABLE: volumes is not None
        and not (
            isinstance(volumes, list)
            and len(volumes) <= MOST_VOLUMES
            and all(isinstance(volume, dict) for volume in volumes)
        ),
        Obstacle.LOCAL_STORAGE: not sources.isdisjoint(("emptyDir", "hostPath")),
        Obstacle.CLAIM: not sources.isdisjoint(("persistentVolumeClaim", "ephemeral")),
        # An extended resource can be served by a claim that is only in the status (KEP-5004).
        Obstacle.RESOURCE_CLAIM: (
            bool(inner(spec, "resourceClaims")) or inner(status, "extendedResourceClaimStatus") is not None
        ),
        # Kubernetes' own gangs (KEP-4671): workloadRef in 1.35, schedulingGroup after it.
        Obstacle.GANG: any(grouped)
        or inner(spec, "workloadRef") is not None
        or inner(spec, "schedulingGroup") is not None
        or any(owner in movability.GANGS or owner[0] in movability.GANG_GROUPS for owner in owners),
        Obstacle.JOB: ("batch", "Job") in owners,
        Obstacle.UNKNOWN_OWNER: not all(owner in MAKES_ANEW for owner in controllers),
    }
    may_go = annotations.get(movability.EVICT) == "true"
    return next((each for each in (_ALWAYS if may_go else SENTENCES) if applies[each]), None)


def _owner(reference: Mapping[str, object]) -> GroupKind:
    version, kind = reference.get("apiVersion"), reference.get("kind")
    return group(version) if isinstance(version, str) else "", kind if isinstance(kind, str) else ""


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
