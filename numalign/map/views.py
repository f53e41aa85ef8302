"""
The values that the map shows, before they are rendered.

Amounts have the usual units: cpu in millicores, memory and hugepages in bytes, everything else in pieces.
Times are in seconds since 1970. A view has only what its viewer may see: for a pod in a namespace where the
viewer may not list pods it has amounts, zones and CPUs, never a name, a namespace, a UID or a container.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from numalign.cache.pod_question import StatedBy
from numalign.decision.alignment import Judgement
from numalign.kube.exporters import TopologySource
from numalign.kube.pod_informer import PodInfo
from numalign.kube.selectors import EVERYTHING, LabelSelector
from numalign.ledger.model import Basis, Source, Stage
from numalign.model.demand import Step
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.machine import CpuSet
from numalign.model.resources import CPU, EMPTY, Resources, ZoneId

Visible = Callable[[str], bool]
"""Returns whether a viewer may see the names of the pods in a namespace."""


class Condition(StrEnum):
    """A problem of a node, as filters name it; `lacking` is missing devices that it has when healthy."""

    MISALIGNED = "misaligned"
    STALE = "stale"
    UNKNOWN = "unknown"
    CORDONED = "cordoned"
    NOT_READY = "not-ready"
    LACKING = "lacking"


@dataclass(frozen=True, slots=True)
class ZoneUse:
    """A zone with its allocatable amounts, and what is free of them by the ledger."""

    id: ZoneId
    name: str
    allocatable: Resources
    free: Resources


@dataclass(frozen=True, slots=True)
class NodeTile:
    """A node, as the fleet shows it.

    `seen` is when its agent last observed the kubelet; None if another exporter publishes it. `basis` is what
    its free amounts are based on. `pods` counts pods on it and on their way there, `misaligned` those of them
    that are certainly misaligned. `missing` are the devices that it has less of than when healthy.
    """

    name: str
    node_class: str
    policy: Policy
    scope: Scope
    zones: tuple[ZoneUse, ...]
    conditions: frozenset[Condition]
    source: TopologySource
    seen: float | None
    basis: Basis
    pods: int
    misaligned: int
    missing: Resources = EMPTY

    def age(self, now: float) -> float | None:
        """Return how many seconds ago its agent observed it, at least 0; None without an agent."""
        return None if self.seen is None else max(now - self.seen, 0.0)


@dataclass(frozen=True, slots=True)
class ClassGroup:
    """The shown nodes of one class, sorted by name, and the totals of their zones."""

    node_class: str
    policy: Policy
    scope: Scope
    tiles: tuple[NodeTile, ...]
    allocatable: Resources
    free: Resources


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """Which nodes of a fleet are shown, and by which resource they are coloured.

    Nodes whose zones do not list the `resource` are left out if `resource_required`, that is if the query
    names it. With `only`, only nodes in any of these conditions are shown.
    """

    _: KW_ONLY
    selector: LabelSelector = EVERYTHING
    node_class: str = ""
    policy: Policy | None = None
    resource: str = CPU
    resource_required: bool = False
    only: frozenset[Condition] = frozenset()

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the same as names and values of a query string, without defaults."""
        single = {
            "labels": str(self.selector),
            "class": self.node_class,
            "policy": self.policy or "",
            "resource": self.resource if self.resource_required else "",
        }
        only = (("only", condition.value) for condition in Condition if condition in self.only)
        return (*((name, str(value)) for name, value in single.items() if value), *only)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes that a query shows, by class, the largest group first.

    `unknown` are the names of shown nodes that publish no topology. `resources`, `classes` and `policies` are
    those of all nodes, shown or not, to choose from; `counts` has the number of nodes in each condition,
    shown or not. `count_shown` and `count_all` count nodes with and without topology. `revision` grows when
    anything that is shown may have changed.
    """

    groups: tuple[ClassGroup, ...]
    unknown: tuple[str, ...]
    resources: tuple[str, ...]
    classes: tuple[str, ...]
    policies: tuple[Policy, ...]
    counts: Mapping[Condition, int]
    count_shown: int
    count_all: int
    revision: int
    now: float


@dataclass(frozen=True, slots=True)
class HeldInZones:
    """Amounts in a set of zones, by their names in order; no names if the zones are not known."""

    zones: tuple[str, ...]
    amounts: Resources


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod on a node or on its way there, and what it holds.

    `uid`, `namespace`, `name` and `owner` (`Deployment web`) are None if the viewer may not see them; such
    pods come last, ordered by what they hold. `predicted` is what was predicted when it was placed,
    `observed` what it was observed to hold; None if not known. `held` is the better of the two, and `source`
    is how it is known. `cpus` are the ids of its exclusive CPUs, None if not known. `aligned` is None if the
    pod is not judged, and `why` is why it is misaligned or not judged; empty if it is aligned. If it is
    aligned only in part, `extent` is what is aligned, in words, `not_pinned` are the other resources, and
    `why` is the reason. `agrees` is whether what was observed is what was predicted, None unless both are
    known.
    """

    uid: str | None
    namespace: str | None
    name: str | None
    owner: str | None
    policy: Policy
    exclusive: bool
    stage: Stage
    leaving: bool
    predicted: tuple[HeldInZones, ...] | None
    observed: tuple[HeldInZones, ...] | None
    cpus: CpuSet | None
    source: Source | None
    judgement: Judgement
    aligned: bool | None
    why: str
    agrees: bool | None
    extent: str = ""
    not_pinned: tuple[str, ...] = ()

    @property
    def hidden(self) -> bool:
        """Whether the viewer may not see which pod this is."""
        return self.uid is None

    @property
    def held(self) -> tuple[HeldInZones, ...]:
        """What it holds, as far as is known."""
        return self.observed if self.observed is not None else self.predicted or ()


class CpuUse(StrEnum):
    """The use of a CPU; it is `taken` if it is not free and its holder is not known."""

    FREE = "free"
    HELD = "held"
    RESERVED = "reserved"
    TAKEN = "taken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CpuBox:
    """A hardware thread; `pod` is the position of its pod in the view's pods, None unless it is `held`."""

    id: int
    state: CpuUse
    pod: int | None = None


@dataclass(frozen=True, slots=True)
class CoreBox:
    """A physical core, identified by its smallest CPU."""

    id: int
    cpus: tuple[CpuBox, ...]


@dataclass(frozen=True, slots=True)
class CacheBox:
    """Cores that share a last-level cache."""

    id: int
    cores: tuple[CoreBox, ...]


@dataclass(frozen=True, slots=True)
class DeviceBox:
    """Devices of one resource in the same zones; no zones if these are not known.

    `total` counts all, `healthy` the allocatable ones, `free` those that are left; None if not known.
    """

    resource: str
    zones: tuple[ZoneId, ...]
    total: int
    healthy: int
    free: int | None


@dataclass(frozen=True, slots=True)
class ZoneBox:
    """A zone with its cores, by cache; no cores if only amounts are known.

    `devices` are in this zone alone, and `pods` are the positions of pods that hold anything of it.
    """

    use: ZoneUse
    caches: tuple[CacheBox, ...]
    devices: tuple[DeviceBox, ...]
    pods: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SocketBox:
    """A socket with its zones; `id` is None if the sockets are not known.

    A zone with cores in several sockets is listed in each of them, with the cores that are there.
    """

    id: int | None
    zones: tuple[ZoneBox, ...]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, as nested boxes, with the pods on it.

    `machine_known` is whether its CPUs are known. `shared_devices` are in several zones, or in unknown ones.
    `exact` is whether the free amounts are certainly those of the kubelet. `labels` and `taints` are those of
    the Node. `other_zones` are the ids of the zones that no hint can include.
    """

    tile: NodeTile
    sockets: tuple[SocketBox, ...]
    other_zones: tuple[ZoneId, ...]
    shared_devices: tuple[DeviceBox, ...]
    pods: tuple[PodOnNode, ...]
    machine_known: bool
    exact: bool
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    revision: int
    now: float

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.tile.name

    @property
    def hidden(self) -> int:
        """The number of its pods that the viewer may not see by name."""
        return sum(pod.hidden for pod in self.pods)


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as it is listed: its node, its requests, what it holds, and its alignment.

    `owner` is as in `PodOnNode`. `node` is empty while it is on none. `mistakes` are why it cannot be read:
    its requests are not known then. `by` is where its intent is stated, None if nowhere. `containers` are
    what each of them requests exclusively, in the kubelet's order. `on_node` is None if the pod is not listed
    on its node; `zones` are those of its node. For a pod with an exclusive intent, `beside` are the other
    pods with an intent in its zones; those that the viewer may not see are counted in `beside_hidden`.
    """

    pod: PodInfo
    owner: str | None
    node: str
    intent: Intent
    by: StatedBy | None
    containers: tuple[Step, ...]
    total: Resources
    on_node: PodOnNode | None
    zones: tuple[ZoneUse, ...]
    beside: tuple[str, ...]
    beside_hidden: int
    mistakes: tuple[str, ...]
    revision: int
    now: float


class WhatIfAnswer(StrEnum):
    """The answer of a node to a pod, from best to worst."""

    FITS = "fits"
    NOT_NOW = "not-now"
    NOT_ANSWERED = "not-answered"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class WhatIfNode:
    """The answer of one node to a pod.

    `reason` is why it does not fit, a sentence without a full stop; empty if it fits. `score` is that of the
    placement, 0 to 100; None if it does not fit. `placement` is what it would hold, by sets of zones as in
    `numalign.io/placement`, and `zones` are the ids of all these zones. For nodes far down in a long list
    both are left out, and the reason is one that many nodes share. `doubts` could make the answer wrong.
    """

    name: str
    node_class: str
    answer: WhatIfAnswer
    reason: str
    score: int | None
    placement: tuple[HeldInZones, ...]
    zones: tuple[ZoneId, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A placed replica: its template, its node, and the names of the zones that it would use."""

    template: int
    node: str
    zones: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIfTemplate:
    """The answers to one pod, or to one pod template of a workload.

    `where` is its path in the object, empty for a pod itself. `intent` to `total` are as in `PodView`. The
    webhook would deny it with `refusal`, or admit it with `warnings`; `exempt` is why it would skip it.
    `notes` explain to its owner how the object was read. `counts` has the number of nodes for each answer,
    `reasons` for each answer and kind of reason, the best answer first, then the most nodes. `nodes` are in
    the order of the scorer, those that fit the pod first. `unknown` are nodes without topology that it may go
    to as far as is known.
    """

    where: str
    intent: Intent
    by: StatedBy | None
    containers: tuple[Step, ...]
    total: Resources
    refusal: str | None
    warnings: tuple[str, ...]
    exempt: str | None
    nodes: tuple[WhatIfNode, ...]
    unknown: tuple[str, ...]
    counts: Mapping[WhatIfAnswer, int]
    reasons: tuple[tuple[int, WhatIfAnswer, str], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """The result of a what-if question about a pod or a workload; nothing is reserved.

    `replicas` is the requested number for each template (by default that of the object). `fit_count` of them
    fit when placed one after the other, and `placed` are those. With `bounded`, more may fit: fewer were
    tried than requested, because they were too many or took too long.
    """

    kind: str
    namespace: str
    name: str
    templates: tuple[WhatIfTemplate, ...]
    replicas: int
    fit_count: int
    placed: tuple[Placed, ...]
    bounded: bool
    revision: int
