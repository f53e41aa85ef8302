"""
A node as one thing after another happens to it, and what its kubelet is predicted to say.

The kubelet lets go of nothing when a pod ends: what a deleted pod held, and what a refused one had been given
before its refusal, comes back when the next pod asks. Predictions are charged until somebody says what really
happened, so that each question starts from the best that is known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from kubectl_numa.events import BadLine, Created, Deleted, Event, Observed, Started
from numalign.rules import demand as demands
from numalign.rules.demand import WHOLE_POD, Demand
from numalign.rules.errors import Mistake
from numalign.rules.evaluate import evaluate
from numalign.rules.kubelet import admit as kubelet
from numalign.rules.kubelet.admit import Admission, Held
from numalign.rules.kubelet.observe import Seen, observe
from numalign.rules.kubelet.refused import Reason
from numalign.rules.machine import render_list
from numalign.rules.placement import Grant, ZoneSet
from numalign.rules.resources import CPU
from numalign.rules.topology import Node


@dataclass(frozen=True, slots=True)
class Answer:
    """What a kubelet is predicted to say to a pod.

    `reason` and `message` are None if it admits the pod. `whole` is what the pod gets of which its containers
    divide parts, where it is served as a whole.
    """

    pod: str
    node: Node
    grants: tuple[Grant, ...] = ()
    whole: Grant | None = None
    reason: Reason | None = None
    message: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The answer for programs: millicores, bytes and pieces."""
        why = {"reason": self.reason, "message": self.message} if self.reason else {}
        shared = {"shared": self._held(self.whole)} if self.whole else {}
        return {
            "pod": self.pod,
            "admitted": self.reason is None,
            **why,
            "containers": {grant.container: self._container(grant) for grant in self.grants},
            **shared,
            "known": self.node.known,
        }

    def _container(self, grant: Grant) -> dict[str, Any]:
        choices = {"choices": grant.chosen} if grant.chosen else {}
        return {"affinity": grant.affinity, "preferred": grant.preferred, **self._held(grant), **choices}

    def _held(self, grant: Grant) -> dict[str, Any]:
        # The ids of CPUs say something only where somebody told which there are.
        cpus = {"cpus": render_list(grant.cpus)} if self.node.machine and grant.cpus else {}
        amounts = {",".join(map(str, zones)): dict(bag) for zones, bag in grant.amounts.items()}
        return {**cpus, "amounts": amounts}


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod that was asked for, and what it holds; None if it was refused.

    `seen` says that this is what really happened, and no prediction.
    """

    demand: Demand
    held: Held | None
    seen: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A node and the pods on it.

    `pods` stand in the order in which they came. `leaving` is what comes back when the next pod asks, in the
    order in which it was let go, under the names of its pods. `latest` is the pod that asked last, and the
    node as that pod found it.
    """

    node: Node
    pods: Mapping[str, Stay] = field(default_factory=dict)
    leaving: tuple[tuple[str, Held], ...] = ()
    latest: tuple[str, Node] | None = None


def follow(session: Session | None, event: Event) -> tuple[Session, Answer | None]:
    """What is after an event, and the answer if it was a question; raises `BadLine` where it cannot be."""
    if isinstance(event, Started):
        return Session(event.node), None
    if session is None:
        raise BadLine([Mistake("", "there is no node yet: the first line must tell of one")])
    match event:
        case Created():
            return _created(session, event)
        case Observed():
            return _observed(session, event), None
        case Deleted():
            return _deleted(session, event), None
        case _:
            assert_never(event)


def _created(session: Session, event: Created) -> tuple[Session, Answer]:
    name, known = event.pod.name, session.pods.get(event.pod.name)
    if known and known.held is not None:
        raise BadLine([Mistake("create.metadata.name", f'"{name}" is on the node already: delete it first')])
    demand = demands.of(event.pod)
    before = kubelet.release(session.node, [held for _, held in session.leaving])
    admission = kubelet.admit(before, demand)
    refused = admission.refusal is not None
    after = Session(
        kubelet.found(before, admission),
        {**_without(session, name), name: Stay(demand, None if refused else admission.held)},
        ((name, admission.held),) if refused else (),
        (name, before),
    )
    return after, _answer(name, before, demand, admission)


def _answer(name: str, node: Node, demand: Demand, admission: Admission) -> Answer:
    if admission.refusal is None:
        return Answer(name, node, admission.placement.grants, admission.placement.whole)
    refusal = evaluate(node, demand).refusal
    message = f"{refusal.subject}: {refusal}" if refusal else None
    return Answer(name, node, reason=admission.refusal.reason, message=message)


def _deleted(session: Session, event: Deleted) -> Session:
    stay = _stay(session, event.pod, "delete")
    gone = () if stay.held is None else ((event.pod, stay.held),)
    return replace(session, pods=_without(session, event.pod), leaving=(*session.leaving, *gone))


def _observed(session: Session, event: Observed) -> Session:
    stay = _stay(session, event.pod, "observed.pod")
    if event.seen is None and stay.held is None:
        return session
    fresh = session.latest is not None and session.latest[0] == event.pod
    # What was left right after the pod says nothing once others have come.
    left = event.left if fresh else None
    # What is only guessed of other pods may be in the way; but not where all that is left is known.
    guesses = {} if left is not None else _guesses(session, event.pod)
    node, held = _before(session, event.pod, guesses), None
    if event.seen is not None:
        node, held = observe(node, stay.demand, _seen(event, event.seen, stay.demand, node), left)
    pods = {**session.pods, event.pod: Stay(stay.demand, held, seen=True)}
    for name, guess in guesses.items():
        node, pods[name] = _guessed(node, guess.demand)
    leaving = tuple(each for each in session.leaving if each[0] != event.pod)
    return Session(node, pods, leaving, session.latest if fresh else None)


def _guesses(session: Session, pod: str) -> dict[str, Stay]:
    """The other pods on the node of which nobody said what happened."""
    return {
        name: stay
        for name, stay in session.pods.items()
        if name != pod and stay.held is not None and not stay.seen
    }


def _before(session: Session, pod: str, guesses: Mapping[str, Stay]) -> Node:
    """The node without a pod and without guesses; the pod that asked last found it as it is remembered."""
    fresh = session.latest is not None and session.latest[0] == pod
    node = session.latest[1] if session.latest and fresh else session.node
    stays = [*([] if fresh else [session.pods[pod]]), *guesses.values()]
    return kubelet.release(node, [stay.held for stay in stays if stay.held is not None])


def _guessed(node: Node, demand: Demand) -> tuple[Node, Stay]:
    admission = kubelet.admit(node, demand)
    return kubelet.charge(node, admission), Stay(demand, None if admission.refusal else admission.held)


def _without(session: Session, pod: str) -> dict[str, Stay]:
    return {name: stay for name, stay in session.pods.items() if name != pod}


def _stay(session: Session, pod: str, where: str) -> Stay:
    if pod not in session.pods:
        raise BadLine([Mistake(where, f'there is no pod "{pod}" on the node')])
    return session.pods[pod]


def _seen(event: Observed, seen: Iterable[Seen], demand: Demand, node: Node) -> list[Seen]:
    """What the containers were seen to hold, in the order in which they were admitted."""
    places = {name: at for at, name in enumerate([WHOLE_POD, *(step.container for step in demand.steps)])}
    if mistakes := [*_strange(event, places, node)]:
        raise BadLine(mistakes)
    listed = sorted(seen, key=lambda one: places[one.container])
    return listed if node.machine else [replace(one, cpus=_unnamed(one)) for one in listed]


def _unnamed(one: Seen) -> int | None:
    """Ids of CPUs mean nothing on a machine that is only assumed; that there are none does."""
    return None if any(CPU in bag for bag in one.amounts.values()) else 0


def _strange(event: Observed, containers: Mapping[str, int], node: Node) -> Iterator[Mistake]:
    """What was seen of things that are not there."""
    for one in event.seen or ():
        where = "observed.shared" if one.container == WHOLE_POD else f"observed.containers.{one.container}"
        if one.container not in containers:
            yield Mistake(where, "the pod has no such container")
        yield from _strange_zones(f"{where}.amounts", one.amounts, node)
        strange = (one.cpus or 0) & ~node.machine.layout.everything if node.machine else 0
        if strange:
            yield Mistake(f"{where}.cpus", f"CPU {render_list(strange)} is not on this machine")
    yield from _strange_zones("observed.free", event.left or {}, node)


def _strange_zones(where: str, listed: Mapping[ZoneSet, object], node: Node) -> Iterator[Mistake]:
    known = {zone.id for zone in node.zones}
    for zone in sorted({zone for zones in listed for zone in zones} - known):
        yield Mistake(where, f"there is no zone {zone} on this node")
