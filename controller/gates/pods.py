"""
Read and write single pods behind the gate.

Every write is over within `BIND_SECONDS`, also on the API server, so that the next leader knows when no write
can arrive any more. A pin contains the version of the pod that was read: the decision is written for that
version or not at all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, cast

from controller.gates.judging import unjudged
from controller.gates.metrics import GateMetrics
from controller.gates.pin import PinTarget, exclusion_patch, pin_patch
from numalign.kube import gates
from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.client import Api, Patch
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound
from numalign.kube.gates import answered_within, pod_path
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInfo
from numalign.kube.writes import FailureLog
from numalign.ledger.reservations import Reservations
from numalign.model.intent import PINNED_AT
from numalign.runtime.logs import Log
from numalign.scheduling.scheduler_state import PendingPod

MOST_BYTES = 2**21
"""Most bytes of a pod: more than an API server stores for one object."""

READ_SECONDS = 5.0
"""Timeout in seconds for reading a pod."""


class WantedPlacement(NamedTuple):
    """The placement that a pod requests, and its aspects that numalign does not evaluate."""

    pending: PendingPod
    unjudged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadPod:
    """A pod as read from the API server."""

    raw: Object
    wanted: WantedPlacement


@dataclass(frozen=True, slots=True)
class LiftGate:
    """The gate of a pod must be lifted without a node: there is nothing to wait for; `why` says why."""

    why: str


@dataclass(eq=False, slots=True)
class GatedPods:
    """Pods on the API server; failures are counted, and missing permissions are logged once."""

    api: Api
    metrics: GateMetrics
    log: Log
    wall: Callable[[], float]
    _errors: FailureLog = field(init=False)

    def __post_init__(self) -> None:
        self._errors = FailureLog(self.log, lines=1)

    async def read(self, pod: PodInfo) -> Object:
        """Return the current v1 Pod; raise `ClusterError`, `NotFound` also if another pod has its name."""
        path, what = pod_path(pod.namespace, pod.name), f"pod {pod.namespace}/{pod.name}"
        with self._noting():
            async with answered_within(READ_SECONDS, what=what):
                raw = await self.api.get(path, what=what, most=MOST_BYTES)
        body = cast("Object", raw) if isinstance(raw, dict) else {}
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("uid") != pod.uid:
            raise NotFound(f"{what} was replaced by another one")
        return body

    async def lift(self, pod: PodInfo) -> None:
        """Lift the gate and change nothing else; raise `ClusterError`."""
        with self._noting():
            await gates.lift(self.api, namespace=pod.namespace, name=pod.name, uid=pod.uid)
        self._errors.succeeded()

    async def pin(self, raw: Object, target: PinTarget, annotations: Mapping[str, str]) -> None:
        """Lift the gate of this version of the pod and pin it; raise `ClusterError`."""
        at = datetime.fromtimestamp(int(self.wall()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._patch(raw, pin_patch(raw, target, {**annotations, PINNED_AT: at}), "the pin")

    async def exclude(self, raw: Object, labels: Sequence[str]) -> None:
        """Lift the gate of this version of the pod and keep it off nodes; raise `ClusterError`."""
        await self._patch(raw, exclusion_patch(raw, labels), "the gate")

    async def _patch(self, raw: Object, patch: Object, what: str) -> None:
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        path, what = pod_path(namespace, name), f"{what} of pod {namespace}/{name}"
        with self._noting():
            async with answered_within(BIND_SECONDS, what=what):
                await self.api.patch(path, patch, gates.TIMEOUT, how=Patch.MERGE, what=what)
        self._errors.succeeded()

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Count and log a failure, and raise it again."""
        try:
            yield
        except ClusterError as error:
            match error:
                case Conflict():
                    reason = "conflict"
                case NotFound():
                    reason = "gone"
                case Forbidden():
                    reason = self._errors.forbidden("gate.forbidden", error)
                case _:
                    reason = self._errors.failed("gate.failed", error)
                    reason = "invalid" if isinstance(error, InvalidObject) else reason
            self.metrics.failures.labels(reason).inc()
            raise


@dataclass(eq=False, slots=True)
class PinWriter:
    """
    Writes the pins of the pods that were passed to it; has the signature of `bindings.bind`.

    Before anything is written, the reservation is marked as one of a pod whose binding time is unknown: its
    scheduler may be faster than the response, and binds in its own order.
    """

    pods: GatedPods
    reservations: Reservations
    has_node: Callable[[str], bool] = lambda _name: True
    _prepared: dict[str, tuple[Object, PinTarget]] = field(init=False, default_factory=dict)

    def prepare(self, uid: str, raw: Object, target: PinTarget) -> None:
        """Set what to write once the pod may be bound."""
        self._prepared[uid] = raw, target

    def discard(self, uid: str) -> None:
        """Forget what was set."""
        self._prepared.pop(uid, None)

    async def __call__(
        self, *, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]
    ) -> None:
        """Pin a pod; raise `ClusterError`. After `Unreachable` the result is unknown."""
        raw, target = self._prepared[uid]
        if node != target.node:
            raise Conflict(f"pod {namespace}/{name} must be pinned to node {target.node}, not to {node}")
        # A pin is final, and what is known of nodes may be slightly outdated.
        if not self.has_node(node):
            raise Conflict(f"node {node} no longer exists")
        self.reservations.mark_unconfirmed(uid)
        await self.pods.pin(raw, target, annotations)


def aspects(raw: Object, pending: PendingPod) -> WantedPlacement | LiftGate:
    """Return the placement to look for, or why there is none."""
    question = pending.pod_question
    if question is None or not question.requests_alignment:
        return LiftGate("it no longer requests NUMA alignment")
    if question.excess:
        return LiftGate(f"its placement constraints cannot be evaluated: {question.excess.value}")
    return WantedPlacement(pending, unjudged(raw))
