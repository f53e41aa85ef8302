"""
The outcomes of predictions, and records that cannot be right.

If a kubelet refuses a pod that was ranked or bound here, the prediction was wrong, and that could go
unnoticed: the pod fails, its controller creates another, and that one may well get the same node. So it is
counted, the next pod that is sent there is counted too, and the owner sees on the pod what was predicted and
what happened.

On a node with an agent, every prediction is verified shortly after the bind. So each pod that was asked about
here counts once, by the outcome of its prediction; and if a kubelet decided otherwise, the owner sees on the
pod what was predicted and what the pod has. Nothing depends on it: the ledger uses the agent's reports,
whatever was predicted.

Any user may have written the annotations of a pod, so a thousand pods with false records must neither flood
the log nor be ignored silently: a gauge counts them all, and a line names as many as fit.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter

from numalign.cache import Question
from numalign.kube.events import LONGEST_MESSAGE, Event, Type
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.ledger.arithmetic import same
from numalign.ledger.model import AssignedPod, Source
from numalign.ledger.reservations import Reservations
from numalign.lru import LRU, Caches
from numalign.model.errors import cut
from numalign.model.placement import Held
from numalign.model.resources import readable_zone, render
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.scheduling.recent_refusals import REFUSALS, refused
from numalign.scheduling.scheduler_state import SchedulerState

EVENT = "NUMAPredictionWrong"
"""The reason of the event on the pod."""

REMEMBERED_SECONDS = 300.0
"""How long a node counts as having just refused such pods."""

REMEMBERED_NODES = 1024

PATIENCE_SECONDS = 60.0
"""How long an agent may take to report a pod before it counts as not observed."""

REMEMBERED_PODS = 4096
"""The limit of pods that are waited for; a thousand may be bound in a second."""

IN_A_LINE = 20
"""The limit of pods named in one line; the others wait for the next one."""

LONGEST_NAMES = 200
"""The limit of characters for the names of a pod's resources."""

PublishEvent = Callable[[Event], None]
"""Queues an event; never waits, and never fails."""


@dataclass(eq=False)
class _Observer:
    """Compares what happens to pods with what was predicted, and tells their owners."""

    state: SchedulerState
    _: KW_ONLY
    publish: PublishEvent
    log: Log
    registry: CollectorRegistry

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log, lines=MANY_LINES)

    def _report_wrong(self, pod: "PodInfo | _BoundPod", predicted: str, happened: str) -> None:
        message = f"numalign predicted that the pod {predicted} on {pod.node}; {happened}"
        # The reservation of a pod may be as long as the record that its owner wrote.
        message = cut(message, LONGEST_MESSAGE)
        name = f"{pod.namespace}/{pod.name}"
        self._quiet_log.warning("prediction.wrong", pod=name, node=pod.node, message=message)
        self.publish(Event(pod.namespace, pod.name, pod.uid, Type.WARNING, EVENT, message))


class Outcomes(_Observer):
    """Compares the refusals of kubelets with what was predicted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # The question of the refused pod, None if that could not be read, and when that was.
        self._last: LRU[str, tuple[Question | None, float]] = LRU(
            REMEMBERED_NODES, large=lambda _node, last: last[0] is not None and last[0].large
        )
        self._refusals = Counter(
            f"{PREFIX}kubelet_refusals",
            ("Pods that a kubelet rejected although zones were reserved for them or the node was ranked."),
            ["reason", "known"],
            registry=self.registry,
        )
        for reason in sorted(REFUSALS):
            self._refusals.labels(reason, "reserved")
            self._refusals.labels(reason, "ranked")
        self._repeated = Counter(
            f"{PREFIX}refused_node_chosen_again",
            "Pods sent to a node that had just rejected a pod with the same requests.",
            registry=self.registry,
        )

    def caches(self) -> Caches:
        """Return the last refusal of each node."""
        return {"refused": self._last}

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Take a pod as it is now, and as it was; None if it was not seen before."""
        assigned_pod = self.state.reservations.assigned_pod(pod.uid)
        reserved = assigned_pod if assigned_pod and has_reserved(assigned_pod) else None
        # If others chose the node nothing was predicted, nor was what happened before this process started.
        if not reserved and not self.state.was_asked(pod.uid):
            return
        if refused(pod) and not (before and before.ended):
            self._last.put(pod.node, (self._question(pod), self.state.clock()))
            self._refusals.labels(pod.reason, "reserved" if reserved else "ranked").inc()
            held = reserved.expected if reserved else None
            happened = f"the kubelet of {pod.node} rejected the pod: {pod.reason}: {pod.message}"
            self._report_wrong(pod, "fits" if held is None else f"gets {shown(held)}", happened)
        elif pod.node and not pod.ended and not (before and before.node):
            question, at = self._last.peek(pod.node) or (None, 0.0)
            if question is None or self.state.clock() - at > REMEMBERED_SECONDS:
                return
            if question == self._question(pod):
                self._repeated.inc()
                name = f"{pod.namespace}/{pod.name}"
                self._quiet_log.warning("prediction.repeated", pod=name, node=pod.node)
                why = f"node {pod.node} has just rejected a pod with the same requests, and was chosen again"
                self.publish(Event(pod.namespace, pod.name, pod.uid, Type.WARNING, EVENT, why))

    def _question(self, pod: PodInfo) -> Question | None:
        pending = self.state.waiting(pod.uid)
        return pending.question if pending else None


class PredictionResult(StrEnum):
    """The outcome of a prediction, as a label."""

    AGREED = "agreed"
    DIFFERED = "differed"
    REFUSED = "refused"
    UNPREDICTED = "unpredicted"
    UNOBSERVED = "unobserved"


@dataclass(frozen=True, slots=True)
class _BoundPod:
    """A bound pod, what it was predicted to hold, None if that was not certain, and when it was bound."""

    namespace: str
    name: str
    uid: str
    node: str
    predicted: Held | None
    at: float


class Predictions(_Observer):
    """Compares what agents report of pods with the predictions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._bound: LRU[str, _BoundPod] = LRU(REMEMBERED_PODS)
        self._results = Counter(
            f"{PREFIX}predictions",
            "Evaluated pods on nodes with an agent, by result of their prediction.",
            ["result"],
            registry=self.registry,
        )
        for result in PredictionResult:
            self._results.labels(result)

    def caches(self) -> Caches:
        """Return the pods that no agent has reported yet."""
        return {"unobserved": self._bound}

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Take a pod as it is now, before the ledger does, and as it was; None if not seen before."""
        if pod.node and not (before and before.node):
            there = self.state.reservations.node_of(pod.uid) == pod.node
            reserved = self.state.reservations.assigned_pod(pod.uid) if there else None
            if reserved or self.state.was_asked(pod.uid):
                # Only what a reservation was certain of is predicted.
                record = reserved.record if reserved and reserved.reserved else None
                predicted = record.held if record and not record.unknown else None
                bound = _BoundPod(pod.namespace, pod.name, pod.uid, pod.node, predicted, self.state.clock())
                self._bound.put(pod.uid, bound)
        # A refusal is reported elsewhere; failed containers do not count.
        if pod.phase is Phase.FAILED and pod.reason in REFUSALS and pod.uid in self._bound:
            self._bound.drop(pod.uid)
            self._results.labels(PredictionResult.REFUSED).inc()

    def look(self) -> None:
        """Compare what was reported since the last call, and give up on late reports."""
        now, reservations = self.state.clock(), self.state.reservations
        for bound in self._bound.values():
            seen = reservations.observed(bound.uid)
            in_time = now - bound.at < PATIENCE_SECONDS and reservations.node_of(bound.uid) == bound.node
            if seen is None and in_time:
                continue
            self._bound.drop(bound.uid)
            if seen is None:
                if reservations.is_observed(bound.node):
                    self._results.labels(PredictionResult.UNOBSERVED).inc()
            elif bound.predicted is None:
                # A pod that gets nothing has no prediction.
                if seen.held:
                    self._results.labels(PredictionResult.UNPREDICTED).inc()
            elif not same(bound.predicted, seen.held):
                self._results.labels(PredictionResult.DIFFERED).inc()
                happened = f"the kubelet of {bound.node} allocated {shown(seen.held)}"
                self._report_wrong(bound, f"gets {shown(bound.predicted)}", happened)
            elif seen.held:
                self._results.labels(PredictionResult.AGREED).inc()


@dataclass(eq=False, slots=True)
class Disbelief:
    """Logs pods whose record is impossible: each pod once, and never more than a line at a time."""

    reservations: Reservations
    _: KW_ONLY
    log: Log
    _logged: set[str] = field(init=False, default_factory=set)

    def look(self) -> None:
        """Log pods that were not logged before, as many as fit into a line."""
        refuted = {pod.uid: (node, pod) for node, pod in self.reservations.refuted()}
        self._logged &= refuted.keys()
        new = [uid for uid in refuted if uid not in self._logged][:IN_A_LINE]
        if not new:
            return
        self._logged.update(new)
        lines = [
            f"{'/'.join(pod.name)} on {node}: {', '.join(sorted(pod.refuted))[:LONGEST_NAMES]}"
            for node, pod in map(refuted.__getitem__, new)
        ]
        self.log.warning("record.disbelieved", pods=lines, omitted=len(refuted) - len(self._logged))


def has_reserved(assigned_pod: AssignedPod) -> bool:
    """Return whether zones were reserved for it, here or by the program that bound it."""
    record = assigned_pod.record
    return bool(assigned_pod.turn) or (record is not None and record.source is Source.RECORDED)


def shown(held: Held) -> str:
    """Return what is held, in words: `2 cpu and 1Gi memory from zone 0`."""
    parts = [
        f"{' and '.join(f'{render(name, amount)} {name}' for name, amount in amounts.items())}"
        f" from {' and '.join(map(readable_zone, zones)) or 'no NUMA zone'}"
        for zones, amounts in held.items()
    ]
    return ", ".join(parts) or "no exclusive resources"
