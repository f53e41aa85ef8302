"""The settings of the scorer, in addition to those of every program."""

from collections.abc import Callable, Iterator, Mapping
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


def _read_by(parse: Callable[[str], object]) -> AfterValidator:
    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


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

    strategies: Annotated[str, _read_by(ranking.parse_strategies)] = Field(
        default="LeastNUMANodes,MostAllocated",
        description=(
            "Comma-separated strategies that rank nodes; each one breaks the ties of those before it."
            " Available are LeastNUMANodes, MostAllocated, LeastAllocated, BalancedAllocation and"
            " RelativeNUMANodes."
        ),
    )
    weights: Annotated[str, _read_by(ranking.parse_weights)] = Field(
        default="",
        description=(
            "Weights of resources in MostAllocated and LeastAllocated, such as nvidia.com/gpu=3,cpu=1."
            " The default weight is 1."
        ),
    )
    ranking: Path | None = Field(
        default=None,
        description=(
            "YAML file with other strategies and weights for some nodes, by node selector. It is read"
            " once, at startup."
        ),
    )
    reserve_at: ReserveAt = Field(
        default=ReserveAt.BIND,
        description=(
            "When to reserve zones for a pod. bind: in the bind call, so that no capacity is reserved"
            " twice; the scheduler must use the bind verb. prioritize: on the best node, as soon as nodes"
            " are ranked; the scheduler binds pods itself, and the reservation moves to the node that it"
            " chose."
        ),
    )
    reservation_seconds: float = Field(
        default=KEPT_SECONDS,
        gt=0,
        description=(
            "Seconds after which zones reserved for a pod are released if the pod is not seen bound."
        ),
    )
    bind_wait_seconds: float = Field(
        default=3.0,
        ge=0,
        description=(
            "Maximum seconds that a bind call waits for the node's kubelet to admit pods that were bound"
            " earlier. Keep it below the scheduler's timeout for the extender."
        ),
    )
    max_in_flight: int = Field(
        default=2048,
        ge=0,
        description=(
            "Maximum number of concurrent calls; further calls get 503 with Retry-After: 1, and the"
            " scheduler retries their pods later. A single peer can use at most three quarters. Bind"
            " calls wait for their node, so there can be many. 0 means no limit."
        ),
    )
    max_bytes_in_flight: int = Field(
        default=32 * MIB,
        ge=0,
        description=(
            "Maximum total size of the bodies of all calls in bytes, counted as they arrive; further"
            " calls get 503 with Retry-After: 1. A single body may be larger. 0 means no limit. The"
            " default is 32 MiB."
        ),
    )
    max_body_bytes: int = Field(
        default=8 * MIB,
        ge=1,
        description=(
            "Maximum size of a request body in bytes; larger bodies get 413. A body takes up to 60 times"
            " its size in memory once parsed, so large bodies are handled one at a time. The default is 8"
            " MiB, ample for the names of all nodes. A scheduler that sends whole Node objects needs"
            " more, and a higher memory limit."
        ),
    )
    max_connections: int = Field(
        default=2048,
        ge=0,
        description=(
            "Maximum number of open connections. A further one is accepted, and an idle one is closed: of"
            " the peer with the most connections in relation to its answered calls. 0 means no limit. Each"
            " bind call that waits holds a connection."
        ),
    )
    topology_lag_seconds: float = Field(
        default=LAG_SECONDS,
        ge=0,
        description=(
            "Seconds after which a published topology is assumed to account for a pod: the exporter's"
            " interval plus its delay. Only used for topologies without a fingerprint of their pods."
        ),
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Check that a snapshot is not combined with settings that need a cluster."""
        yield from super().contradictions()
        if self.snapshot and self.reserve_at is ReserveAt.PRIORITIZE:
            yield Contradiction(
                ("snapshot", "reserve_at"),
                ("a snapshot does not show which pods are bound: use --reserve-at bind, or a live cluster"),
            )
