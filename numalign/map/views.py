"""
What the map shows: values, before anybody draws them.

Amounts are as everywhere: cpu in millicores, memory and hugepages in bytes, everything else in pieces. Times
are seconds since 1970. A view holds what its viewer may see and nothing else: of a pod in a namespace where
he may not list pods it holds amounts, zones and CPUs, never a name, a namespace, a uid or a container.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import cached_property

from numalign.cache.pod_question import StatedBy
from numalign.decision.alignment import Judgement
from numalign.kube.exporters import TopologySource
from numalign.kube.pod_informer import Phase
from numalign.kube.selectors import EVERYTHING, LabelSelector
from numalign.ledger.model import Basis, Source, Stage
from numalign.model.intent import Policy, Scope
from numalign.model.machine import CpuSet
from numalign.model.pod import Role
from numalign.model.resources import CPU, EMPTY, Resources, ZoneId

Visible = Callable[[str], bool]
"""Whether a viewer may see the names of the pods in a namespace."""


class Condition(StrEnum):
    """What makes somebody look at a node, as filters name it; `lacking` is devices that it had in health."""

    MISALIGNED = "misaligned"
    STALE = "stale"
    UNKNOWN = "unknown"
    CORDONED = "cordoned"
    NOT_READY = "not-ready"
    LACKING = "lacking"


@dataclass(frozen=True, slots=True)
class ZoneUse:
    """A zone by what the kubelet may give out of it, and what of that is free by the ledger."""

    id: ZoneId
    name: str
    allocatable: Resources
    free: Resources

    def used(self, resource: str) -> int:
        """Return how much of a resource is given out or reserved, 0 where the zone does not list it."""
        return self.allocatable.get(resource, 0) - self.free.get(resource, 0)

    def used_share(self, resource: str) -> float | None:
        """Return the same as a share of what may be given out, 0 to 1; None where that is nothing."""
        most = self.allocatable.get(resource, 0)
        return min(max(self.used(resource) / most, 0.0), 1.0) if most else None


@dataclass(frozen=True, slots=True)
class NodeTile:
    """A node, as the fleet shows it.

    `seen` is when the agent beside its kubelet looked last; None where another exporter tells of it. `basis`
    is what its free amounts rest on. `pods` counts those on it and on their way there, `misaligned` those of
    them that certainly do not sit as they were meant. `missing` are devices that it had in health.
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
        """Return how many seconds ago its agent looked, at least 0; None without an agent."""
        return None if self.seen is None else max(now - self.seen, 0.0)


@dataclass(frozen=True, slots=True)
class ClassGroup:
    """The shown nodes of one class, by name, and what all their zones have together."""

    node_class: str
    policy: Policy
    scope: Scope
    tiles: tuple[NodeTile, ...]
    allocatable: Resources
    free: Resources


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """Which nodes of a fleet are shown, and by which resource they are coloured.

    Nodes whose zones do not list the `resource` are left out if `resource_required`, that is if somebody
    named it. With `only`, nodes are shown that are in any of these conditions.
    """

    _: KW_ONLY
    selector: LabelSelector = EVERYTHING
    node_class: str = ""
    policy: Policy | None = None
    resource: str = CPU
    resource_required: bool = False
    only: frozenset[Condition] = frozenset()

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the same as name and value of a query string, without what is the default."""
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
    all that any node has, whatever is shown, for people to choose from; `counts` says how many nodes are in
    which condition, also whatever is shown. `count_shown` and `count_all` count nodes with and without
    topology. `revision` grows when anything that is shown may have changed.
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
    """What lies in a set of zones, by their names in order; no names where nobody knows the zones."""

    zones: tuple[str, ...]
    amounts: Resources


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod on a node or on its way there, and what it holds.

    `uid`, `namespace`, `name` and `owner` (`Deployment web`) are None where the viewer may not see them; such
    pods stand last, ordered by what they hold. `predicted` is what was predicted when it was placed,
    `observed` what somebody saw it hold; None where that is not known. `held` is the better of the two, and
    `source` how it is known. `cpus` are the ids of CPUs that are its own, None where nobody tells. `aligned`
    is None where nobody can say, and `why` is why not, or why nobody can say; empty if it is aligned.
    `agrees` is whether what was observed is what was predicted, None unless both are known.
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

    @property
    def hidden(self) -> bool:
        """Whether the viewer may not see which pod this is."""
        return self.uid is None

    @property
    def held(self) -> tuple[HeldInZones, ...]:
        """What it holds as far as anybody knows."""
        return self.observed if self.observed is not None else self.predicted or ()


class CpuUse(StrEnum):
    """What becomes of a CPU; one is `taken` if it is not free and nobody knows whose it is."""

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
    """A physical core, named by its smallest CPU."""

    id: int
    cpus: tuple[CpuBox, ...]


@dataclass(frozen=True, slots=True)
class CacheBox:
    """Cores that share a last-level cache."""

    id: int
    cores: tuple[CoreBox, ...]


@dataclass(frozen=True, slots=True)
class DeviceBox:
    """Devices of one resource that sit on the same zones; no zones where nobody knows where they sit.

    `total` counts all, `healthy` those that may be given out, `free` those that are left; None where no
    machine is known to tell.
    """

    resource: str
    zones: tuple[ZoneId, ...]
    total: int
    healthy: int
    free: int | None


@dataclass(frozen=True, slots=True)
class ZoneBox:
    """A zone with its cores, by cache; none where only amounts are known.

    `devices` sit on this zone alone, and `pods` are the positions of pods that hold anything of it.
    """

    use: ZoneUse
    caches: tuple[CacheBox, ...]
    devices: tuple[DeviceBox, ...]
    pods: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SocketBox:
    """A socket with its zones; `id` is None where nobody knows the sockets.

    A zone whose cores lie in several sockets stands in each of them, with the cores that are there.
    """

    id: int | None
    zones: tuple[ZoneBox, ...]


@dataclass(frozen=True)
class NodeView:
    """A node, as nested boxes, with the pods on it.

    `machine_known` says whether somebody described its CPUs. `shared_devices` sit between zones, or nobody
    knows where. `exact` says whether the free amounts are surely those of the kubelet. `labels` and `taints`
    are those of the Node.
    """

    tile: NodeTile
    sockets: tuple[SocketBox, ...]
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

    @cached_property
    def hidden(self) -> int:
        """How many of its pods the viewer may not see by name."""
        return sum(pod.hidden for pod in self.pods)


@dataclass(frozen=True, slots=True)
class ContainerAsks:
    """What a container asks to have to itself; what is `loose` is asked for in a way that no manager pins."""

    name: str
    role: Role
    asks: Resources
    loose: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodIntent:
    """How a pod wants to be aligned; `by` is who says so, None where nobody does.

    `resources` are those that it names, none for all. `scope` is None where that of the node counts.
    """

    policy: Policy
    by: StatedBy | None
    scope: Scope | None
    resources: tuple[str, ...]
    exclusive: bool


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod: where it is, what it asks, what it holds, and whether that is aligned.

    `node` is empty while it is on none, and `pinned` the node that it waits for, if any. `mistakes` are why
    it cannot be read: then it asks for nothing that is known. `on_node` is None of a pod that holds no place;
    `zones` are those of its node. `beside` are pods with an intent in its zones, of one that wants to be
    alone; those that the viewer may not see are counted in `beside_hidden`. `reason` and `message` are what
    its status says.
    """

    uid: str
    namespace: str
    name: str
    owner: str | None
    phase: Phase
    created: int
    scheduler: str
    priority: int
    gates: tuple[str, ...]
    reason: str
    message: str
    node: str
    pinned: str
    intent: PodIntent
    containers: tuple[ContainerAsks, ...]
    total: Resources
    on_node: PodOnNode | None
    zones: tuple[ZoneUse, ...]
    beside: tuple[str, ...]
    beside_hidden: int
    mistakes: tuple[str, ...]
    revision: int
    now: float


class WhatIfAnswer(StrEnum):
    """What becomes of a pod on a node, from best to worst."""

    FITS = "fits"
    NOT_NOW = "not-now"
    NOT_ANSWERED = "not-answered"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class WhatIfNode:
    """What one node says to a pod.

    `reason` is why not, a sentence without a full stop; empty where the pod fits. `score` is how good the
    placement is, 0 to 100; None where it does not fit. `placement` is what it would hold, by sets of zones as
    `numalign.io/placement` has them, and `zones` are the ids of all these zones. Far down among thousands of
    nodes both are left out, and the reason is what many nodes have in common. If not `has_room`, the node
    as a whole has too little left by the rule of kube-scheduler, whatever its zones have. `doubts` could make
    the answer wrong.
    """

    name: str
    node_class: str
    answer: WhatIfAnswer
    reason: str
    score: int | None
    placement: tuple[HeldInZones, ...]
    zones: tuple[ZoneId, ...]
    doubts: tuple[str, ...]
    has_room: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """One of several replicas, where it would come to, and the names of the zones that it would hold."""

    template: int
    node: str
    zones: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """What the webhook would say: a `refusal`, or warnings. `exempt` is why it would not look at the pod."""

    refusal: str | None
    warnings: tuple[str, ...]
    exempt: str | None

    @property
    def denied(self) -> bool:
        """Whether it would refuse the pod."""
        return self.refusal is not None


@dataclass(frozen=True, slots=True)
class WhatIfTemplate:
    """The answers to one pod, or to one pod template of a workload.

    `where` is its path in the object, empty for a pod itself. `notes` are what its owner should know of how
    the object was read. `counts` says how many nodes give which answer; `reasons` how many give it for which
    kind of reason, the best answer first, then the most nodes. `nodes` stand as the scorer ranks them, those
    that take the pod first. `unknown` are nodes without topology that it may go to as far as is known.
    """

    where: str
    intent: PodIntent
    containers: tuple[ContainerAsks, ...]
    total: Resources
    admission: WebhookAnswer
    nodes: tuple[WhatIfNode, ...]
    unknown: tuple[str, ...]
    counts: Mapping[WhatIfAnswer, int]
    reasons: tuple[tuple[int, WhatIfAnswer, str], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """What would become of a pod or a workload: nothing is reserved for it.

    `replicas` are asked for of each template (pods that the object itself makes, where nobody said how many),
    `fit_count` of them fit placed one after the other, and `placed` are those. `bounded` says that more may
    fit: fewer were tried than were asked for, for they were too many or took too long.
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
    now: float
    highlighted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node, the names of all zones in which any of the placed replicas would be."""
