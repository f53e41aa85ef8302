"""
Reading and writing the pods behind the gate, one at a time.

Every write is over within `BIND_SECONDS`, on the API server too, so that whoever leads next knows when
nothing can land any more. A pin names the version of the pod that was read: what was decided holds for that
pod or is not written.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple, cast

from controller.gates.judging import unjudged
from controller.gates.metrics import GateFailure, GateMetrics
from controller.gates.pin import PinTarget, pin_patch
from numalign.kube import gates
from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.client import Patch
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound
from numalign.kube.gates import PodApi, answered_within, pod_path
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.reservations import Reservations
from numalign.model.intent import PINNED_AT
from numalign.runtime.logs import Log, QuietLog
from numalign.scheduling.scheduler_state import PendingPod

MOST_BYTES = 2**21
"""Of a pod that is read: more than an API server stores of one object."""

READ_SECONDS = 5.0
"""How long the API server may take to give a pod."""


class WantedPlacement(NamedTuple):
    """What a pod wants of its placement, and which aspects of it nobody here can judge."""

    pending: PendingPod
    unjudged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadPod:
    """A pod as it was read from the API server."""

    raw: Object
    wanted: WantedPlacement


@dataclass(frozen=True, slots=True)
class LetGo:
    """That there is no reason to keep a pod any longer, and why."""

    why: str


@dataclass(eq=False, slots=True)
class GatedPods:
    """Pods on the API server; what fails is counted, and told once where somebody has to allow it."""

    api: PodApi
    metrics: GateMetrics
    log: Log
    wall: Callable[[], float]
    _forbidden: bool = field(init=False, default=False)
    _quiet_log: QuietLog = field(init=False)

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log)

    async def read(self, pod: PodInfo) -> Object:
        """The v1 Pod as it is now; raises `ClusterError`, `NotFound` where another has its name too."""
        try:
            async with answered_within(READ_SECONDS, what=_what(pod)):
                raw = await self.api.get(pod_path(pod.namespace, pod.name), what=_what(pod), most=MOST_BYTES)
        except ClusterError as error:
            self._failed(error)
            raise
        body = cast("Object", raw) if isinstance(raw, dict) else {}
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("uid") != pod.uid:
            raise NotFound(f"{_what(pod)} was replaced by another one")
        return body

    async def lift(self, pod: PodInfo) -> None:
        """Lift the gate and change nothing else; raises `ClusterError`."""
        await self._written(gates.lift(self.api, namespace=pod.namespace, name=pod.name, uid=pod.uid))

    async def pin(self, raw: Object, target: PinTarget, annotations: Mapping[str, str]) -> None:
        """Lift the gate of this very pod and pin it; raises `ClusterError`."""
        at = datetime.fromtimestamp(int(self.wall()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._written(self._pin(raw, pin_patch(raw, target, {**annotations, PINNED_AT: at})))

    async def _pin(self, raw: Object, patch: Object) -> None:
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        what = f"the pin of pod {namespace}/{name}"
        async with answered_within(BIND_SECONDS, what=what):
            await self.api.patch(pod_path(namespace, name), patch, gates.TIMEOUT, how=Patch.MERGE, what=what)

    async def _written(self, write: Coroutine[object, object, None]) -> None:
        try:
            await write
        except ClusterError as error:
            self._failed(error)
            raise
        self._forbidden = False

    def _failed(self, error: ClusterError) -> None:
        reason = _FAILURES.get(type(error), GateFailure.FAILED)
        self.metrics.failures.labels(reason.value).inc()
        if reason is GateFailure.FORBIDDEN and not self._forbidden:
            self._forbidden = True
            self.log.error("gate.forbidden", error=str(error))
        elif reason in (GateFailure.FAILED, GateFailure.INVALID):
            self._quiet_log.warning("gate.failed", error=str(error))


@dataclass(eq=False, slots=True)
class PinWriter:
    """Writes the pins of the pods that were handed to it; called as `bindings.bind` is.

    The reservation counts as that of a pod of which nobody knows when it is bound before anything is written:
    its scheduler may be faster than the answer, and binds in an order of its own.
    """

    pods: GatedPods
    reservations: Reservations
    has_node: Callable[[str], bool] = lambda _name: True
    _handed: dict[str, tuple[Object, PinTarget]] = field(init=False, default_factory=dict)

    def hand(self, uid: str, raw: Object, target: PinTarget) -> None:
        """Have this written once the pod may be bound."""
        self._handed[uid] = raw, target

    def take_back(self, uid: str) -> None:
        """Forget what was handed over."""
        self._handed.pop(uid, None)

    async def __call__(
        self, *, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]
    ) -> None:
        """Pin a pod; raises `ClusterError`, and then nobody knows of `Unreachable` whether it was done."""
        raw, target = self._handed[uid]
        if node != target.node:
            raise Conflict(f"pod {namespace}/{name} must be pinned to node {target.node}, not to {node}")
        # A pin cannot be taken back, and a snapshot of nodes is a moment old.
        if not self.has_node(node):
            raise Conflict(f"node {node} no longer exists")
        self.reservations.mark_unconfirmed(uid)
        await self.pods.pin(raw, target, annotations)


def aspects(raw: Object, pending: PendingPod) -> WantedPlacement | LetGo:
    """What is to be looked for on behalf of a pod, if anything is."""
    question = pending.pod_question
    if question is None or not question.asks:
        return LetGo("it no longer requests NUMA alignment")
    if question.excess:
        return LetGo(f"its placement constraints cannot be evaluated: {question.excess.value}")
    return WantedPlacement(pending, unjudged(raw))


_FAILURES: Mapping[type[ClusterError], GateFailure] = MappingProxyType(
    {
        Conflict: GateFailure.CONFLICT,
        NotFound: GateFailure.GONE,
        Forbidden: GateFailure.FORBIDDEN,
        InvalidObject: GateFailure.INVALID,
    }
)


def _what(pod: PodInfo) -> str:
    return f"pod {pod.namespace}/{pod.name}"
