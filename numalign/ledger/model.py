"""What a ledger is made of: pods assigned to nodes, what is known of each node, and what follows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from numalign.decision.verdict import Verdict
from numalign.ledger import claims
from numalign.model.demand import Demand
from numalign.model.node import Node
from numalign.model.placement import Held

PodName = tuple[str, str]
"""Namespace and name."""


class Source(StrEnum):
    """How it is known what a pod holds; the first one known counts."""

    OBSERVED = "observed"
    RECORDED = "recorded"
    PREDICTED = "predicted"


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """What a pod holds, and how that is known; of what is `unknown` nobody knows from which zones it is."""

    held: Held
    source: Source
    unknown: frozenset[str] = frozenset()


class Stage(StrEnum):
    """How far a pod has come on its node."""

    PROMISED = "promised"
    BOUND = "bound"
    ADMITTED = "admitted"


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod on a node, or one that was promised to it.

    `demand` is None for a pod that cannot be read. `created` is in whole seconds since 1970, as the kubelet
    compares it; `since` is when the pod came to its stage, in the seconds of whoever keeps the ledger. Of a
    pod without `record`, `guess` may be what it was promised on uncertain ground: it is kept free for it,
    and nothing is built on it. `turn` tells promises of one node apart: the earlier one is bound earlier.
    What was predicted or recorded of a `doubtful` pod is not believed. One that is `leaving` was deleted, and
    its kubelet may let go of it at any moment. Of one that is `adrift` nobody knew whether it was bound, or
    when: its kubelet may take it before others, after them, or never. `refuted` are resources of which its
    record said what cannot be, once it was `judged`.
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
    leaving: bool = False
    adrift: bool = False
    refuted: frozenset[str] = frozenset()

    @property
    def settled(self) -> bool:
        """Whether its kubelet has taken it."""
        return self.stage is Stage.ADMITTED

    @property
    def seen(self) -> bool:
        """Whether it was seen on its node, and not only promised to it."""
        return self.stage is not Stage.PROMISED

    @property
    def promised(self) -> Held | None:
        """What is kept for it; None if nobody knows."""
        return self.record.held if self.record and not self.record.unknown else self.guess

    def holds(self, node: Node) -> bool:
        """Whether the managers of this node's kubelet give it anything of its own."""
        return self.demand is None or claims.holds(node, self.demand)

    def in_turn(self) -> tuple[int, str]:
        """Sorts pods by the order of their reservations."""
        return self.turn, self.uid


class Basis(StrEnum):
    """What the free amounts of a node rest on, the best first."""

    OBSERVED = "observed"
    ANCHORED = "anchored"
    REPORTED = "reported"


FingerprintReader = Callable[[Node, Sequence[AssignedPod], Sequence[AssignedPod]], frozenset[PodName] | None]
"""Reads the fingerprint in a node's topology: the names of all pods that it stands for, those that must be
among them and those that may be given; None if it stands for others."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """All that is known of one node: the topology as it was published, and the pods.

    `node` has the free amounts that its topology reports, and `told` reads the fingerprint of the pods that
    these account for; None if it has none. `left` are pods that are gone. All pods are `judged` on the node.
    If not `complete`, there may be pods that nobody told of, so that nothing can be counted up from what the
    kubelet may give out.
    """

    node: Node
    assigned_pods: tuple[AssignedPod, ...] = ()
    left: tuple[AssignedPod, ...] = ()
    told: FingerprintReader | None = None
    complete: bool = True

    def without(self, uids: Iterable[str]) -> "NodeInfo":
        """The same without some of its pods, as if they had never come."""
        gone = frozenset(uids)
        return replace(self, assigned_pods=tuple(pod for pod in self.assigned_pods if pod.uid not in gone))

    def after(self, uids: Iterable[str]) -> "NodeInfo":
        """The same once some of its pods have left."""
        gone = frozenset(uids)
        leaving = tuple(pod for pod in self.assigned_pods if pod.uid in gone)
        return replace(self.without(gone), left=(*self.left, *leaving))


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """A node with what is free on it at the moment.

    `sure` says that the free amounts are exactly the kubelet's, as far as records are right; otherwise there
    may be more. `unsettled` are pods whose kubelet has not taken them yet, in the order of their promises.
    """

    node: Node
    basis: Basis
    sure: bool
    unsettled: tuple[AssignedPod, ...] = ()


class Prediction(NamedTuple):
    """What a node says to a pod at the moment; `node` is as it was asked, before the pod.

    An admitted verdict with `waits_for` pods holds only once their kubelet has taken these. With `leavers` it
    holds, but where the pod comes to depends on whether these are gone by then. `place` is what the pod would
    hold as far as is known, None where it is not admitted; `record` the same, where that is certain.
    """

    node: Node
    verdict: Verdict
    basis: Basis
    waits_for: tuple[AssignedPod, ...] = ()
    leavers: tuple[AssignedPod, ...] = ()
    place: Held | None = None
    record: PlacementRecord | None = None

    @property
    def stands(self) -> bool:
        """Whether the pod can be promised its placement now."""
        return self.verdict.admitted and not self.waits_for and not self.leavers


def judged(node: Node, assigned_pod: AssignedPod) -> AssignedPod:
    """The pod as it counts on this node: of its record what is believed, see `claims`."""
    record, demand = assigned_pod.record, assigned_pod.demand
    if record is None:
        return assigned_pod
    if demand is None:
        return replace(assigned_pod, record=None)
    held, refuted = claims.believed(node, demand, record.held)
    if held is record.held and not refuted:
        return assigned_pod
    due = claims.due(node, demand).all
    unknown = refuted & due.keys()
    kept = None if due and unknown == due.keys() else PlacementRecord(held, record.source, unknown)
    return replace(assigned_pod, record=kept, refuted=refuted)
