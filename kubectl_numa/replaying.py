"""
Events on a node one after another, and the predicted admissions of its kubelet.

The kubelet releases nothing when a pod ends: what a deleted pod held, and what a rejected one had been
allocated before its rejection, is released when the next pod is admitted. Predictions count as allocated
until an observation replaces them, so that each prediction starts from the best known state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from kubectl_numa.events import BadLine, Created, Deleted, NodeEvent, Observed, Started
from numalign.decision import wording
from numalign.decision.doubts import Doubt, doubts
from numalign.decision.evaluate import refusal_of
from numalign.kubelet import admit as kubelet
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.managers_state import Assignments
from numalign.kubelet.observed_state import observe
from numalign.model import demand as demands
from numalign.model.demand import WHOLE_POD, Demand
from numalign.model.errors import Mistake
from numalign.model.machine import CpuSet, render_list
from numalign.model.node import Node
from numalign.model.placement import Grant, ZoneSet
from numalign.model.resources import CPU


@dataclass(frozen=True, slots=True)
class PredictedAdmission:
    """The predicted admission of a pod by a kubelet.

    `reason` and `message` are None if it admits the pod. `whole` is what a pod with pod-level resources gets,
    of which its containers get parts. `doubts` are what could make the prediction wrong.
    """

    pod: str
    node: Node
    grants: tuple[Grant, ...] = ()
    whole: Grant | None = None
    reason: RejectionReason | None = None
    message: str | None = None
    doubts: tuple[Doubt, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the prediction for programs: millicores, bytes and units."""
        why = {"reason": self.reason, "message": self.message} if self.reason else {}
        shared = {"shared": self._held(self.whole)} if self.whole else {}
        uncertain = {"doubts": [str(doubt) for doubt in self.doubts]} if self.doubts else {}
        return {
            "pod": self.pod,
            "admitted": self.reason is None,
            **why,
            "containers": {
                grant.container: {
                    "affinity": grant.affinity,
                    "preferred": grant.preferred,
                    **self._held(grant),
                    **({"choices": grant.chosen} if grant.chosen else {}),
                }
                for grant in self.grants
            },
            **shared,
            "known": self.node.known,
            **uncertain,
        }

    def _held(self, grant: Grant) -> dict[str, Any]:
        # CPU IDs are meaningful only if the machine was described.
        cpus = {"cpus": render_list(grant.cpus)} if self.node.machine and grant.cpus else {}
        amounts = {",".join(map(str, zones)): dict(bag) for zones, bag in grant.amounts.items()}
        return {**cpus, "amounts": amounts}


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod that was to be admitted, and what it holds; None if it was rejected.

    `seen` is True for an observation, False for a prediction.
    """

    demand: Demand
    held: Assignments | None
    seen: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionTurn:
    """A pod that was to be admitted, and what really happened, if that was observed."""

    pod: str
    demand: Demand
    truth: Observed | None = None


Turn = AdmissionTurn | Observed | Deleted
"""What happened, in order; an observation is a turn of its own if nothing before it is a guess any more."""


@dataclass(frozen=True, slots=True)
class ReplayedNode:
    """A node and the pods on it; `leaving` is what the next admission releases, in the order of leaving."""

    node: Node
    pods: Mapping[str, Stay] = field(default_factory=dict)
    leaving: tuple[Stay, ...] = ()

    def released(self) -> Node:
        """Return the node after its managers released what is leaving."""
        return kubelet.release(self.node, [stay.held for stay in self.leaving if stay.held is not None])

    def stay(self, pod: str, where: str) -> Stay:
        """Return the stay of a pod on the node; raise `BadLine` with this location if there is none."""
        if pod not in self.pods:
            raise BadLine([Mistake(where, f'there is no pod "{pod}" on the node')])
        return self.pods[pod]


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation about one node: its state at `first`, and after each turn since.

    A late observation changes its turn, and all later turns are computed again, so that no guess survives it.
    """

    first: ReplayedNode
    turns: tuple[tuple[Turn, ReplayedNode], ...] = ()

    @property
    def now(self) -> ReplayedNode:
        """Return the state after the last turn."""
        return self.turns[-1][1] if self.turns else self.first

    @property
    def node(self) -> Node:
        """Return the node in its assumed state."""
        return self.now.node

    def after(self, *turns: Turn, kept: int | None = None) -> "Session":
        """Return the conversation with more turns, after the first `kept` ones, by default all.

        First turns that nothing can change any more are forgotten, except for the last one.
        """
        steps = [*self.turns[:kept]]
        for turn in turns:
            steps.append((turn, _turned(steps[-1][1] if steps else self.first, turn)))
        settled = 0
        for turn, _ in steps[:-1]:
            if isinstance(turn, AdmissionTurn) and turn.truth is None:
                break
            settled += 1
        return Session(steps[settled - 1][1] if settled else self.first, tuple(steps[settled:]))


def follow(session: Session | None, event: NodeEvent) -> tuple[Session, PredictedAdmission | None]:
    """Return the session after an event, and the prediction for a new pod; raise `BadLine` if impossible."""
    if isinstance(event, Started):
        return Session(ReplayedNode(event.node)), None
    if session is None:
        raise BadLine([Mistake("", "there is no node yet: the first event must be a node")])
    match event:
        case Created():
            name, stay = event.pod.name, session.now.pods.get(event.pod.name)
            if stay and stay.held is not None:
                raise BadLine(
                    [Mistake("create.metadata.name", f'"{name}" is already on the node: delete it first')]
                )
            node = session.now.released()
            # No kubelet is newer than its API server.
            demand = demands.of(event.pod.stored(node.options.version))
            admission = kubelet.admit(node, demand)
            read = kubelet.effective_demand(node, demand)
            predicted = PredictedAdmission(name, node, doubts=doubts(node, read))
            if (refused := admission.refusal) and (refusal := refusal_of(node, read, admission)):
                predicted = replace(predicted, reason=refused.reason, message=wording.refused(refusal))
            else:
                predicted = replace(
                    predicted, grants=admission.placement.grants, whole=admission.placement.whole
                )
            return session.after(AdmissionTurn(name, demand)), predicted
        case Observed():
            return _observed(session, event), None
        case Deleted():
            session.now.stay(event.pod, "delete")
            return session.after(event), None
        case _:
            assert_never(event)


def _observed(session: Session, event: Observed) -> Session:
    """Add an observation to the pod's last admission or, if that is settled, as a turn of its own."""
    for at, (turn, _) in reversed([*enumerate(session.turns)]):
        if isinstance(turn, AdmissionTurn) and turn.pod == event.pod:
            _check(event, turn.demand, session.node)
            later = (following for following, _ in session.turns[at + 1 :])
            return session.after(replace(turn, truth=event), *later, kept=at)
    _check(event, session.now.stay(event.pod, "observed.pod").demand, session.node)
    return session.after(event)


def _turned(state: ReplayedNode, turn: Turn) -> ReplayedNode:
    match turn:
        case AdmissionTurn():
            node, pod, demand = state.released(), turn.pod, turn.demand
            if turn.truth and turn.truth.seen is not None:
                return _with_truth(ReplayedNode(node, state.pods), pod, demand, turn.truth)
            admission = kubelet.admit(node, demand)
            if admission.refusal:
                pods = {**state.pods, pod: Stay(demand, None, turn.truth is not None)}
                return ReplayedNode(
                    kubelet.after_admission(node, admission), pods, (Stay(demand, admission.held),)
                )
            if turn.truth:
                return ReplayedNode(node, {**state.pods, pod: Stay(demand, None, seen=True)})
            return ReplayedNode(
                kubelet.charge(node, admission), {**state.pods, pod: Stay(demand, admission.held)}
            )
        case Observed():
            stay = state.pods[turn.pod]
            node = state.node if stay.held is None else kubelet.release(state.node, [stay.held])
            if turn.seen is None:
                rejected = Stay(stay.demand, None, seen=True)
                return ReplayedNode(node, {**state.pods, turn.pod: rejected}, state.leaving)
            # What was left when it was observed is outdated.
            return _with_truth(replace(state, node=node), turn.pod, stay.demand, replace(turn, left=None))
        case Deleted():
            gone = state.pods.get(turn.pod)
            pods = {name: other for name, other in state.pods.items() if name != turn.pod}
            return ReplayedNode(state.node, pods, (*state.leaving, gone) if gone else state.leaving)
        case _:
            assert_never(turn)


def _with_truth(state: ReplayedNode, pod: str, demand: Demand, truth: Observed) -> ReplayedNode:
    """Return the state with what a pod really holds; wrong guesses of the same CPUs are made again."""
    places = {name: at for at, name in enumerate([WHOLE_POD, *(step.container for step in demand.steps)])}
    containers = sorted(truth.seen or (), key=lambda entry: places[entry.container])
    if not state.node.machine:
        # CPU IDs mean nothing on a machine that is only assumed; that there are none does.
        containers = [
            replace(entry, cpus=None if any(CPU in bag for bag in entry.amounts.values()) else 0)
            for entry in containers
        ]
    node, held = observe(state.node, demand, containers, truth.left)
    laid = node.machine.topology if node.machine else None
    units = (laid.sockets, laid.caches, laid.cores) if laid else ()
    # With uneven sockets or cores, a kubelet allocates CPUs twice.
    given_once = all(len({unit.bit_count() for unit in alike}) == 1 for alike in units)
    contested = held.cpus if given_once else 0
    leaving = tuple(_yielding(stay, contested) for stay in state.leaving)
    pods = {**state.pods, pod: Stay(demand, held, seen=True)}
    for name, stay in state.pods.items():
        yielding = _yielding(stay, contested)
        if name != pod and yielding is not stay and yielding.held is not None:
            node = kubelet.release(node, [yielding.held])
            admission = kubelet.admit(node, stay.demand)
            node = kubelet.charge(node, admission)
            pods[name] = Stay(stay.demand, None if admission.refusal else admission.held)
    return ReplayedNode(node, pods, leaving)


def _yielding(stay: Stay, cpus: CpuSet) -> Stay:
    """Return a pod without these CPUs if it was only predicted to hold them."""
    if stay.seen or stay.held is None or not stay.held.cpus & cpus:
        return stay
    return replace(stay, held=stay.held._replace(cpus=stay.held.cpus & ~cpus))


def _check(event: Observed, demand: Demand, node: Node) -> None:
    """Raise `BadLine` for observations of things that do not exist."""
    mistakes = list[Mistake]()
    known = {WHOLE_POD, *(step.container for step in demand.steps)}
    for entry in event.seen or ():
        name = entry.container
        where = "observed.shared" if name == WHOLE_POD else f"observed.containers.{name}"
        if name not in known:
            mistakes.append(Mistake(where, "the pod has no such container"))
        mistakes += _strange_zones(f"{where}.amounts", entry.amounts, node)
        strange = (entry.cpus or 0) & ~node.machine.topology.everything if node.machine else 0
        if strange:
            mistakes.append(Mistake(f"{where}.cpus", f"CPU {render_list(strange)} is not on this machine"))
    mistakes += _strange_zones("observed.free", event.left or {}, node)
    if mistakes:
        raise BadLine(mistakes)


def _strange_zones(where: str, listed: Mapping[ZoneSet, object], node: Node) -> Iterator[Mistake]:
    for zone in sorted({zone for zones in listed for zone in zones} - {zone.id for zone in node.every_zone}):
        yield Mistake(where, f"there is no zone {zone} on this node")
