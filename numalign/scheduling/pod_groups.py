"""
Members of a pod group that are evaluated together are not offered the same zones.

kube-scheduler tries the members of a group one after another, assumes each in its own snapshot only, and
binds them once enough have a node; it may try several sets of nodes, and it may give up (podGroupCycle of
pkg/scheduler/schedule_one_podgroup.go). An extender sees nothing of this. So each member leaves a
tentative placement on the best node for it, and the members after it are evaluated beside that. Nobody else
is: no other pod gets less for it, neither in filter nor in bind, and nothing is reserved.

A member that is evaluated again is so in another round, in which its own placement and those of the members
that came after it do not count. A placement also ends with the pod, with its bind, or after some seconds. The
scheduler may have chosen another node than the best one, so a member is refused everywhere only if the others
could be nowhere else.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from numalign.ledger.model import AssignedPod, Prediction
from numalign.ledger.rearrangement import Rearrangement
from numalign.lru import LRU, Caches
from numalign.model.steps import Steps
from numalign.scheduling.node_answers import POD_GROUP, Filtered
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_GROUPS = 16
"""The limit of groups: a scheduler evaluates one at a time, and there are few schedulers."""

MOST_MEMBERS = 64
"""The limit of members of one group whose placements are kept."""

SECONDS = 10.0
"""How long a placement counts: a scheduler evaluates a group in less."""

_GroupKey = tuple[str, str]
"""The namespace and the name of a group."""


@dataclass(frozen=True, slots=True)
class TentativePlacement:
    """Where a member may be placed: a node, the best of those that take it by themselves.

    More than `MOST_MEMBERS` of `fits` are not kept. `node` is empty until the nodes are ranked; one that will
    hold nothing stays without.
    """

    pod: AssignedPod
    until: float
    fits: tuple[str, ...]
    node: str = ""
    prediction: Prediction | None = None


@dataclass(eq=False, slots=True)
class PodGroups:
    """The tentative placements of members, by group."""

    state: SchedulerState
    _placements: LRU[_GroupKey, tuple[TentativePlacement, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._placements = LRU(MOST_GROUPS)

    def caches(self) -> Caches:
        """Return the cache of placements."""
        return {"pod_groups": self._placements}

    def filtered(self, pod: PendingPod, alone: Filtered) -> Steps[Filtered]:
        """Return, in steps, the nodes after those were filtered that take the pod `alone`."""
        key = self.state.group_of(pod)
        known = self.state.reservable(pod) if key else None
        if key is None or known is None:
            return alone
        before, now = self._before(key, pod.uid), self.state.clock()
        own = TentativePlacement(
            known.assigned_pod(now=now), now + SECONDS, (*alone.fit[: MOST_MEMBERS + 1],)
        )
        self._placements.put(key, (*before, own)[:MOST_MEMBERS])
        occupied = {placement.node for placement in before}.intersection(alone.fit)
        crowded: set[str] = set()
        for name in occupied:
            yield
            if not self._has_room(name, own.pod, before):
                crowded.add(name)
        if len(crowded) == len(alone.fit) and (yield from self._may_change(crowded, own.pod, before)):
            return alone
        return Filtered(
            [name for name in alone.fit if name not in crowded],
            {**alone.failed, **dict.fromkeys(sorted(crowded), POD_GROUP)},
            alone.unresolvable,
        )

    def place(self, pod: PendingPod, node: str) -> bool:
        """Note on which node a member that was filtered is best; return whether it would hold anything there.

        The same node must then be the choice of the scheduler.
        """
        key = self.state.group_of(pod)
        placements = (self._placements.peek(key) if key else None) or ()
        own = next((placement for placement in placements if placement.pod.uid == pod.uid), None)
        if key is None or own is None:
            return False
        others = tuple(placement for placement in placements if placement is not own)
        prediction = self._predict(node, own.pod, others)
        if prediction is None or not prediction.held:
            return False
        self._placements.put(key, (*others, replace(own, node=node, prediction=prediction)))
        return True

    def _before(self, key: _GroupKey, uid: str) -> tuple[TentativePlacement, ...]:
        """Return the placements of members that were evaluated before this one, and still wait."""
        now, before = self.state.clock(), list[TentativePlacement]()
        for placement in self._placements.peek(key) or ():
            if placement.pod.uid == uid:
                break
            pod = self.state.pods.get(placement.pod.uid)
            stays = pod is not None and not (pod.ended or pod.leaving)
            if stays and now < placement.until and self.state.reservations.node_of(placement.pod.uid) is None:
                before.append(placement)
        return tuple(before)

    def _has_room(self, name: str, pod: AssignedPod, before: Sequence[TentativePlacement]) -> bool:
        prediction = self._predict(name, pod, before)
        return prediction is None or not prediction.verdict.refused

    def _predict(
        self, name: str, pod: AssignedPod, before: Sequence[TentativePlacement]
    ) -> Prediction | None:
        """Return the prediction for a pod beside the members that are placed on a node before it."""
        then = Rearrangement(self.state.reservations, self.state.clock()).leaving(name, (pod.uid,))
        for placement in before:
            if placement.node == name and placement.pod.uid != pod.uid and placement.prediction:
                then = then.coming(name, placement.pod, placement.prediction)
        return then.predict(name, pod.demand, pod.intent) if pod.demand else None

    def _may_change(
        self, crowded: Collection[str], pod: AssignedPod, before: Sequence[TentativePlacement]
    ) -> Steps[bool]:
        """Return whether the scheduler may have placed the members so that one of these nodes has room.

        Equal members can take the place of each other, so the nodes to which any could have gone are followed
        (augmenting paths). Those of another size cannot: none of them may have had a choice.
        """
        by_node: dict[str, list[TentativePlacement]] = {}
        for placement in before:
            by_node.setdefault(placement.node, []).append(placement)
        full, todo = {*crowded}, [*crowded]
        while todo:
            for placement in by_node.get(todo.pop(), ()):
                other = (placement.pod.demand, placement.pod.intent) != (pod.demand, pod.intent)
                if len(placement.fits) > (1 if other else MOST_MEMBERS):
                    return True
                for name in placement.fits:
                    yield
                    if name in full:
                        continue
                    if name not in by_node or self._has_room(name, placement.pod, before):
                        return True
                    full.add(name)
                    todo.append(name)
        return False
