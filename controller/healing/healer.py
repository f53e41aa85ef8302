"""
Moves of misaligned pods, in steps; the process may be killed after any of them.

    look     for misaligned pods in namespaces with healing
    read     the stored pod: whether it may be evicted, and what its replacement would be
    hold     a better place in the ledger, in the same step in which it is predicted
    evict    the pod by its UID, within its budget; it and its namespace are read again before
    follow   the move until its replacement runs and is judged

If the process is killed before the eviction, nothing has happened: held places end with it. If it is killed
during the eviction, the pod is being deleted or not, and the next leader sees which. A pod that is being
deleted is never evicted again, and no other pod of its owner is evicted while there is such a pod or one
that no kubelet has reported on yet.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import cast

from controller.healing.eviction_limits import EvictionLimits
from controller.healing.evictions import EVICT_SECONDS, evict
from controller.healing.moves import REPLACEMENT_SECONDS, Moves
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners, unsettled_owners
from controller.healing.replacements import BetterPlaces
from controller.held import HeldPlaces, OwnerKey, owner_key
from controller.placing import current_policy
from numalign.decision.alignment import why
from numalign.kube.client import Api
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.errors import ClusterError, NotFound
from numalign.kube.events import Event, Type
from numalign.kube.gates import pod_path
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInfo
from numalign.kube.routing import DEFAULT_SCHEDULER
from numalign.kube.writes import answer
from numalign.ledger.reservations import NOTIFICATION_SECONDS
from numalign.model.errors import BadInput
from numalign.model.intent import Gate, Heal, NamespaceRules
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import TimeSlice
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.scheduling import evictable
from numalign.scheduling.pod_alignments import PodAlignment
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

EVENT = "NUMANotHealed"
"""The reason of the event that explains why no pods are moved in a namespace."""

TURN_SECONDS, SHORTEST_PAUSE_SECONDS = 1.0, 0.05
READ_SECONDS = 5.0
MOST_BYTES = 2**21
"""The limit of a pod that is read: an API server stores smaller objects only."""

MOST_READ = 4
"""Most pods to read in one turn."""

HANDOVER_SECONDS = 2 * EVICT_SECONDS + NOTIFICATION_SECONDS
"""Seconds of leading after which the last leader's writes have taken effect and were observed."""

RETRY_SECONDS, BLOCKED_SECONDS = 60.0, 600.0
"""Seconds until a pod without a better place or an answer is tried again, and one that may not go."""

LONGEST_GRACE = 3600
"""The longest grace period in seconds to add to a held place; a pod that takes longer loses the place."""

MOST_SKIPPED = 8192
"""Most pods to remember with the reason why they stay."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A misaligned pod in a namespace with healing, and what its move waits for; empty if for nothing."""

    pod_alignment: PodAlignment
    owner: OwnerKey | None
    waits_for: str = ""


@dataclass(eq=False, kw_only=True)
class Healer:
    """Moves pods while `leading` returns true. `clock` is that of the ledger.

    `gates` is whether replacements can be gated until they get the place that is held for them. `unplaceable`
    returns the aspects of a pod for which no node can be chosen, and `written_until` until when a write of
    this controller to the pod of a UID may be in progress.
    """

    api: Api
    state: SchedulerState
    alignments: RunningPodAlignments
    places: BetterPlaces
    held: HeldPlaces
    limits: EvictionLimits
    owners: Owners
    moves: Moves
    gates: bool
    unplaceable: Callable[[Object], tuple[str, ...]]
    written_until: Callable[[str], float]
    leading: Callable[[], bool]
    acts_for: Callable[[], float]
    publish: Callable[[Event], None]
    log: Log
    clock: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _led_since: float = field(init=False, default=math.inf)
    # Why pods stay on their nodes, and until when they are not tried again.
    _skipped: dict[str, tuple[str, float]] = field(init=False, default_factory=dict)
    _ungated: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log, lines=MANY_LINES)

    async def run(self) -> None:
        """Move pods; never returns."""
        # A turn is at least as frequent as the tokens of the cluster's rate.
        every = min(TURN_SECONDS, self.limits.rates.cluster)
        while True:
            began = self.clock()
            await self.turn()
            await self.sleep(max(began + every - self.clock(), SHORTEST_PAUSE_SECONDS))

    async def turn(self) -> None:
        """Follow the moves and begin the next ones, if this replica leads; read at most `MOST_READ` pods."""
        if not self.leading():
            if self._led_since < math.inf:
                self._led_since = math.inf
                self.moves.forget()
            return
        if self._led_since == math.inf:
            self._led_since = self.clock()
            self.limits.begin(self._led_since)
        await self.alignments.judge()
        self.moves.follow()
        if self.clock() - self._led_since < HANDOVER_SECONDS or not self.state.cluster.listed:
            return
        read, time_slice = 0, TimeSlice()
        for candidate in [*self.candidates()]:
            await time_slice.share()
            if candidate.waits_for:
                self._report_ungated(candidate)
                continue
            if read >= MOST_READ or not self._may_evict():
                return
            # Others may have begun in this turn.
            owner, pod = candidate.owner, candidate.pod_alignment.pod
            if owner is None or owner in self.owners.moves or self._is_written_to(pod):
                continue
            if self.clock() >= self._due(owner, pod.node) and self.state.pods.get(pod.uid) is not None:
                read += 1
                await self._move(candidate.pod_alignment, owner)

    # Candidates, and what they wait for.

    def candidates(self) -> Iterator[Candidate]:
        """Yield all misaligned pods in namespaces with healing, one of each namespace in turn."""
        policy = EffectivePolicy.of(self.state.cluster, self.state.policy.now)
        by_namespace: dict[str, list[PodAlignment]] = {}
        oldest_first = sorted(
            self.alignments.misaligned(), key=lambda entry: (entry.pod.created, entry.pod.uid)
        )
        for entry in oldest_first:
            if policy.rules_for(entry.pod.namespace).heal is Heal.RUNNING:
                by_namespace.setdefault(entry.pod.namespace, []).append(entry)
        if not by_namespace:
            return
        busy = unsettled_owners(self.state.pods.values()) | self.owners.moves.keys()
        for several in zip_longest(*by_namespace.values()):
            for entry in filter(None, several):
                rules = policy.rules_for(entry.pod.namespace)
                owner = owner_key(entry.pod)
                yield Candidate(entry, owner, self._waits_for(entry, owner, rules, busy))

    def _waits_for(
        self, entry: PodAlignment, owner: OwnerKey | None, rules: NamespaceRules, busy: frozenset[OwnerKey]
    ) -> str:
        pod, now = entry.pod, self.clock()
        if not self.gates:
            return NO_GATES
        if rules.gate is not Gate.ENABLED:
            return NOT_GATED
        if {pod.scheduler, rules.scheduler or ""} - {"", DEFAULT_SCHEDULER}:
            return OTHER_SCHEDULER
        if not entry.by_kubelet:
            return (
                "the agent of its node to report what it holds: annotations of the pod are not enough"
                " to evict it"
            )
        if owner is None:
            return f"an owner: {evictable.SENTENCES[evictable.Obstacle.BARE]}"
        if self.owners.is_stopped(owner, now):
            return (
                f"{math.ceil(self.owners.backoff_until(owner) - now)} s: its owner had an eviction recently"
            )
        if owner in busy:
            return "all pods of its owner to be running"
        reason, until = self._skipped.get(pod.uid, ("", now))
        if now < until:
            return reason
        due = self._due(owner, pod.node)
        return f"{math.ceil(due - now)} s, because of the rate limits" if now < due else ""

    # Begin.

    def _may_evict(self) -> bool:
        return self.leading() and self.acts_for() > EVICT_SECONDS

    def _due(self, owner: OwnerKey, node: str) -> float:
        """Return when a pod of this owner may be evicted from this node: its history and the rate limits."""
        return max(self.owners.backoff_until(owner), self.limits.due(owner, node))

    async def _move(self, entry: PodAlignment, owner: OwnerKey) -> None:
        pod = entry.pod
        raw = await self._read(pod)
        if raw is None:
            return
        if reason := self.why_not_evict(raw):
            self._skip(pod, reason, BLOCKED_SECONDS)
            return
        try:
            pending = self.places.replacement(raw, pod.uid, pod.node)
        except BadInput as error:
            self._skip(pod, f"its replacement cannot be predicted: {error}", BLOCKED_SECONDS)
            return
        better = await self.places.find(pending, other_than=pod.node)
        if better is None:
            self._skip(pod, NO_BETTER_PLACE, RETRY_SECONDS)
            return
        await self._evict(entry, owner, raw, pending, better)

    async def _evict(
        self, entry: PodAlignment, owner: OwnerKey, raw: Object, pending: PendingPod, better: str
    ) -> None:
        """Hold a place for the replacement and evict a pod, if all is as it was before the search."""
        pod, again = entry.pod, await self._read(entry.pod)
        # A pod that changed since is tried again later.
        version = raw["metadata"].get("resourceVersion")
        if again is None or again["metadata"].get("resourceVersion") != version:
            return
        stored = current_policy(self.api, self.state.policy.now, pod.namespace)
        try:
            policy = await answer(stored, within=READ_SECONDS)
        except ClusterError as error:
            self._read_failed(pod, error)
            return
        rules = policy.rules_for(pod.namespace)
        # From here to the call no other task runs.
        if rules.heal is not Heal.RUNNING or rules.gate is not Gate.ENABLED or not self._may_evict():
            return
        judged, current = self.alignments.get(pod.uid), self.state.pods.get(pod.uid)
        if judged is None or not judged.alignment.misaligned or self._is_written_to(pod):
            return
        if current is None or current.leaving or current.ended:
            return
        if owner in self.owners.moves or owner in unsettled_owners(self.state.pods.values()):
            return
        prediction = self.places.prediction(better, pending)
        spec = raw.get("spec")
        grace = spec.get("terminationGracePeriodSeconds") if isinstance(spec, dict) else None
        grace = min(max(grace, 0), LONGEST_GRACE) if type(grace) is int else 0
        until = self.clock() + REPLACEMENT_SECONDS + grace
        if prediction is None or not self.held.hold(pod, pending, better, prediction, until=until):
            return
        if not self.limits.take(owner, pod.node, self.clock()):
            self.held.give_up(pod.uid)
            return
        move = self.moves.begin(pod, better)
        reason = f"{why(entry.alignment)}; node {better} has room where it would be aligned"
        result, text = await evict(self.api, pod, reason=reason)
        self.moves.answered(move, result, text or reason)

    async def _read(self, pod: PodInfo) -> Object | None:
        """Return the stored v1 Pod; None if it cannot be read, or if another pod has its name."""
        read = self.api.get(
            pod_path(pod.namespace, pod.name), what=f"pod {pod.namespace}/{pod.name}", most=MOST_BYTES
        )
        try:
            raw = await answer(read, within=READ_SECONDS)
        except NotFound:
            return None
        except ClusterError as error:
            self._read_failed(pod, error)
            return None
        body = cast("Object", raw) if isinstance(raw, dict) else {}
        metadata = body.get("metadata")
        return body if isinstance(metadata, dict) and metadata.get("uid") == pod.uid else None

    def _read_failed(self, pod: PodInfo, error: ClusterError) -> None:
        self._quiet_log.warning("healing.failed", pod=f"{pod.namespace}/{pod.name}", error=str(error))
        reason = f"an answer from the API server: {error}"
        self._skipped[pod.uid] = reason, self.clock() + RETRY_SECONDS

    def why_not_evict(self, raw: Object) -> str:
        """Return why a pod must not be evicted; empty if it may be."""
        if obstacle := evictable.obstacle(raw):
            return evictable.SENTENCES[obstacle]
        if unplaceable := self.unplaceable(raw):
            aspects = " and ".join(unplaceable)
            return f"zones cannot be reserved for its replacement: numalign does not evaluate its {aspects}"
        return ""

    def _is_written_to(self, pod: PodInfo) -> bool:
        """Return whether a write of this controller may be in progress; it would race with the eviction."""
        return self.clock() < self.written_until(pod.uid)

    # Logs and events.

    def _skip(self, pod: PodInfo, reason: str, seconds: float) -> None:
        """Remember for some seconds why a pod stays, so that others are tried."""
        if len(self._skipped) >= MOST_SKIPPED:
            now = self.clock()
            self._skipped = {uid: skipped for uid, skipped in self._skipped.items() if now < skipped[1]}
            self._skipped = self._skipped if len(self._skipped) < MOST_SKIPPED else {}
        self._skipped[pod.uid] = reason, self.clock() + seconds
        self._quiet_log.info("healing.skipped", pod=f"{pod.namespace}/{pod.name}", reason=reason)

    def _report_ungated(self, candidate: Candidate) -> None:
        pod, why_not = candidate.pod_alignment.pod, candidate.waits_for
        if why_not not in (NO_GATES, NOT_GATED) or pod.namespace in self._ungated:
            return
        # A namespace that was deleted and created again is reported again.
        namespaces = self.state.cluster.namespaces
        self._ungated = {name for name in self._ungated if name in namespaces} | {pod.namespace}
        self.log.warning("healing.ungated", namespace=pod.namespace, reason=f"waiting for {why_not}")
        text = f"misaligned, and not evicted yet: waiting for {why_not}"
        self.publish(Event(pod.namespace, pod.name, pod.uid, Type.WARNING, EVENT, text))


NO_GATES = "--gates on the controller, without which nothing can be reserved for its replacement"
NOT_GATED = (
    "its namespace's label numalign.io/gate: enabled, so that its replacement waits for the reservation"
)
OTHER_SCHEDULER = "a scheduling gate for its replacement: another scheduler would place it at once"
NO_BETTER_PLACE = "another node that would align it now"
