"""
The attributes of a node that decide which pods may run there: labels, taints and conditions.

Labels and taints are on the Node object and are edited by the team that runs it. Some taints are set and
removed with the condition of the node and do not last.
"""

import re
from collections.abc import ItemsView, Iterator, KeysView, Mapping
from dataclasses import dataclass
from functools import lru_cache

from numalign.model.sharing import shared

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
EFFECTS = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects of a taint that keep pods away; PreferNoSchedule only ranks."""


class Labels(Mapping[str, str]):
    """The labels of one node, frozen and hashable. All nodes of a pool share the keys."""

    __slots__ = ("_hash", "_places", "_values")

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        ordered = sorted((labels or {}).items())
        self._places = _places(tuple(key for key, _ in ordered))
        self._values = tuple(value for _, value in ordered)
        self._hash: int | None = None

    def __getitem__(self, key: str) -> str:
        return self._values[self._places[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def keys(self) -> KeysView[str]:
        """Return the keys, in order; nodes with the same keys return the same view."""
        return self._places.keys()

    def items(self) -> ItemsView[str, str]:
        """Return pairs of key and value, by key."""
        return dict(zip(self._places, self._values, strict=True)).items()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((tuple(self._places), self._values))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Labels):
            return self._values == other._values and (
                self._places is other._places or self._places == other._places
            )
        return NotImplemented

    def __repr__(self) -> str:
        return f"Labels({dict(self)})"


@lru_cache(maxsize=1024)
def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {key: at for at, key in enumerate(keys)}


NO_LABELS = Labels()

OS_LABEL = "kubernetes.io/os"
"""The label of a node with its operating system."""


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A v1.Taint that keeps pods away (`EFFECTS`)."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    @property
    def passing(self) -> bool:
        """Whether controllers set and remove it with the condition of the node; decided by its key."""
        return (
            self.key in _PASSING
            or self.key.startswith(_PASSING_PREFIXES)
            or _PASSING_WORDS.search(self.key.lower()) is not None
        )

    def __str__(self) -> str:
        """Return it as kubectl writes it: `dedicated=gpu:NoSchedule`."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


# Set and removed by the node lifecycle controller, cloud providers, network and storage plugins, autoscalers
# and tools that repair nodes. Startup and status taints are those of cluster-autoscaler's FAQ.
_PASSING_PREFIXES = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cilium.io/",
    "node.cluster.x-k8s.io/",
    "karpenter.sh/",
    "readiness.k8s.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "aws-node-termination-handler/",
    "nidhogg.uswitch.com/",
)

# Startup taints and those of repairs have keys of their own everywhere. One that is taken for passing by
# mistake costs a denial, the other way a pod.
_PASSING_WORDS = re.compile(
    r"not-?ready|unready|startup|initiali[sz]|unhealthy|maintenance|drain|quarantin|interruption|terminat"
)
_PASSING = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "cloud.google.com/impending-node-termination",
        "ebs.csi.aws.com/agent-not-ready",
        "efs.csi.aws.com/agent-not-ready",
        "fsx.csi.aws.com/agent-not-ready",
        "medik8s.io/remediation",
    }
)

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable")
"""The taint of a cordoned node."""

NOT_READY = Taint("node.kubernetes.io/not-ready")
"""The taint of a node that is not ready."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a node that decide which pods may run there.

    `taints` are those that keep pods away, passing ones included. `cordoned` nodes and those that are not
    `ready` take no new pods for now. `os` is the operating system, as Go names it; empty if unknown.
    """

    labels: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True
    os: str = ""

    @property
    def lasting(self) -> tuple[Taint, ...]:
        """The taints that are not `passing`, sorted by key, value and effect."""
        return shared(tuple(sorted(taint for taint in self.taints if not taint.passing)))


NO_ATTRIBUTES = Attributes()
"""The attributes of a node whose Node object is not known: no labels, no taints, ready."""
