"""
Choose the pods to evict so that a node has aligned room.

kube-scheduler chooses victims by amounts of the whole node, and would evict two pods on two zones for a pod
that needs one zone. A node where evicting its victims does not admit the pod is removed from the candidates,
so that no pod is evicted in vain; if it is uncertain what the victims hold, the node is kept.

Since 1.38 it also sends nodes without victims, where the pod lacks nothing but what an extender knows
(callExtenders of pkg/scheduler/framework/preemption). For these the victims are named here, in the order in
which kube-scheduler compares nodes: the lowest priority that is enough, then the fewest pods, then those with
the lowest priorities, then the youngest. Older schedulers never send such nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import Basis
from numalign.ledger.rearrangement import Leaver, Rearrangement, Relief, needed, relief
from numalign.model.steps import Steps
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState
from scorer.extender_protocol import Victims

EXHAUSTIVE = 3
"""Up to this many victims of one node all choices are checked."""

MOST_CHOICES = 2_000
"""The limit of choices of victims checked by their amounts, for one node."""

MOST_PREDICTIONS = 32
"""The limit of predictions for one node; if they are not enough, no victims are named there."""

MOST_IN_CALL = 1_024
"""The limit of predictions in a call, all nodes together; after it no more nodes are searched."""

LEAVING_SECONDS = 60.0
"""How far from now a pod that was deleted is to be killed, so that nobody is named on other nodes."""

CHOICES_PER_PREDICTION = 50
"""So many choices that are checked by their amounts count as a prediction: they take as long."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Evaluates candidates for preemption."""

    state: SchedulerState

    def worthwhile(self, pod: PendingPod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Return the nodes, with their victims as received, where evicting these would admit the pod."""
        return {name: pods for name, pods in victims.items() if self._helps(name, pods, pod)}

    def candidates(
        self, pod: PendingPod, priority: int | None, victims: Mapping[str, Victims]
    ) -> Steps[dict[str, Victims]]:
        """Return, in steps, the nodes where evicting their victims would admit the pod.

        Where none were received, they are named, for a pod of this `priority`; for None no pods may be
        evicted. A node that needs no victims of its own keeps its empty list, and then no node with victims
        is left: kube-scheduler would ignore that node, and evict pods for one that need not go.
        """
        kept: dict[str, Victims] = {}
        lacking: list[str] = []
        has_room = False
        for name, received in victims.items():
            yield
            if self._helps(name, received, pod):
                kept[name] = received
                has_room = has_room or (not received.uids and self._has_room(name, pod))
            elif not received.uids:
                lacking.append(name)
        without = {name: received for name, received in kept.items() if not received.uids}
        if has_room:
            return without
        if priority is None:
            return kept
        named: dict[str, Victims] = {}
        left, reservations = MOST_IN_CALL, self.state.reservations
        for name in lacking:
            yield
            if left <= 0:
                break
            seen = (self.state.pods.get(assigned.uid) for assigned in reservations.assigned_to(name))
            bound = [other for other in seen if other and other.node == name]
            leaving = [other for other in bound if other.leaving]
            # A member of a pod group may take members on other nodes with it, which no extender can name. A
            # static pod runs on if its mirror is deleted, which its node owns.
            lower = {
                other.uid: other
                for other in bound
                if other.priority < priority
                and not (other.leaving or other.group)
                and not (other.owner and (other.owner.group, other.owner.kind) == ("", "Node"))
            }
            gone = tuple(other.uid for other in leaving)
            search = _VictimSearch(self.state, pod, name, gone, MOST_PREDICTIONS)
            chosen = yield from search.run(lower)
            left -= MOST_PREDICTIONS - search.predictions + search.choices // CHOICES_PER_PREDICTION
            if chosen is not None:
                named[name] = Victims(tuple(victim.uid for victim in chosen), 0)
                # The owner of a deleted pod chose how long it runs on.
                wall = self.state.wall()
                if not chosen and all(abs(other.leaves - wall) <= LEAVING_SECONDS for other in leaving):
                    return without | {name: named[name]}
        return kept | named

    def _has_room(self, name: str, pod: PendingPod) -> bool:
        prediction = self.state.predict(name, pod, without=(pod.uid,))
        return prediction is not None and prediction.verdict.admitted

    def _helps(self, name: str, victims: Victims, pod: PendingPod) -> bool:
        if self.state.over_quota(pod, node=name, without=victims.uids):
            return False
        prediction = self.state.predict(name, pod, without=(*victims.uids, pod.uid))
        if prediction is None:
            return True
        verdict = prediction.verdict
        if not verdict.answered:
            # An eviction does not make the evaluation any shorter.
            return not pod.question.intent.binding
        certain = verdict.permanent or prediction.basis is not Basis.REPORTED
        return verdict.admitted or not certain


@dataclass(slots=True)
class _VictimSearch:
    """The search for victims on one node, on which some pods are `leaving` anyway.

    `predictions` are as many as may still be made, `choices` those that were checked by their amounts.
    """

    state: SchedulerState
    pod: PendingPod
    name: str
    leaving: tuple[str, ...]
    predictions: int
    choices: int = 0

    def run(self, lower: Mapping[str, PodInfo]) -> Steps[Sequence[PodInfo] | None]:
        """Return, in steps, the victims, the most important first, chosen among these pods by uid.

        None if none help.
        """
        if self._admits(()):
            return ()
        cheapest = sorted(lower, key=lambda uid: _cost([lower[uid]]))
        rest = Rearrangement(self.state.reservations, self.state.clock())
        rest = rest.leaving(self.name, (self.pod.uid, *self.leaving))
        info, free, question = rest.info(self.name), rest.free(self.name), self.pod.question
        if info is None or free is None:
            return None
        gain = relief(info, free, question.demand, question.intent, cheapest)
        for level in sorted({lower[leaver.uid].priority for leaver in gain.leavers}):
            pool = tuple(leaver for leaver in gain.leavers if lower[leaver.uid].priority <= level)
            if gain.suffices(pool) and self._admits(pool):
                chosen = yield from self._fewest(replace(gain, leavers=pool), lower)
                return [lower[leaver.uid] for leaver in reversed(chosen)] if chosen else None
        return None

    def _fewest(self, gain: Relief, lower: Mapping[str, PodInfo]) -> Steps[Sequence[Leaver] | None]:
        """Return, in steps, the fewest and cheapest of the leavers that are enough, in their order.

        Beyond a few, spare the most important first, as SelectVictimsOnNode of kube-scheduler does.
        """
        for size in range(gain.least() or 1, EXHAUSTIVE + 1):
            enough: list[Sequence[Leaver]] = []
            for choice in islice(gain.choices(size), MOST_CHOICES):
                yield
                self.choices += 1
                if gain.suffices(choice):
                    enough.append(choice)
            for chosen in sorted(enough, key=lambda choice: _cost([lower[leaver.uid] for leaver in choice])):
                yield
                if self._admits(chosen):
                    return chosen
        # Amounts alone spare most of them, without a prediction for each.
        chosen = needed(gain.leavers, gain.suffices)
        if not self._admits(chosen):
            chosen = needed(gain.leavers, lambda fewer: gain.suffices(fewer) and self._admits(fewer))
        return chosen if self.predictions >= 0 else None

    def _admits(self, gone: Sequence[Leaver]) -> bool:
        """Return whether the quota and, as predicted, the kubelet admit the pod without these."""
        self.predictions -= 1
        if self.predictions < 0:
            return False
        uids = (self.pod.uid, *self.leaving, *(leaver.uid for leaver in gone))
        if self.state.over_quota(self.pod, self.name, without=uids):
            return False
        prediction = self.state.predict(self.name, self.pod, without=uids)
        return prediction is not None and prediction.verdict.admitted


def _cost(victims: Sequence[PodInfo]) -> tuple[int, int, int, tuple[str, str]]:
    """Return the cost of equally many victims: the most important one, priorities, ages; and a name."""
    first = min(victims, key=lambda pod: (pod.namespace, pod.name))
    return (
        max(pod.priority for pod in victims),
        sum(pod.priority for pod in victims),
        -sum(pod.created for pod in victims),
        (first.namespace, first.name),
    )
