"""
A node as one thing after another happens to it, and what its kubelet is predicted to say.

The kubelet lets go of nothing when a pod ends: what a deleted pod held, and what a refused one had been given
before its refusal, comes back when the next pod asks. Predictions are charged until somebody says what really
happened, so that each question starts from the best that is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeGuard, assert_never

from kubectl_numa.events import BadLine, Created, Deleted, Event, Observed, Started
from numalign.decision import wording
from numalign.decision.doubts import Doubt, doubts
from numalign.decision.evaluate import refusal_of
from numalign.kubelet import admit as kubelet
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.admit import PodAdmitResult
from numalign.kubelet.managers_state import Assignments
from numalign.kubelet.observed_state import ObservedContainer, observe
from numalign.model import demand as demands
from numalign.model.demand import WHOLE_POD, Demand
from numalign.model.errors import Mistake
from numalign.model.machine import CpuSet, render_list
from numalign.model.node import Node
from numalign.model.placement import Grant, ZoneSet
from numalign.model.resources import CPU


@dataclass(frozen=True, slots=True)
class Answer:
    """What a kubelet is predicted to say to a pod.

    `reason` and `message` are None if it admits the pod. `whole` is what the pod gets of which its containers
    divide parts, where it is served as a whole. `doubts` are what could make the answer wrong.
    """

    pod: str
    node: Node
    grants: tuple[Grant, ...] = ()
    whole: Grant | None = None
    reason: RejectionReason | None = None
    message: str | None = None
    doubts: tuple[Doubt, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The answer for programs: millicores, bytes and pieces."""
        why = {"reason": self.reason, "message": self.message} if self.reason else {}
        shared = {"shared": self._held(self.whole)} if self.whole else {}
        uncertain = {"doubts": [str(doubt) for doubt in self.doubts]} if self.doubts else {}
        return {
            "pod": self.pod,
            "admitted": self.reason is None,
            **why,
            "containers": {grant.container: self._container(grant) for grant in self.grants},
            **shared,
            "known": self.node.known,
            **uncertain,
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

    `seen` says that this is what really happened, and no guess.
    """

    demand: Demand
    held: Assignments | None
    seen: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod that asked, and what really became of it, where somebody told."""

    pod: str
    demand: Demand
    truth: Observed | None = None


Turn = Asked | Observed | Deleted
"""What happened, in order; an observation stands for itself where nothing before it is a guess any more."""


@dataclass(frozen=True, slots=True)
class State:
    """A node and the pods on it; `leaving` is what comes back when the next pod asks, first gone first."""

    node: Node
    pods: Mapping[str, Stay] = field(default_factory=dict)
    leaving: tuple[Stay, ...] = ()

    def released(self) -> Node:
        """The node after the managers dropped what is leaving."""
        return kubelet.release(self.node, [stay.held for stay in self.leaving if stay.held is not None])


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation about one node.

    What is true `now` follows from what was true at `first` and the turns since. A truth that comes late
    changes its turn, and all later ones are gone through again, so that no guess outlives it. `before` is
    what was true before the last turn.
    """

    first: State
    turns: tuple[Turn, ...]
    before: State
    now: State

    @property
    def node(self) -> Node:
        """The node as it is believed to be."""
        return self.now.node


def follow(session: Session | None, event: Event) -> tuple[Session, Answer | None]:
    """What is after an event, and the answer if it was a question; raises `BadLine` where it cannot be."""
    if isinstance(event, Started):
        empty = State(event.node)
        return Session(empty, (), empty, empty), None
    if session is None:
        raise BadLine([Mistake("", "there is no node yet: the first line must tell of one")])
    match event:
        case Created():
            return _created(session, event)
        case Observed():
            return _observed(session, event), None
        case Deleted():
            _known(session, event.pod, "delete")
            return _after(session, event), None
        case _:
            assert_never(event)


def _created(session: Session, event: Created) -> tuple[Session, Answer]:
    name, known = event.pod.name, session.now.pods.get(event.pod.name)
    if known and known.held is not None:
        raise BadLine([Mistake("create.metadata.name", f'"{name}" is on the node already: delete it first')])
    demand = demands.of(event.pod)
    node = session.now.released()
    return _after(session, Asked(name, demand)), _answer(name, node, demand, kubelet.admit(node, demand))


def _observed(session: Session, event: Observed) -> Session:
    asked = [(at, turn) for at, turn in enumerate(session.turns) if _asks(turn, event.pod)]
    if not asked:
        _check(event, _known(session, event.pod, "observed.pod").demand, session.node)
        return _after(session, event)
    at, turn = asked[-1]
    _check(event, turn.demand, session.node)
    told = replace(turn, truth=event)
    turns = (*session.turns[:at], told, *session.turns[at + 1 :])
    if at == len(session.turns) - 1:
        return _settled(replace(session, turns=turns, now=_turned(session.before, told)))
    *earlier, last = turns
    before = reduce(_turned, earlier, session.first)
    return _settled(Session(session.first, turns, before, _turned(before, last)))


def _asks(turn: Turn, pod: str) -> TypeGuard[Asked]:
    return isinstance(turn, Asked) and turn.pod == pod


def _known(session: Session, pod: str, where: str) -> Stay:
    if pod not in session.now.pods:
        raise BadLine([Mistake(where, f'there is no pod "{pod}" on the node')])
    return session.now.pods[pod]


def _after(session: Session, turn: Turn) -> Session:
    return _settled(Session(session.first, (*session.turns, turn), session.now, _turned(session.now, turn)))


def _settled(session: Session) -> Session:
    """The conversation without the first turns that nothing can change any more; the last one stays."""
    first, turns = session.first, session.turns
    while len(turns) > 1 and not (isinstance(turns[0], Asked) and turns[0].truth is None):
        first, turns = _turned(first, turns[0]), turns[1:]
    return replace(session, first=first, turns=turns)


def _turned(state: State, turn: Turn) -> State:
    match turn:
        case Asked():
            return _asked(state, turn)
        case Observed():
            return _corrected(state, turn)
        case Deleted():
            return _deleted(state, turn)
        case _:
            assert_never(turn)


def _asked(state: State, turn: Asked) -> State:
    node, pod, demand = state.released(), turn.pod, turn.demand
    if turn.truth and turn.truth.seen is not None:
        return _truly(State(node, state.pods), pod, demand, turn.truth)
    admission = kubelet.admit(node, demand)
    if admission.refusal:
        pods = {**state.pods, pod: Stay(demand, None, turn.truth is not None)}
        return State(kubelet.after_admission(node, admission), pods, (Stay(demand, admission.held),))
    if turn.truth:
        return State(node, {**state.pods, pod: Stay(demand, None, seen=True)})
    return State(kubelet.charge(node, admission), {**state.pods, pod: Stay(demand, admission.held)})


def _corrected(state: State, turn: Observed) -> State:
    """What was seen of a pod once more; what had been left then is no longer so."""
    stay = state.pods[turn.pod]
    node = state.node if stay.held is None else kubelet.release(state.node, [stay.held])
    if turn.seen is None:
        return State(node, {**state.pods, turn.pod: Stay(stay.demand, None, seen=True)}, state.leaving)
    before = State(node, state.pods, state.leaving)
    return _truly(before, turn.pod, stay.demand, replace(turn, left=None))


def _truly(state: State, pod: str, demand: Demand, truth: Observed) -> State:
    """The state with what a pod really holds; guesses of the same CPUs were wrong and are made again."""
    node, held = _seen(state.node, demand, truth)
    contested = held.cpus if _given_once(node) else 0
    leaving = tuple(_yielding(stay, contested) for stay in state.leaving)
    pods = {**state.pods, pod: Stay(demand, held, seen=True)}
    for name, stay in state.pods.items():
        yielding = _yielding(stay, contested)
        if name != pod and yielding is not stay and yielding.held is not None:
            node, pods[name] = _guessed(kubelet.release(node, [yielding.held]), stay.demand)
    return State(node, pods, leaving)


def _given_once(node: Node) -> bool:
    """Whether no CPU is ever given to two pods; where sockets or cores are uneven, a kubelet does that."""
    laid = node.machine.topology if node.machine else None
    units = (laid.sockets, laid.caches, laid.cores) if laid else ()
    return all(len({unit.bit_count() for unit in alike}) == 1 for alike in units)


def _yielding(stay: Stay, cpus: CpuSet) -> Stay:
    """A pod without CPUs of which it was only guessed that it holds them."""
    if stay.seen or stay.held is None or not stay.held.cpus & cpus:
        return stay
    return replace(stay, held=stay.held._replace(cpus=stay.held.cpus & ~cpus))


def _guessed(node: Node, demand: Demand) -> tuple[Node, Stay]:
    admission = kubelet.admit(node, demand)
    return kubelet.charge(node, admission), Stay(demand, None if admission.refusal else admission.held)


def _deleted(state: State, turn: Deleted) -> State:
    stay = state.pods.get(turn.pod)
    pods = {name: each for name, each in state.pods.items() if name != turn.pod}
    return State(state.node, pods, (*state.leaving, stay) if stay else state.leaving)


def _seen(node: Node, demand: Demand, truth: Observed) -> tuple[Node, Assignments]:
    """The node with what the containers were seen to hold, in the order in which they were admitted."""
    places = _places(demand)
    listed = sorted(truth.seen or (), key=lambda one: places[one.container])
    if not node.machine:
        listed = [replace(one, cpus=_unnamed(one)) for one in listed]
    return observe(node, demand, listed, truth.left)


def _answer(name: str, node: Node, demand: Demand, admission: PodAdmitResult) -> Answer:
    unsure = doubts(node, kubelet.effective_demand(node, demand))
    refused, refusal = admission.refusal, refusal_of(node, admission)
    if refused is None or refusal is None:
        return Answer(name, node, admission.placement.grants, admission.placement.whole, doubts=unsure)
    message = wording.refused(refusal)
    return Answer(name, node, reason=refused.reason, message=message, doubts=unsure)


def _places(demand: Demand) -> dict[str, int]:
    return {name: at for at, name in enumerate([WHOLE_POD, *(step.container for step in demand.steps)])}


def _check(event: Observed, demand: Demand, node: Node) -> None:
    if mistakes := [*_strange(event, _places(demand), node)]:
        raise BadLine(mistakes)


def _unnamed(one: ObservedContainer) -> CpuSet | None:
    """Ids of CPUs mean nothing on a machine that is only assumed; that there are none does."""
    return None if any(CPU in bag for bag in one.amounts.values()) else 0


def _strange(event: Observed, containers: Mapping[str, int], node: Node) -> Iterator[Mistake]:
    """What was seen of things that are not there."""
    for one in event.seen or ():
        where = "observed.shared" if one.container == WHOLE_POD else f"observed.containers.{one.container}"
        if one.container not in containers:
            yield Mistake(where, "the pod has no such container")
        yield from _strange_zones(f"{where}.amounts", one.amounts, node)
        strange = (one.cpus or 0) & ~node.machine.topology.everything if node.machine else 0
        if strange:
            yield Mistake(f"{where}.cpus", f"CPU {render_list(strange)} is not on this machine")
    yield from _strange_zones("observed.free", event.left or {}, node)


def _strange_zones(where: str, listed: Mapping[ZoneSet, object], node: Node) -> Iterator[Mistake]:
    known = {zone.id for zone in node.zones}
    for zone in sorted({zone for zones in listed for zone in zones} - known):
        yield Mistake(where, f"there is no zone {zone} on this node")
