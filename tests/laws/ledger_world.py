"""
One node as it really is, and what a ledger hears of it: late, and of some things before others.

What a kubelet decides is what the rules say it decides; what else matters is restated here. A kubelet hears
of pods in the order in which they were bound, takes what arrived together by the second of creation (removed
pods first), and lets go of a pod before the API server knows of its end. An exporter looks at some moment, is
heard at another, and does not see what finished init containers leave to their pods. Pods are bound one after
another in the order of their reservations, each asked about once more before.

What happens next is read off a tape of numbers: whoever draws the tape draws the story, and a shorter tape is
a shorter story. Two things are not told, for nobody could answer them: pods that end between two others that
are both on their way, and reservations that are made between an end and the news of it. `Course` allows them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType

from numalign.decision.evaluate import NO_INTENT
from numalign.decision.own_zones import own_zones
from numalign.kubelet import admit as kubelet
from numalign.kubelet.managers_state import Assignments as Booked
from numalign.ledger.arithmetic import by_id, named
from numalign.ledger.model import AssignedPod, PlacementRecord, PodName, Prediction, Source, Stage
from numalign.ledger.observations import ObservedPods
from numalign.ledger.reservations import Reservations
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node
from numalign.model.placement import Held, Placement, ZoneSet
from numalign.model.pod import Role
from numalign.model.resources import EMPTY, Resources, ZoneId
from tests.worlds.notation import asks

LAG, KEPT = 20.0, 60.0
LATE = 8.0
"""After so many seconds everything is heard of; less than a ledger allows for the end of a pod."""

NAME = "node"
NAMES = ("web-0", "web-1", "web-2", "web-3")
STEPS = (0.2, 1.0, 3.0, 15.0)

MENU = tuple(
    asks(*text.split("|"))
    for text in (
        "cpu=1 mem=1Gi", "cpu=2 mem=1Gi", "cpu=3 mem=1Gi", "cpu=4 mem=2Gi", "cpu=1 mem=1Gi gpu=1",
        "cpu=2 mem=2Gi gpu=1", "cpu=2 mem=3Gi gpu=2", "cpu=1.. gpu=1", "cpu=1 mem=3Gi", "cpu=5 mem=1Gi",
        "cpu=1 mem=6Gi", "cpu=6 mem=6Gi gpu=3", "cpu=500m mem=1Gi", "cpu=2..",
        "cpu=2 mem=1Gi | cpu=1 mem=1Gi", "cpu=1 mem=1Gi gpu=1 | cpu=3 mem=1Gi",
        "init cpu=3 mem=3Gi | cpu=1 mem=1Gi",
        "init cpu=1 mem=1Gi | sidecar cpu=1 mem=1Gi | cpu=2 mem=1Gi gpu=1",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Course:
    """What may happen. `strangers` came before anybody kept a ledger, and nothing is recorded of them.

    Without `exporter` topologies are told of only as late as a ledger allows. An `agent` tells with them what
    every pod holds that is there as it looks. Of a bind that got lost it is
    not known whether it was made, will be made yet, or never. Each pod has one of these `intents`; where that
    may be to be alone, no pod ends while another is on its way, for nobody could foresee where that comes to.
    """

    strangers: int = 0
    exporter: bool = True
    agent: bool = False
    fingerprints: bool = False
    names_return: bool = False
    binds_get_lost: bool = False
    ends_between: bool = False
    reservations_before_news: bool = False
    intents: tuple[Intent, ...] = (NO_INTENT,)


@dataclass(slots=True)
class Story:
    """A pod, from its creation to its end; `taken` is when its kubelet took it."""

    uid: str
    name: PodName
    demand: Demand
    created: int
    intent: Intent = NO_INTENT
    reserved: bool = False
    record: PlacementRecord | None = None
    bound: bool = False
    taken: float | None = None
    terminating: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What a kubelet has down for a pod: in its books, by zones, and as exporters see it."""

    booked: Booked
    held: Held
    seen: Mapping[ZoneSet, Resources]

    def seen_by_agent(self) -> PlacementRecord:
        """What the agent beside the kubelet says of it."""
        return PlacementRecord(self.held, Source.KUBELET, cpus=self.booked.cpus)


@dataclass(frozen=True, slots=True)
class Sample:
    """What an exporter saw, and of which pods."""

    at: float
    node: Node
    names: frozenset[PodName]
    observed: ObservedPods

    def fingerprint(
        self, _node: Node, certain: Sequence[AssignedPod], perhaps: Sequence[AssignedPod]
    ) -> frozenset[PodName] | None:
        """As a fingerprint would that nothing else has."""
        certain_names = {other.name for other in certain}
        possible = certain_names | {other.name for other in perhaps}
        return self.names if certain_names <= self.names <= possible else None


class World:
    """A story about one node; `run` tells it to the end of the tape.

    It fails where a kubelet refuses a pod with a reservation, or gave it other zones than the ledger
    believes after all news has arrived.
    """

    def __init__(
        self,
        node: Node,
        tape: Iterator[int],
        course: Course,
        *,
        menu: Sequence[Demand] = MENU,
    ) -> None:
        self.ledger = empty_ledger()
        self.stories: dict[str, Story] = {}
        self.taken: dict[str, Taken] = {}
        self.now = 1000.0
        self._empty = node
        self._truth = node
        self._tape = tape
        self._course = course
        self._menu = menu
        self._inbox: list[tuple[str, str]] = []
        self._news: deque[tuple[float, str]] = deque()
        self._queue: list[str] = []
        self._unconfirmed: list[str] = []
        self._samples: deque[Sample] = deque()
        self._last = self._look()

    def run(self) -> None:
        """Tell the story."""
        try:
            for _ in range(self._course.strangers):
                self._stranger()
            self._publish(self._look())
            while True:
                _DEEDS[self._choose(len(_DEEDS))](self)
                self.check()
        except StopIteration:
            return

    def check(self) -> None:
        """Fail where the ledger believes something that is not so."""
        counted = {pod.uid: pod for pod in self.ledger.counted_pods()}
        for uid, taken in self.taken.items():
            counted_pod = counted.get(uid)
            if counted_pod and counted_pod.record and not self._unheard():
                assert same(counted_pod.record.held, taken.held), (
                    f"{uid}: {counted_pod.record.held} is {taken.held}"
                )
            seen = self.ledger.observed(uid)
            assert seen is None or seen == taken.seen_by_agent()
        self._check_zones()

    def _check_zones(self) -> None:
        """Fail where a pod that was certain of where it comes to shares zones that are not to be shared."""
        taken_by = [(uid, self.stories[uid], self._own_zones(uid)) for uid in self.taken]
        for (uid, one, mine), (other_uid, other, theirs) in combinations(taken_by, 2):
            if (one.intent.exclusive or other.intent.exclusive) and one.record and other.record:
                assert not mine & theirs, f"{uid} and {other_uid} share {mine & theirs}"

    def _own_zones(self, uid: str) -> frozenset[ZoneId]:
        story, zones = self.stories[uid], by_id(self.taken[uid].held, self._empty)
        assert zones is not None
        return own_zones(self._empty, story.demand, story.intent, zones)

    def look_again(self) -> Node:
        """Look now, and be heard at once; the node as it really is."""
        self._samples.clear()
        self._publish(self._look())
        return self._truth

    def settle(self) -> None:
        """Nobody waits any more, and everybody knows everything."""
        for uid in tuple(self._queue):
            self._give_up(self.stories[uid])
        self.deliver_all()

    def retell(self, ledger: Reservations) -> None:
        """Tell another ledger what is true now."""
        self._report_to(ledger)
        for story in self.stories.values():
            if story.bound and not story.gone:
                ledger.update_pod(NAME, self._assigned_pod(story))

    def deliver_all(self) -> None:
        """Bring all news."""
        while self._inbox:
            self._receive(1)
        while self._news:
            self.update()

    def _choose(self, count: int) -> int:
        return next(self._tape) % count

    # Pods come.

    def _new(self, created: int) -> Story:
        demand = self._menu[self._choose(len(self._menu))]
        uid = f"pod-{len(self.stories)}"
        intents = self._course.intents
        intent = intents[self._choose(len(intents))] if len(intents) > 1 else intents[0]
        story = Story(uid, ("team", self._name(uid)), demand, created, intent)
        self.stories[uid] = story
        return story

    def _name(self, uid: str) -> str:
        taken = {other.name[1] for other in self.stories.values() if not other.gone}
        open_to = [name for name in NAMES if name not in taken] if self._course.names_return else []
        return open_to[self._choose(len(open_to))] if open_to else uid

    def _stranger(self) -> None:
        story = self._new(int(self.now))
        story.bound = True
        self._inbox.append(("add", story.uid))
        self._news.append((self.now, story.uid))
        self.deliver_all()

    def arrive(self) -> None:
        """A pod is made, and has a place reserved if there is one."""
        if self._silent():
            return
        story = self._new(int(self.now) - self._choose(3))
        prediction = self._predict(story)
        if not prediction.verdict.admitted:
            story.gone = True
            return
        story.reserved = True
        self.ledger.reserve(NAME, self._assigned_pod(story), prediction)
        self._queue.append(story.uid)

    def bind(self) -> None:
        """The first with a reservation is bound, if that will come true."""
        if not self._queue or self._silent():
            return
        story = self.stories[self._queue[0]]
        prediction = self._predict(story)
        if not prediction.verdict.admitted:
            self._give_up(story)
        elif prediction.reservable or (not prediction.waits_for and self._choose(2)):
            self.ledger.update_reservation(story.uid, prediction)
            self._write(story, prediction.record)
        elif not self._choose(8):
            self._give_up(story)

    def _predict(self, story: Story) -> Prediction:
        without = self.ledger.reserved_since(story.uid)
        prediction = self.ledger.predict(
            NAME, story.demand, story.intent, created=story.created, now=self.now, without=without
        )
        assert prediction
        return prediction

    def _give_up(self, story: Story) -> None:
        self._queue.remove(story.uid)
        self.ledger.unreserve(story.uid)
        story.gone = True

    def _write(self, story: Story, record: PlacementRecord | None) -> None:
        fate = self._choose(16)
        if fate == 0:
            self._give_up(story)
            return
        self._queue.remove(story.uid)
        story.record = record and PlacementRecord(record.held, Source.RECORDED)
        if fate == 1 and self._course.binds_get_lost:
            self.ledger.mark_unconfirmed(story.uid)
            if self._choose(2):
                self._unconfirmed.append(story.uid)
            return
        self._bound(story)

    def bind_late(self) -> None:
        """A pod of which nobody knows whether it was bound is bound now: the call was late, or made again."""
        if self._unconfirmed:
            self._bound(self.stories[self._unconfirmed.pop(self._choose(len(self._unconfirmed)))])

    def _bound(self, story: Story) -> None:
        story.bound = True
        self._inbox.append(("add", story.uid))
        self._news.append((self.now, story.uid))

    # The kubelet.

    def receive(self) -> None:
        """The kubelet hears of some pods at once."""
        self._receive(1 + self._choose(3))

    def _receive(self, count: int) -> None:
        batch = self._inbox[:count]
        removed = [uid for what, uid in batch if what == "remove"]
        added = [uid for what, uid in batch if what == "add" and uid not in removed]
        # The tape may end here, and then none of it has happened.
        shuffled = [(self.stories[uid].created, len(added) > 1 and self._choose(4), uid) for uid in added]
        self._inbox = self._inbox[count:]
        for uid in removed:
            self._release(uid)
        for _, _, uid in sorted(shuffled):
            self._admit(self.stories[uid])

    def _admit(self, story: Story) -> None:
        admission = kubelet.admit(self._truth, story.demand)
        if admission.refusal:
            assert not story.reserved, f"{story.uid} bounced: {admission.refusal.reason}"
            story.gone = True
        else:
            self._truth = kubelet.charge(self._truth, admission)
            zones = named(admission.placement.kept, self._empty)
            self.taken[story.uid] = Taken(admission.held, zones, visible(admission.placement))
            story.taken = self.now
        self._news.append((self.now, story.uid))

    def _release(self, uid: str) -> None:
        taken = self.taken.pop(uid, None)
        if taken:
            self._truth = kubelet.release(self._truth, [taken.booked])

    # Pods go.

    def delete(self) -> None:
        """Somebody deletes a pod, which takes its time to end."""
        story = self._one(lambda other: other.bound and not other.terminating)
        if story:
            story.terminating = True
            self._news.append((self.now, story.uid))

    def end(self) -> None:
        """A pod ends, whether it was deleted or has done its work."""
        story = self._one(lambda other: other.uid in self.taken)
        if story and not self._between():
            self._release(story.uid)
            self._forget(story)

    def remove(self) -> None:
        """A pod is taken off the API server, and its kubelet hears of that like everybody."""
        story = self._one(lambda other: other.bound)
        if story and not self._between():
            self._inbox.append(("remove", story.uid))
            self._forget(story)

    def _one(self, fits: Callable[[Story], bool]) -> Story | None:
        those = [other for other in self.stories.values() if fits(other) and not other.gone]
        return those[self._choose(len(those))] if those else None

    def _between(self) -> bool:
        most = 0 if any(intent.exclusive for intent in self._course.intents) else 1
        return len(self._inbox) + len(self._unconfirmed) > most and not self._course.ends_between

    def _forget(self, story: Story) -> None:
        story.gone = True
        self._news.append((self.now, story.uid))

    # News.

    def update(self) -> None:
        """News of one pod, which is by now as it is."""
        if not self._news:
            return
        _, uid = self._news.popleft()
        story = self.stories[uid]
        if story.gone:
            self.ledger.remove_pod(uid, now=self.now)
        else:
            self.ledger.update_pod(NAME, self._assigned_pod(story))

    def _assigned_pod(self, story: Story) -> AssignedPod:
        stage = Stage.ADMITTED if story.taken else Stage.BOUND if story.bound else Stage.RESERVED
        return AssignedPod(
            story.uid,
            story.name,
            story.demand,
            stage,
            since=story.taken or self.now,
            created=story.created,
            record=story.record,
            terminating=story.terminating,
            intent=story.intent,
        )

    def _unheard(self) -> bool:
        """Whether a pod has ended of which that is not known yet."""
        return any(self.stories[uid].gone for _, uid in self._news)

    def _silent(self) -> bool:
        return self._unheard() and not self._course.reservations_before_news

    # What is published.

    def look(self) -> None:
        """The exporter looks."""
        if self._course.exporter:
            self._samples.append(self._look())

    def publish(self) -> None:
        """What it saw is heard of."""
        if self._samples:
            self._publish(self._samples.popleft())

    def _look(self) -> Sample:
        free = {zone.id: dict(zone.allocatable) for zone in self._empty.zones}
        for taken in self.taken.values():
            for zones, amounts in taken.seen.items():
                for name, amount in amounts.items():
                    _draw([free[zone] for zone in zones], name, amount)
        zones_left = (replace(zone, free=Resources(free[zone.id])) for zone in self._empty.zones)
        names = frozenset(self.stories[uid].name for uid in self.taken)
        observed = {uid: taken.seen_by_agent() for uid, taken in self.taken.items()}
        # Of a machine whoever reads what its agent says knows as much as that saw.
        admission = self._truth if self._empty.machine else replace(self._empty, zones=tuple(zones_left))
        return Sample(self.now, admission, names, observed if self._course.agent else {})

    def _publish(self, sample: Sample) -> None:
        self._last = sample
        self._report_to(self.ledger)

    def _report_to(self, ledger: Reservations) -> None:
        """Report what was published last."""
        ledger.update_node(self._last.node, self._last.fingerprint if self._course.fingerprints else None)
        ledger.update_observed(NAME, self._last.observed, now=self.now)

    def wait(self) -> None:
        """Time passes; nothing is later than it may be."""
        then = self.now + STEPS[self._choose(len(STEPS))]
        while self._news and self._news[0][0] < then - LATE:
            self.update()
        # A ledger counts on this wherever it does not know of every pod what it holds.
        if self._last.at < then - LAG:
            self._publish(self._look())
            self._samples.clear()
        self.now = then
        for other in self.ledger.expire(self.now):
            self.stories[other.uid].gone = True
        self._queue = [uid for uid in self._queue if not self.stories[uid].gone]
        self._unconfirmed = [uid for uid in self._unconfirmed if not self.stories[uid].gone]


_DEEDS: Sequence[Callable[[World], None]] = (
    *[World.arrive] * 3, *[World.bind] * 4, *[World.receive] * 2, *[World.update] * 2, World.end,
    World.delete, World.remove, World.deliver_all, World.look, World.publish, World.wait, World.bind_late,
)  # fmt: skip


def empty_ledger() -> Reservations:
    """A ledger that waits as long for this world's news as they take."""
    return Reservations(lag=LAG, kept=KEPT)


def same(one: Held, other: Held) -> bool:
    """Whether this is the same, however its zones are ordered."""
    return {frozenset(zones): bag for zones, bag in one.items()} == {
        frozenset(zones): bag for zones, bag in other.items()
    }


def visible(placement: Placement) -> Mapping[ZoneSet, Resources]:
    """What exporters see of a pod: the containers that run as long as it does."""
    total: dict[ZoneSet, Resources] = {}
    for grant in placement.grants:
        for zones, amounts in grant.amounts.items() if grant.role is not Role.INIT else ():
            total[zones] = total.get(zones, EMPTY).plus(amounts)
    return MappingProxyType(total)


def _draw(zones: Sequence[dict[str, int]], name: str, amount: int) -> None:
    for zone in zones:
        drawn = min(zone.get(name, 0), amount)
        amount -= drawn
        if drawn:
            zone[name] -= drawn
