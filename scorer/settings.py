"""Settings of the scorer, beyond those that every program has."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from numalign.kube.settings import ClusterSettings, UnknownNodes
from numalign.ledger.reservations import KEPT_SECONDS, LAG_SECONDS
from numalign.runtime.server_settings import MIB
from numalign.runtime.settings import Contradiction
from numalign.scheduling import ranking


class ReserveAt(StrEnum):
    """When zones are reserved for a pod: when it is bound, or as soon as nodes are ranked for it."""

    BIND = "bind"
    PRIORITIZE = "prioritize"


def _strategies(text: str) -> str:
    ranking.parse_strategies(text)
    return text


def _weights(text: str) -> str:
    ranking.parse_weights(text)
    return text


class ScorerSettings(ClusterSettings):
    """The scorer."""

    renamed: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"promise": "reserve_at", "promise_seconds": "reservation_seconds"}
    )

    unknown_nodes: UnknownNodes = Field(
        default="cannot-fit",
        description=(
            "Whether a pod that must be aligned may be placed on a node without NUMA topology:"
            " cannot-fit, or may-fit if a misaligned pod is better than a pending one."
        ),
    )

    strategies: Annotated[str, AfterValidator(_strategies)] = Field(
        default="LeastNUMANodes,MostAllocated",
        description="What makes one node better than another, with commas between them: the first decides,"
        " and among equals the next. LeastNUMANodes, MostAllocated, LeastAllocated, BalancedAllocation,"
        " RelativeNUMANodes.",
    )
    weights: Annotated[str, AfterValidator(_weights)] = Field(
        default="",
        description="How much resources count in MostAllocated and LeastAllocated, as in"
        " nvidia.com/gpu=3,cpu=1; a resource that is not named counts once.",
    )
    ranking: Path | None = Field(
        default=None,
        description="YAML file of other strategies and weights for some nodes, by node selector. It is read"
        " once, when the program starts.",
    )
    reserve_at: ReserveAt = Field(
        default=ReserveAt.BIND,
        description="When zones are reserved for a pod. bind: in the call that binds it, so that the same"
        " amounts are never reserved twice; the scheduler must use the bind verb. prioritize: on the best"
        " node, as soon as nodes are ranked; the scheduler binds pods itself, and the reservation follows"
        " the pod.",
    )
    reservation_seconds: float = Field(
        default=KEPT_SECONDS,
        gt=0,
        description="How long, in seconds, zones stay reserved for a pod that is not seen bound.",
    )
    bind_wait_seconds: float = Field(
        default=3.0,
        ge=0,
        description="How long, in seconds, a pod waits to be bound while its node's kubelet has not taken"
        " pods that were bound before it. Below the scheduler's own timeout for an extender.",
    )
    max_in_flight: int = Field(
        default=2048,
        ge=0,
        description="Calls handled at once; one more is answered 503, and its pod is tried again later. One"
        " peer alone gets three quarters. Binds wait for their node, so there may be many; 0 sets no bound.",
    )
    max_bytes_in_flight: int = Field(
        default=32 * MIB,
        ge=0,
        description="Bytes that the bodies of all calls may have together, counted as they arrive; what is"
        " more is answered as above. One body alone may be longer. 0 sets no bound. The default is 32 MiB.",
    )
    max_body_bytes: int = Field(
        default=8 * MIB,
        ge=1,
        description="Bytes of the longest body; a longer one is answered 413. Parsed it takes up to 60 times"
        " as much memory, and one at a time is. The default is 8 MiB, names of all nodes many times over; a"
        " scheduler that sends whole nodes needs more, and then so does the memory limit.",
    )
    max_connections: int = Field(
        default=2048,
        ge=0,
        description="Open connections at once. One more is let in, and the one that is idle for longest is"
        " closed, of the peer that has most. 0 sets no bound. Each bind that waits has one.",
    )
    topology_lag_seconds: float = Field(
        default=LAG_SECONDS,
        ge=0,
        description="After how many seconds a topology accounts for a pod at the latest: the period of the"
        " exporter and its delay together. Counts where topologies carry no fingerprint of their pods.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """What a file cannot do."""
        yield from super().contradictions()
        if self.snapshot and self.reserve_at is ReserveAt.PRIORITIZE:
            yield Contradiction(
                ("snapshot", "reserve_at"),
                "a snapshot never shows which pods are bound: use --reserve-at bind, or a live cluster",
            )
