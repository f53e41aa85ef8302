"""
Choose the node that a gated pod is pinned to.

A node must admit the pod by labels and taints, have zones for it by the rules of its kubelet, and enough room
in total by the rule of the scheduler. Among such nodes the ranking decides, as it does for schedulers. Nodes
that recently rejected such a pod come last; of the best few, the first one without a wait is chosen.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, islice, zip_longest

from controller.gates.pin import HOSTNAME_LABEL, PinTarget
from controller.held import HeldPlaces
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import Prediction
from numalign.runtime.cooperative import TimeSlice
from numalign.scheduling import node_answers
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.node_fit import NodeFit
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_KEPT = 256
"""Most nodes that a pod is restricted to if it is not pinned to one; more would make the pod too large."""

AT_HAND = 4
"""How many of the best nodes to check for one that can be reserved without waiting for other pods."""

MOST_REASONS = 3
"""Most reasons why nodes do not fit, the most frequent first."""

ZONE_LABEL = "topology.kubernetes.io/zone"

Refusing = Callable[[PodInfo, PendingPod], Sequence[str]]
"""The nodes that recently rejected a pod with these requests."""


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """Where a pod is to go, and its predicted placement there; None if it cannot be predicted."""

    target: PinTarget
    prediction: Prediction | None


@dataclass(frozen=True, slots=True)
class NoNode:
    """
    No node fits the pod now; `why` has the most frequent reasons.

    If the quota of its namespace excludes nodes that it may use, it waits for that: `over_quota` says why.
    """

    why: str
    over_quota: str = ""


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses among all known nodes."""

    state: SchedulerState
    nodes: NodeAnswers
    ranker: Ranker
    fit: NodeFit
    refusing: Refusing = lambda _pod, _pending: ()
    places: HeldPlaces | None = None

    def awaits(self, pod: PodInfo, pending: PendingPod) -> bool:
        """Return whether a place is held for this pod."""
        return self.places is not None and self.places.awaits(pod, pending)

    def held(self, pod: PodInfo, pending: PendingPod) -> ChosenNode | None:
        """Return the node held for this pod until now; None if there is none, or it no longer fits."""
        node = self.places.take(pod, pending) if self.places else None
        if node is None:
            return None
        (answer,) = self.nodes.of([node], pending)
        return ChosenNode(PinTarget(node), answer.prediction) if answer.fits else None

    async def choose(self, pod: PodInfo, pending: PendingPod, *, spread: bool) -> ChosenNode | NoNode:
        """
        Return the best node to pin a pod to or, with `spread`, the nodes to restrict it to.

        It takes many steps, and other tasks run in between: check the result again.
        """
        known, time_slice = tuple(self.state.node_names()), TimeSlice()
        beyond = self.state.nodes_over_quota(pending, known)
        names = tuple(name for name in known if name not in beyond) if beyond else known
        kept_away = self.nodes.not_eligible(names, pending)
        await time_slice.share()
        eligible = [name for name in names if name not in kept_away]
        filtered, _ = await self.nodes.evaluate(partial(self.nodes.filtered, eligible, pending))
        rank = partial(self._ranked, eligible, frozenset(filtered.fit), pending)
        ranked, aligned = await self.nodes.evaluate(rank)
        await time_slice.share()
        refused = frozenset(self.refusing(pod, pending))
        wanted = len(filtered.fit) if spread else AT_HAND + len(refused)
        roomy, full = await self._roomy(ranked, pending, wanted=wanted)
        roomy.sort(key=refused.__contains__)
        answers = [answer for answer in self.nodes.of(roomy[:AT_HAND], pending) if answer.fits]
        if not answers:
            refusals = Counter(node_answers.kept_away(why.unmet) for why in kept_away.values())
            refusals.update(chain(filtered.failed.values(), filtered.unresolvable.values()))
            refusals["node(s) have too little free in total (numalign)"] += full
            # In the form of kube-scheduler.
            frequent = [f"{number} {why}" for why, number in refusals.most_common(MOST_REASONS) if number]
            text = f"0/{len(names)} nodes are available: {', '.join(frequent)}"
            away = self.nodes.not_eligible(tuple(beyond), pending)
            over_quota = next((why for name, why in beyond.items() if name not in away), "")
            return NoNode(text if frequent else "there is no node", over_quota)
        # The best node, or an equally aligned one of the next where the pod need not wait.
        alike = (one for one in answers if (one.name in aligned) is (answers[0].name in aligned))
        chosen = next((one for one in alike if one.prediction and one.prediction.reservable), answers[0])
        if not spread:
            return ChosenNode(PinTarget(chosen.name), chosen.prediction)
        hostnames = kept_to([chosen.name, *roomy], self.state.labels)
        return ChosenNode(PinTarget(chosen.name, hostnames), chosen.prediction)

    async def _roomy(
        self, names: Iterable[str], pending: PendingPod, *, wanted: int
    ) -> tuple[list[str], int]:
        """Return the first `wanted` nodes with room in total, and how many before them had none."""
        roomy, full, time_slice = list[str](), 0, TimeSlice()
        for name in names:
            await time_slice.share()
            if not self.fit.fits(name, pending.demand):
                full += 1
                continue
            roomy.append(name)
            if len(roomy) >= wanted:
                break
        return roomy, full

    def _ranked(
        self, names: Sequence[str], fit: AbstractSet[str], pending: PendingPod
    ) -> tuple[Sequence[str], AbstractSet[str]]:
        """Return the nodes that fit, the best first, and which of them align the pod."""
        if not fit:
            return (), fit
        batch = self.nodes.batch(names, pending)
        ranks = self.ranker.ranks(batch, self.state.labels, opted_out=pending.opted_out)
        order = [names[place] for place in ranks.order(names)]
        aligned = frozenset(compress(names, ranks.aligned.tolist()))
        return [name for name in order if name in fit], aligned


def kept_to(names: Iterable[str], labels: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """
    Return the hostnames of at most `MOST_KEPT` of these nodes, evenly by zone, in order within each.

    A pod may be bound to a zone in which the others of its kind have no room, so no zone is left out.
    """
    by_zone: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        carried = labels.get(name, {})
        if hostname := carried.get(HOSTNAME_LABEL):
            by_zone.setdefault(carried.get(ZONE_LABEL, ""), []).append(hostname)
    in_turn = chain.from_iterable(zip_longest(*by_zone.values()))
    return tuple(islice(filter(None, in_turn), MOST_KEPT))
