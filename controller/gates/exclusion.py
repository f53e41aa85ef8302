"""
Which nodes a pod must be kept off when its gate is lifted without a node.

A scheduler that knows nothing of zones chooses a node with room in total, and its kubelet rejects the pod.
Its owner creates another one, and no autoscaler ever sees a pending pod. So such nodes are excluded by the
write that lifts the gate, after which the API server accepts no change of affinity. Where they cannot be
excluded, the pod keeps its gate. A node that recently rejected such a pod is excluded as well, whatever is
known of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from controller.gates.choosing import Refusing
from controller.gates.pin import HOSTNAME_LABEL
from numalign.cache import Question
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.pod_informer import PodInfo
from numalign.model.constraints import NAME_FIELD, Constraints, Operator, Requirement
from numalign.model.intent import NODE_LABEL
from numalign.model.node import is_labelled
from numalign.runtime.cooperative import TimeSlice
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.node_fit import NodeFit
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_EXCLUDED = 512
"""Most nodes that are excluded, counted in each term: 33 KiB of a pod, and a scheduler compares each of its
nodes with all of them."""

REMEMBERED = 256
"""Most templates whose answers are remembered until the next change."""

_SHOWN = 3
"""Most nodes that are named in a text."""

_NAMES = frozenset({HOSTNAME_LABEL, NODE_LABEL, NAME_FIELD})


class KeepReason(StrEnum):
    """Why a pod keeps its gate, as a label."""

    NAMES_NODES = "names-nodes"
    UNLABELLED = "unlabelled"
    TOO_MANY = "too-many"
    NOT_ALLOWED = "not-allowed"


@dataclass(frozen=True, slots=True)
class KeepGate:
    """A gate that must stay, because without it a kubelet would reject the pod; `why` says why."""

    reason: KeepReason
    why: str


@dataclass(frozen=True, slots=True)
class Excluded:
    """The nodes to keep a pod off."""

    nodes: tuple[str, ...]

    def __str__(self) -> str:
        """Return which nodes they are, for a text; empty if there are none."""
        if not self.nodes:
            return ""
        return f"it is kept off {_listed(self.nodes)}, where no NUMA zone has room or a kubelet rejected it"


_Template = tuple[Question, Constraints, frozenset[str], int]
"""What a pod requests, the nodes that recently rejected such pods, and the number of terms."""


@dataclass(eq=False, slots=True)
class Exclusion:
    """
    Finds these nodes. `refusing` returns the nodes that recently rejected such pods.

    `bound_fit` counts only pods that are bound, as schedulers do, and must be told of pods that change. Pods
    of one template get one answer, until anything changes on a node.
    """

    state: SchedulerState
    nodes: NodeAnswers
    refusing: Refusing
    bound_fit: NodeFit = field(init=False)
    _found: dict[_Template, Excluded | KeepGate] = field(init=False, default_factory=dict)
    _changes: int = field(init=False, default=0)
    _found_in: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.bound_fit = NodeFit(self.state, lambda pod: not pod.reserved)
        self.state.reservations.on_change(lambda _node: self._forget())

    def _forget(self) -> None:
        self._found.clear()
        self._changes += 1

    async def of(self, pod: PodInfo, pending: PendingPod, *, terms: int) -> Excluded | KeepGate:
        """
        Return the nodes to exclude in each of so many terms, or why the gate must stay.

        It takes many steps, and other tasks run in between.
        """
        if self._found_in != self.state.cluster.version:
            self._found_in = self.state.cluster.version
            self._forget()
        refused = frozenset(self.refusing(pod, pending))
        template, changes = (pending.question, pending.constraints, refused, terms), self._changes
        if known := self._found.get(template):
            return known
        found = await self._find(pending, refused, terms=terms)
        unchanged = changes == self._changes and self._found_in == self.state.cluster.version
        if unchanged and len(self._found) < REMEMBERED:
            self._found[template] = found
        return found

    async def _find(self, pending: PendingPod, refused: frozenset[str], *, terms: int) -> Excluded | KeepGate:
        names, time_slice = tuple(self.state.node_names()), TimeSlice()
        # The intent of a pod does not matter to a kubelet, nor to a scheduler that knows nothing of zones.
        anyhow = replace(pending, question=replace(pending.question, intent=NO_INTENT))
        kept_away = self.nodes.not_eligible(names, pending)
        await time_slice.share()
        eligible = [name for name in names if not (name in kept_away and kept_away[name].lasting)]
        filtered, _ = await self.nodes.evaluate(partial(self.nodes.filtered, eligible, anyhow))
        rejecting = filtered.failed.keys() | filtered.unresolvable.keys() | refused
        unwanted = dict.fromkeys(name for name in eligible if name in rejecting)
        # No autoscaler adds a node that a pod names.
        if unwanted and names_nodes(pending.constraints):
            others = (name for name in eligible if not (name in unwanted or name in kept_away))
            if not any(self.bound_fit.fits(name, pending.demand) for name in others):
                where = _listed(unwanted)
                why = f"it may only go to nodes that it names, and the kubelet of {where} would reject it"
                return KeepGate(KeepReason.NAMES_NODES, why)
        excluded = list[str]()
        for name in unwanted:
            await time_slice.share()
            if name in refused or self.bound_fit.fits(name, pending.demand):
                excluded.append(name)
        if len(excluded) * terms > MOST_EXCLUDED:
            why = (
                f"{len(excluded)} nodes have room for it in total but not in a NUMA zone, and a pod can be"
                f" kept off at most {MOST_EXCLUDED // terms}"
            )
            return KeepGate(KeepReason.TOO_MANY, why)
        if unlabelled := [name for name in excluded if not is_labelled(name, self.state.labels)]:
            why = f"it must be kept off {_listed(unlabelled)}, without the label {NODE_LABEL} yet"
            return KeepGate(KeepReason.UNLABELLED, why)
        return Excluded(tuple(excluded))


def names_nodes(constraints: Constraints) -> bool:
    """Return whether a pod may go only to nodes that its node selector or required node affinity names."""
    if any(map(_names, constraints.selector)):
        return True
    terms = [(*term.expressions, *term.fields) for term in constraints.terms or ()]
    return bool(terms) and all(any(map(_names, term)) for term in terms if term)


def _names(requirement: Requirement) -> bool:
    return requirement.operator is Operator.IN and requirement.key in _NAMES


def _listed(nodes: Iterable[str]) -> str:
    names = [*nodes]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{'node' if len(names) == 1 else 'nodes'} {', '.join(names[:_SHOWN])}{more}"
