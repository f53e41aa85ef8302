"""
How many replicas would fit, placed one after the other as the scorer places them.

Each goes to the node that ranks first, gets there what is predicted, and counts when the next one is asked
about; nothing is reserved. A replica is taken to get just that: the kubelet takes it before the next comes.
The node as a whole needs room as well, by the rule of kube-scheduler.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from numalign.cache.batch import OwnNode
from numalign.cache.ranking import Ranks
from numalign.ledger.model import PlacementRecord, Prediction, Source
from numalign.ledger.rearrangement import Rearrangement
from numalign.map.views import Placed
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

_NODES_A_STEP = 16


@dataclass(slots=True)
class Replicas:
    """Replicas that are placed on a cluster as it is at each moment, beside those that were placed before."""

    state: SchedulerState
    ranker: Ranker
    placed: list[Placed] = field(default_factory=list)
    _assumed: Rearrangement = field(init=False)

    def __post_init__(self) -> None:
        self._assumed = Rearrangement(self.state.reservations, self.state.clock())

    def place(self, template: int, pod: PendingPod, names: Sequence[str], count: int) -> Iterator[None]:
        """Place so many replicas of a template on any of these nodes, one in each step, until none fits."""
        roomy = list[str]()
        for at, name in enumerate(names, start=1):
            if self._assumed.fits(name, pod.demand):
                roomy.append(name)
            if not at % _NODES_A_STEP:
                yield
        # Of nodes on which something was placed, or that were asked by themselves, their own answer counts.
        own = {name: answer for name in self._assumed.changed if (answer := self._predict(name, pod))}
        end = len(self.placed) + count
        while len(self.placed) < end:
            best = self._ranks(pod, roomy, own).best(roomy)
            if best is None:
                return
            name = roomy[best]
            answer = own.get(name) or self._predict(name, pod)
            if answer is None or not self._assumed.fits(name, pod.demand):
                roomy.remove(name)
            elif answer.verdict.admitted:
                self._take(template, name, pod, answer)
                own |= {name: again} if (again := self._predict(name, pod)) else {}
            else:
                own[name] = answer
            yield

    def _predict(self, name: str, pod: PendingPod) -> Prediction | None:
        return self._assumed.predict(name, pod.question.demand, pod.question.intent)

    def _ranks(self, pod: PendingPod, names: Sequence[str], own: Mapping[str, Prediction]) -> Ranks:
        """What nodes are worth, with what was placed before."""
        apart = [
            OwnNode(position, own[name].node, own[name].verdict)
            for position, name in enumerate(names)
            if name in own
        ]
        batch = self.state.cache.ask_with(names, pod.question, apart, now=self.state.clock())
        return self.ranker.ranks(batch, self.state.labels, opted_out=pod.opted_out)

    def _take(self, template: int, name: str, pod: PendingPod, answer: Prediction) -> None:
        """Take that a replica got what was predicted."""
        held = answer.held or {}
        record = answer.record or PlacementRecord(held, Source.PREDICTED)
        replica = replace(pod.assigned_pod(now=self.state.clock()), uid=f"replica {len(self.placed)}")
        self._assumed = self._assumed.coming(name, replica, answer._replace(record=record))
        zones = sorted({zone for several in held for zone in several})
        self.placed.append(Placed(template, name, tuple(zones)))
