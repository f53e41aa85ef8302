"""
The keys by which a pod says whether it may be moved, or is one of a group that runs together.

Each is the constant of the project that reads it. `numalign.scheduling.evictable` interprets them; this
module lists what has to be kept of a pod for that.
"""

from collections.abc import Mapping
from types import MappingProxyType

from numalign.kube.decode.templates import GroupKind

EVICT = "descheduler.alpha.kubernetes.io/evict"
"""`"true"`: the pod may be evicted whatever it holds."""

PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""The pod should stay, whatever the value is."""

UNDISRUPTED = ("karpenter.sh/do-not-disrupt", "true")
"""Karpenter evicts no such pod to remove its node (pkg/apis/v1/labels.go, DoNotDisruptAnnotationKey)."""

STAYS: Mapping[str, str] = MappingProxyType(
    dict([("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), UNDISRUPTED])
)
"""What other programs that move pods read on pods that should stay."""

MIRROR = "kubernetes.io/config.mirror"
SOURCE = "kubernetes.io/config.source"
"""The source of a kubelet's pod: `api`, or a file of its own."""

_LABELS = frozenset(
    {
        "scheduling.x-k8s.io/pod-group",  # scheduler-plugins; Koordinator reads the older ones too
        "pod-group.scheduling.sigs.k8s.io",
        "pod-group.scheduling.sigs.k8s.io/name",
        "kueue.x-k8s.io/pod-group-name",  # groups of plain pods
        "jobset.sigs.k8s.io/jobset-name",
        "trainer.kubeflow.org/trainjob-ancestor-step",  # Kubeflow's trainer makes JobSets
        "leaderworkerset.sigs.k8s.io/name",
        "ray.io/cluster",
        "training.kubeflow.org/job-name",  # the training operator and the MPI operator
        "training.kubeflow.org/operator-name",
        "volcano.sh/job-name",
        "grove.io/podgang",
        "spark-role",  # executors are lost without their driver
    }
)
_ANNOTATIONS = frozenset(
    {
        "scheduling.k8s.io/group-name",  # Volcano
        "scheduling.volcano.sh/group-name",
        "pod-group-name",  # KAI-Scheduler
        "gang.scheduling.koordinator.sh/name",
        "yunikorn.apache.org/task-group-name",
        "yunikorn.apache.org/task-groups",
        "jobset.sigs.k8s.io/jobset-name",
        "kueue.x-k8s.io/pod-group-total-count",
    }
)
GANG_KEYS: Mapping[str, frozenset[str]] = MappingProxyType({"labels": _LABELS, "annotations": _ANNOTATIONS})

GANGS: frozenset[GroupKind] = frozenset(
    {("batch.volcano.sh", "Job"), ("jobset.x-k8s.io", "JobSet"), ("sparkoperator.k8s.io", "SparkApplication")}
)
GANG_GROUPS = frozenset(
    {"kubeflow.org", "trainer.kubeflow.org", "leaderworkerset.x-k8s.io", "ray.io", "grove.io"}
)
"""API groups all of whose kinds create pods that run as a group."""

ANNOTATIONS = (EVICT, PREFER_NO_EVICTION, *STAYS, MIRROR, SOURCE, *sorted(_ANNOTATIONS))

VOLUMES = ("emptyDir", "hostPath", "persistentVolumeClaim", "ephemeral")
"""Kinds of volumes that a pod leaves behind, or that bind it to its place."""
