"""The values of a ledger: pods assigned to nodes, what is known of each node, and the results."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from numalign.decision.evaluate import NO_INTENT
from numalign.decision.verdict import Verdict
from numalign.ledger import claims
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.machine import CpuSet
from numalign.model.node import Node
from numalign.model.placement import Held

PodName = tuple[str, str]
"""Namespace and name."""


class Source(StrEnum):
    """How it is known what a pod holds; the first known source counts.

    The agent of the pod's own node reports `kubelet`. All others are annotations on the pod, where a user who
    may write annotations can forge them, so these are checked against the pod's requests.
    """

    KUBELET = "kubelet"
    OBSERVED = "observed"
    RECORDED = "recorded"
    PREDICTED = "predicted"


SEEN = frozenset({Source.KUBELET, Source.OBSERVED})
"""The sources that observed the running pod: nothing that happened before can make them wrong."""


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """What a pod holds, and how that is known; the zones of `unknown` resources are not known.

    `cpus` are the ids of the pod's exclusive CPUs, on a node with a known machine; None if not reported.
    """

    held: Held
    source: Source
    unknown: frozenset[str] = frozenset()
    cpus: CpuSet | None = None


class Stage(StrEnum):
    """The stages of a pod on its node."""

    RESERVED = "reserved"
    BOUND = "bound"
    ADMITTED = "admitted"


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod on a node, or one with a reservation there.

    `demand` is None for a pod that cannot be read. `created` is in whole seconds since 1970, as the kubelet
    compares it; `started` likewise, by the kubelet's own clock, so it orders pods of one node only. `since`
    is when the pod reached its stage, in seconds of the ledger's clock. For a pod without `record`, `guess`
    may be what was reserved for it without certainty: it is kept free for it, and no prediction relies on it.
    `turn` orders the reservations of a node: the earlier one is bound earlier. A prediction or record of a
    `doubtful` pod is not trusted. A `terminating` pod was deleted, and its kubelet may release it at any
    time. For an `unconfirmed` pod it was not known whether it was bound, or when: its kubelet may admit it
    before others, after them, or never. `refuted` are resources for which its record is impossible
    (`counted_on`). `intent` is what is requested of its placement, policy none if nothing is. A place for an
    `awaited` pod is held before it exists.
    """

    uid: str
    name: PodName
    demand: Demand | None
    stage: Stage
    since: float = 0.0
    created: int = 0
    started: int = 0
    record: PlacementRecord | None = None
    guess: Held | None = None
    turn: int = 0
    doubtful: bool = False
    terminating: bool = False
    unconfirmed: bool = False
    refuted: frozenset[str] = frozenset()
    intent: Intent = NO_INTENT
    awaited: bool = False

    @property
    def reserved(self) -> bool:
        """Whether it has a reservation and was not seen on its node yet."""
        return self.stage is Stage.RESERVED

    @property
    def admitted(self) -> bool:
        """Whether its kubelet has admitted it."""
        return self.stage is Stage.ADMITTED

    @property
    def expected(self) -> Held | None:
        """What is kept free for it; None if unknown."""
        return self.record.held if self.record and not self.record.unknown else self.guess

    def holds(self, node: Node) -> bool:
        """Return whether this node's managers give it exclusive resources, or were seen to do so."""
        if self.record and self.record.source is Source.KUBELET:
            return bool(self.record.held)
        return self.demand is None or claims.holds(node, self.demand)

    def in_turn(self) -> tuple[int, str]:
        """Return the sort key for the order of reservations."""
        return self.turn, self.uid

    def counted_on(self, node: Node) -> "AssignedPod":
        """Return the pod with the trusted part of its record on this node, see `claims`.

        A kubelet's own report is not compared with the pod's requests: the pod may have been resized since.
        """
        record, demand = self.record, self.demand
        if record is None or record.source is Source.KUBELET:
            return self
        if demand is None:
            return replace(self, record=None)
        held, refuted = claims.checked(node, demand, record.held)
        if held is record.held and not refuted:
            return self
        due = claims.due(node, demand).all
        unknown = refuted & due.keys()
        kept = None if due and unknown == due.keys() else PlacementRecord(held, record.source, unknown)
        return replace(self, record=kept, refuted=refuted)


class Basis(StrEnum):
    """The basis of a node's free amounts, the best first."""

    OBSERVED = "observed"
    ANCHORED = "anchored"
    REPORTED = "reported"


FingerprintReader = Callable[[Node, Sequence[AssignedPod], Sequence[AssignedPod]], frozenset[PodName] | None]
"""Reads the fingerprint in a node's topology: the names of all pods that it covers, given those that must be
among them and those that may be; None if it covers others."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """All that is known of one node: the topology as published, and the pods.

    `node` has the free amounts that its topology reports, and `fingerprint` reads for which pods these
    account; None if the topology has none. `departed` are pods that are gone. All pods are as `counted_on`
    the node. If not `complete`, there may be other pods, so the free amounts cannot be computed from the
    allocatable ones.
    """

    node: Node
    assigned_pods: tuple[AssignedPod, ...] = ()
    departed: tuple[AssignedPod, ...] = ()
    fingerprint: FingerprintReader | None = None
    complete: bool = True

    def without(self, uids: Iterable[str]) -> "NodeInfo":
        """Return the same without some of its pods, as if they had never come."""
        gone = frozenset(uids)
        return replace(self, assigned_pods=tuple(pod for pod in self.assigned_pods if pod.uid not in gone))

    def after(self, uids: Iterable[str]) -> "NodeInfo":
        """Return the same after some of its pods have left."""
        gone = frozenset(uids)
        leavers = (pod for pod in self.assigned_pods if pod.uid in gone)
        return replace(self.without(gone), departed=(*self.departed, *leavers))


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """A node with what is free on it now.

    If `exact`, the free amounts are the kubelet's, as far as records are right; otherwise there may be more.
    `pending` are pods that their kubelet has not admitted yet, in the order of their reservations.
    """

    node: Node
    basis: Basis
    exact: bool
    pending: tuple[AssignedPod, ...] = ()


class Prediction(NamedTuple):
    """The prediction for a pod on a node now; `node` is as it is without the pod.

    An admitted verdict with `waits_for` pods holds only after the kubelet has admitted these. With
    `terminating` pods it holds, but the zones of the pod depend on whether these are gone by then. `held` is
    what the pod would hold as far as known, None if it is not admitted; `record` is the same if it is
    certain.
    """

    node: Node
    verdict: Verdict
    basis: Basis
    waits_for: tuple[AssignedPod, ...] = ()
    terminating: tuple[AssignedPod, ...] = ()
    held: Held | None = None
    record: PlacementRecord | None = None

    @property
    def reservable(self) -> bool:
        """Whether the pod can get a reservation that will be right."""
        return self.verdict.admitted and not self.waits_for and not self.terminating
