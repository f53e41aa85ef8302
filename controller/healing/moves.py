"""
Moves in progress: the API server's answer to the eviction, and the alignment of the replacement.

Every move ends, whatever happens to the evicted pod: no place is held for ever, and no owner waits for ever.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Gauge

from controller.healing.evictions import EvictionAnswer
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import STOPPED_SECONDS, MovePhase, Owners, PodMove
from controller.held import HeldPlaces, owner_key
from numalign.decision.alignment import Judgement, why
from numalign.kube.events import Event, Type
from numalign.kube.pod_informer import PodInfo
from numalign.kube.writes import FailureLog, counter
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.scheduling.scheduler_state import SchedulerState

MOVED, STOPPED = "NUMAHealing", "NUMAHealingStopped"
"""The reasons of events."""

UNANSWERED_SECONDS = 30.0
"""Seconds without an answer and without a deletion after which an eviction is considered failed."""

REPLACEMENT_SECONDS = 300.0
"""Seconds for which a place is held at least: owners create a replacement at once, or after the pod's end."""

START_SECONDS = 600.0
JUDGED_SECONDS = 180.0
"""Seconds that a replacement may take to run, and then to be observed."""


class MoveOutcome(StrEnum):
    """The outcome of a move, as a label value."""

    ASKED = "asked"
    BUDGET = "budget"
    REFUSED = "refused"
    ALIGNED = "aligned"
    MISALIGNED = "misaligned"
    UNKNOWN = "unknown"
    LOST = "lost"


@dataclass(eq=False, kw_only=True)
class Moves:
    """All moves that this process began. `clock` is that of the ledger."""

    state: SchedulerState
    alignments: RunningPodAlignments
    held: HeldPlaces
    owners: Owners
    publish: Callable[[Event], None]
    log: Log
    registry: CollectorRegistry
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log, lines=MANY_LINES)
        self._errors = FailureLog(self.log, lines=MANY_LINES)
        self._moves = counter(
            f"{PREFIX}healing_moves",
            "Attempts to move misaligned pods, by outcome.",
            ["outcome"],
            MoveOutcome,
            self.registry,
        )
        text = "Zones reserved for replacements of evicted pods."
        Gauge(f"{PREFIX}held_places", text, registry=self.registry).set_function(lambda: len(self.held))

    def begin(self, pod: PodInfo, node: str) -> PodMove:
        """Begin the move of a pod to a node; raise `ValueError` if the pod has no controller."""
        owner = owner_key(pod)
        if owner is None:
            raise ValueError("the pod has no controller")
        siblings = frozenset(uid for uid, other in self.state.pods.items() if owner_key(other) == owner)
        move = self.owners.moves[owner] = PodMove(pod, owner, node, self.clock(), siblings)
        return move

    def answered(self, move: PodMove, answer: EvictionAnswer, text: str) -> None:
        """Handle the result of the eviction; `text` is why the pod is evicted, or is not."""
        match answer:
            case EvictionAnswer.EVICTED:
                self._evicted(move, text)
            case EvictionAnswer.BUDGET:
                self._count(MoveOutcome.BUDGET)
                self.owners.eviction_failed(move.owner, self.clock())
                self._quiet_log.warning("healing.budget", pod=_shown(move.pod), reason=text)
                self._drop(move)
            case EvictionAnswer.BUDGETS:
                self._count(MoveOutcome.REFUSED)
                self._stop(move, f"the API server cannot evict a pod with two PodDisruptionBudgets: {text}")
            case EvictionAnswer.GONE:
                # Its name may be that of another pod.
                self._drop(move)
            case EvictionAnswer.FORBIDDEN:
                self._count(MoveOutcome.REFUSED)
                self._errors.forbidden("healing.forbidden", text, pod=_shown(move.pod))
                self.owners.eviction_failed(move.owner, self.clock())
                self._drop(move)
            case EvictionAnswer.UNANSWERED:
                # The place is kept until it is observed whether the pod is deleted.
                self._count(MoveOutcome.UNKNOWN)
                self._errors.failed("healing.unanswered", text, pod=_shown(move.pod))

    def forget(self) -> None:
        """Forget all moves and held places, as another replica leads now."""
        self.owners.forget()
        self.held.give_up_all()

    def follow(self) -> None:
        """Advance every move by what the cluster shows now."""
        self.held.expire()
        for move in [*self.owners.moves.values()]:
            self._follow(move)

    def _evicted(self, move: PodMove, reason: str) -> None:
        self._count(MoveOutcome.ASKED)
        self._errors.succeeded()
        move.phase = MovePhase.EVICTED
        pod = move.pod
        self.log.info("healing.evicted", pod=_shown(pod), node=pod.node, target_node=move.node, reason=reason)
        self.publish(Event(pod.namespace, pod.name, pod.uid, Type.NORMAL, MOVED, f"evicted: {reason}"))

    def _follow(self, move: PodMove) -> None:
        waited = self.clock() - move.since
        if move.phase is MovePhase.EVICTING:
            pod = self.state.pods.get(move.pod.uid)
            if pod is None or pod.leaving or pod.ended:
                self._evicted(move, "the API server did not answer, but the pod is being deleted")
            elif waited >= UNANSWERED_SECONDS:
                self.owners.eviction_failed(move.owner, self.clock())
                self._drop(move)
            return
        if move.phase is MovePhase.EVICTED:
            of_owner = (pod for pod in self.state.pods.values() if owner_key(pod) == move.owner)
            new = sorted((pod.created, pod.uid) for pod in of_owner if pod.uid not in move.known)
            if new:
                taken = self.held.taken_by(move.pod.uid)
                move.replacement = taken if taken in self.state.pods else new[0][1]
                move.phase, move.since = MovePhase.REPLACED, self.clock()
            elif not self.held.is_held(move.pod.uid) and waited >= REPLACEMENT_SECONDS:
                self._count(MoveOutcome.LOST)
                self._stop(move, "no replacement was created for the evicted pod")
            return
        self._follow_replaced(move, waited)

    def _follow_replaced(self, move: PodMove, waited: float) -> None:
        replacement, entry = self.state.pods.get(move.replacement), self.alignments.get(move.replacement)
        if replacement is None or waited >= START_SECONDS + JUDGED_SECONDS:
            self._count(MoveOutcome.UNKNOWN)
            self._drop(move)
        elif replacement.ended:
            self._no_improvement(move, "its replacement ended")
        elif not replacement.acknowledged:
            return
        elif entry and entry.alignment.misaligned:
            self._no_improvement(move, f"its replacement is no better aligned: {why(entry.alignment)}")
        elif entry and entry.by_kubelet and entry.alignment.judgement is Judgement.ALIGNED:
            self._count(MoveOutcome.ALIGNED)
            self.owners.move_succeeded(move.owner)
            self.log.info("healing.aligned", pod=_shown(replacement), node=replacement.node)
            self._drop(move)
        elif waited >= JUDGED_SECONDS:
            self._count(MoveOutcome.UNKNOWN)
            self._drop(move)

    def _no_improvement(self, move: PodMove, text: str) -> None:
        self._count(MoveOutcome.MISALIGNED)
        self.log.warning("healing.no_improvement", pod=_shown(move.pod), reason=text)
        if self.owners.move_failed(move.owner, self.clock()):
            self._stop(move, f"several evictions did not help: {text}")
        else:
            self._drop(move)

    def _stop(self, move: PodMove, text: str) -> None:
        """Evict no pods of an owner for a day, and report that in an event."""
        self.owners.stop(move.owner, self.clock())
        self.log.warning("healing.stopped", pod=_shown(move.pod), reason=text, seconds=STOPPED_SECONDS)
        pod = self.state.pods.get(move.replacement) or move.pod
        text = f"pods of its owner are not evicted for a day: {text}"
        self.publish(Event(pod.namespace, pod.name, pod.uid, Type.WARNING, STOPPED, text))
        self._drop(move)

    def _drop(self, move: PodMove) -> None:
        self.owners.moves.pop(move.owner, None)
        self.held.give_up(move.pod.uid)

    def _count(self, outcome: MoveOutcome) -> None:
        self._moves.labels(outcome.value).inc()


def _shown(pod: PodInfo) -> str:
    return f"{pod.namespace}/{pod.name}"
