"""What a ledger is made of: pods assigned to nodes, what is known of each node, and what follows."""

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
    """How it is known what a pod holds; the first one known counts.

    The agent beside the pod's own kubelet says `kubelet`. All others stand on the pod, where whoever may
    write annotations can claim them, so these are checked against what the pod asks for.
    """

    KUBELET = "kubelet"
    OBSERVED = "observed"
    RECORDED = "recorded"
    PREDICTED = "predicted"


SEEN = frozenset({Source.KUBELET, Source.OBSERVED})
"""What somebody saw, once the pod was there: nothing that happened before can make it wrong."""


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """What a pod holds, and how that is known; of what is `unknown` nobody knows from which zones it is.

    `cpus` are the ids of CPUs that are the pod's own, on a node whose machine is known; None if nobody told.
    """

    held: Held
    source: Source
    unknown: frozenset[str] = frozenset()
    cpus: CpuSet | None = None


class Stage(StrEnum):
    """How far a pod has come on its node."""

    RESERVED = "reserved"
    BOUND = "bound"
    ADMITTED = "admitted"


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod on a node, or one with a reservation there.

    `demand` is None for a pod that cannot be read. `created` is in whole seconds since 1970, as the kubelet
    compares it; `since` is when the pod came to its stage, in the seconds of whoever keeps the ledger. Of a
    pod without `record`, `guess` may be what was reserved for it without certainty: it is kept free for it,
    and nothing is built on it. `turn` orders the reservations of a node: the earlier one is bound earlier.
    What was predicted or recorded of a `doubtful` pod is not believed. One that is `terminating` was deleted,
    and its kubelet may let go of it at any time. Of one that is `unconfirmed` nobody knew whether it was
    bound, or when: its kubelet may take it before others, after them, or never. `refuted` are resources of
    which its record says what cannot be (`counted_on`). `intent` is what somebody asks of its placement,
    policy none where nobody does.
    """

    uid: str
    name: PodName
    demand: Demand | None
    stage: Stage
    since: float = 0.0
    created: int = 0
    record: PlacementRecord | None = None
    guess: Held | None = None
    turn: int = 0
    doubtful: bool = False
    terminating: bool = False
    unconfirmed: bool = False
    refuted: frozenset[str] = frozenset()
    intent: Intent = NO_INTENT

    @property
    def reserved(self) -> bool:
        """Whether it has a reservation and was not seen on its node yet."""
        return self.stage is Stage.RESERVED

    @property
    def admitted(self) -> bool:
        """Whether its kubelet has taken it."""
        return self.stage is Stage.ADMITTED

    @property
    def expected(self) -> Held | None:
        """What is kept free for it; None if nobody knows."""
        return self.record.held if self.record and not self.record.unknown else self.guess

    def holds(self, node: Node) -> bool:
        """Return whether the managers of this node's kubelet give it anything of its own, or were seen to."""
        if self.record and self.record.source is Source.KUBELET:
            return bool(self.record.held)
        return self.demand is None or claims.holds(node, self.demand)

    def in_turn(self) -> tuple[int, str]:
        """Sorts pods by the order of their reservations."""
        return self.turn, self.uid

    def counted_on(self, node: Node) -> "AssignedPod":
        """Return the pod with as much of its record as is believed on this node, see `claims`.

        A kubelet's own word is not held against what the pod asks for: it was resized since, perhaps.
        """
        record, demand = self.record, self.demand
        if record is None or record.source is Source.KUBELET:
            return self
        if demand is None:
            return replace(self, record=None)
        held, refuted = claims.believed(node, demand, record.held)
        if held is record.held and not refuted:
            return self
        due = claims.due(node, demand).all
        unknown = refuted & due.keys()
        kept = None if due and unknown == due.keys() else PlacementRecord(held, record.source, unknown)
        return replace(self, record=kept, refuted=refuted)

    def observed_as(self, record: PlacementRecord) -> "AssignedPod":
        """Return the pod as its kubelet has it, which has admitted it and knows better than anybody."""
        return replace(
            self,
            stage=Stage.ADMITTED,
            record=record,
            guess=None,
            doubtful=False,
            unconfirmed=False,
            refuted=frozenset(),
        )


class Basis(StrEnum):
    """What the free amounts of a node rest on, the best first."""

    OBSERVED = "observed"
    ANCHORED = "anchored"
    REPORTED = "reported"


FingerprintReader = Callable[[Node, Sequence[AssignedPod], Sequence[AssignedPod]], frozenset[PodName] | None]
"""Reads the fingerprint in a node's topology: the names of all pods that it stands for, given those that must
be among them and those that may be; None if it stands for others."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """All that is known of one node: the topology as it was published, and the pods.

    `node` has the free amounts that its topology reports, and `fingerprint` reads which pods these account
    for; None if the topology has none. `departed` are pods that are gone. All pods are as `counted_on` the
    node. If not `complete`, there may be other pods, so that nothing can be counted up from what the kubelet
    may give out.
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
        """Return the same once some of its pods have left."""
        gone = frozenset(uids)
        leavers = (pod for pod in self.assigned_pods if pod.uid in gone)
        return replace(self.without(gone), departed=(*self.departed, *leavers))


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """A node with what is free on it now.

    If `exact`, the free amounts are the kubelet's, as far as records are right; otherwise there may be more.
    `pending` are pods whose kubelet has not taken them yet, in the order of their reservations.
    """

    node: Node
    basis: Basis
    exact: bool
    pending: tuple[AssignedPod, ...] = ()


class Prediction(NamedTuple):
    """What a node answers a pod now; `node` is as it is without the pod.

    An admitted verdict with `waits_for` pods holds only once their kubelet has taken these. With pods that
    are `terminating` it holds, but where the pod comes to depends on whether these are gone by then. `held`
    is what the pod would hold as far as is known, None where it is not admitted; `record` the same, where
    that is certain.
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
        """Whether the pod can be given a reservation that will come true."""
        return self.verdict.admitted and not self.waits_for and not self.terminating
