"""
Which nodes take a pod, for all nodes of a layout at once.

What the kubelet's merge comes to under a strict policy has a closed form (`kubelet.topology_manager`): all
resources need as many zones by hardware, and some set of so many has enough of each. That is a comparison of
columns. Where amounts do not decide (a container that spilled over several zones before another one, a best
effort that failed), a row is `unsure`, and the rules are asked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.column_state import ColumnState, ResourceAmounts
from numalign.cache.columns import MOST_ZONES_NEEDED, TOP, TOTAL, When
from numalign.cache.plan import LayoutPlan, StepRequest, concerned, nothing_to_keep
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.resources import CPU


@dataclass(frozen=True)
class PreferredHint:
    """What all resources of a step prefer, by row: sets of `width` zones, 0 where they differ in that.

    `parts` has, for rows of one width (all rows if None), which sets of that width have enough of everything:
    (sets, rows).
    """

    layout_masks: Callable[[int], Sequence[int]]
    width: Ints
    parts: tuple[tuple[Rows | None, int, Bools], ...]

    @cached_property
    def exists(self) -> Bools:
        """Whether there is any such set, by row."""
        exists = np.zeros(len(self.width), dtype=np.bool_)
        for rows, _, enough in self.parts:
            if rows is None:
                return np.asarray(enough.any(axis=0))
            exists[rows] = enough.any(axis=0)
        return exists

    @cached_property
    def mask(self) -> Ints:
        """The set that the kubelet picks among them, as bits by row; 0 where there is none."""
        masks = np.zeros(len(self.width), dtype=np.int64)
        for rows, width, enough in self.parts:
            first = np.zeros(enough.shape[1], dtype=np.int64)
            for mask, fits in zip(reversed(self.layout_masks(width)), enough[::-1], strict=True):
                np.copyto(first, mask, where=fits)
            masks[slice(None) if rows is None else rows] = first
        return masks


@dataclass(frozen=True, slots=True)
class Feasibility:
    """What becomes of a pod, by row: whether it is taken, unless that is `unsure`.

    `hints` are what its decisions came to, each in the state that it met; of a policy that aligns nothing
    there are none.
    """

    taken: Bools
    unsure: Bools
    hints: tuple[PreferredHint, ...] = ()


@dataclass(frozen=True, eq=False)
class Trial:
    """A plan, and rows on which it is tried; what becomes of it there is worked out once."""

    plan: LayoutPlan
    state: ColumnState

    @cached_property
    def outcome(self) -> Feasibility:
        """What becomes of the pod."""
        return tried(self.plan, self.state)

    def at(self, some: Rows) -> "Trial":
        """The same on some of these rows, by their place among them."""
        return Trial(self.plan, self.state.at(some))


def tried(plan: LayoutPlan, state: ColumnState) -> Feasibility:
    """Ask the kubelets of these rows, and then whether what they would do keeps the pod's intent."""
    if plan.refused or plan.unlisted:
        return Feasibility(_none(state), _none(state))
    if plan.unsure:
        return Feasibility(_none(state), _all(state))
    admitted = ADMIT[plan.layout.policy](plan, state)
    taken = admitted.taken & large_enough(plan, state)
    if plan.kept_by_kubelet:
        return Feasibility(taken, taken & admitted.unsure, admitted.hints)
    kept, unsure = keeps(plan, state, plan.question.intent, admitted)
    return Feasibility(taken & kept, taken & (admitted.unsure | unsure), admitted.hints)


def _none(state: ColumnState) -> Bools:
    return np.zeros(state.count, dtype=np.bool_)


def _all(state: ColumnState, conditions: Iterable[Bools] = ()) -> Bools:
    """The rows for which all conditions hold."""
    return reduce(np.logical_and, conditions, np.ones(state.count, dtype=np.bool_))


def large_enough(plan: LayoutPlan, state: ColumnState) -> Bools:
    """Whether the node as a whole has what the pod asks of it, by row."""
    if not plan.totals:
        return _all(state)
    names, amounts = zip(*plan.totals, strict=True)
    least = np.array(amounts)[:, None]

    def enough(some: ColumnState) -> Bools:
        return np.asarray((some.columns.block(TOTAL, names, some.rows) >= least).all(axis=0))

    return state.ever(TOTAL, enough)


# What a policy makes of the decisions.


def _hints(
    decisions: Iterable[StepRequest], state: ColumnState
) -> Iterator[tuple[StepRequest, ColumnState, PreferredHint]]:
    """Each decision, what is free when it is made, and what all its resources prefer of that."""
    before: tuple[StepRequest, PreferredHint] | None = None
    for request in decisions:
        if before:
            state = state.charged(before[0], before[1].mask)
        before = request, preferred_hint(state, request)
        yield request, state, before[1]


def _strict(plan: LayoutPlan, state: ColumnState) -> Feasibility:
    """Every decision needs a set that all its resources prefer.

    Containers that are aligned as one might find memory that there is not for all of them at once: of memory
    that no set of zones could give, the manager has no opinion when it is asked for the whole pod.
    """
    if len(plan.decisions) == 1 and not plan.as_one:
        # Nearly every pod is such a one, and nothing of it is unsure.
        hint = preferred_hint(state, plan.decisions[0])
        return Feasibility(hint.exists, _none(state), (hint,))
    taken, unsure = _all(state), _none(state)
    hints = list[PreferredHint]()
    for request, free, hint in _hints(plan.decisions, state):
        if hints:
            unsure |= taken & (hints[-1].width > 1)
        exists = hint.exists
        if plan.as_one:
            unserved = ~memory_served(free, request)
            exists, unsure = exists | unserved, unsure | unserved
        taken = taken & exists
        hints.append(hint)
    return Feasibility(taken | unsure, unsure, tuple(hints))


def _best_effort(plan: LayoutPlan, state: ColumnState) -> Feasibility:
    """A decision that nothing is preferred for takes what there is, wherever that lies."""
    taken, unsure = _all(state), _none(state)
    hints = list[PreferredHint]()
    for request, free, hint in _hints(plan.decisions, state):
        if hints:
            unsure |= taken & (~hints[-1].exists | (hints[-1].width > 1))
        enough = _enough(free, request)
        taken &= enough | ~memory_served(free, request) if plan.as_one else enough
        if request.memory:
            # Memory that is grouped may stand in the way of what spilled over.
            unsure |= taken & ~hint.exists & (_all(free) if plan.as_one else free.memory_used())
        hints.append(hint)
    return Feasibility(taken | unsure, unsure, tuple(hints))


def _unaligned(plan: LayoutPlan, state: ColumnState) -> Feasibility:
    """Nothing is aligned; only memory lies somewhere in particular."""
    taken, unsure = _all(state), _none(state)
    before: PreferredHint | None = None
    memory = [request.only_memory for request in plan.decisions if request.memory]
    for request, free, hint in _hints(memory, state):
        if before:
            unsure |= taken & (~before.exists | (before.width > 1))
        taken &= _enough(free, request)
        before = hint
    total: dict[str, int] = {}
    for request in plan.decisions:
        for name, amount in request.pieces:
            total[name] = total.get(name, 0) + amount
    return Feasibility((taken | unsure) & _all(state, _pieces(state, total.items())), unsure)


ADMIT: Mapping[Policy, Callable[[LayoutPlan, ColumnState], Feasibility]] = MappingProxyType(
    {
        Policy.NONE: _unaligned,
        Policy.BEST_EFFORT: _best_effort,
        Policy.RESTRICTED: _strict,
        Policy.SINGLE_NUMA_NODE: _strict,
    }
)


def _pieces(state: ColumnState, amounts: Iterable[tuple[str, int]]) -> Iterator[Bools]:
    """Of each resource whether all zones together have so much."""
    every = state.columns.layout.count
    return (state.sums(name, every)[0] >= amount for name, amount in amounts)


def _enough(state: ColumnState, request: StepRequest) -> Bools:
    """Whether all zones together can serve a step."""
    return _all(state, _pieces(state, request.pieces)) & memory_served(state, request)


def memory_served(state: ColumnState, request: StepRequest) -> Bools:
    """Whether some set of zones may give all the memory of a step, by row."""
    if not request.memory:
        return _all(state)
    served = _all(state, _pieces(state, request.memory))
    rows = np.flatnonzero(served & state.memory_used())
    if len(rows):
        some, widths = state.at(rows), range(1, state.columns.layout.count + 1)
        fits = (fitting_sets(some, request.only_memory, width).any(axis=0) for width in widths)
        served[rows] = np.logical_or.reduce(list(fits))
    return served


# Sets of zones.


def preferred_hint(state: ColumnState, request: StepRequest) -> PreferredHint:
    """The sets of zones that all resources of a step prefer; raises `ValueError` if it asks for nothing."""
    layout = state.columns.layout
    if not request.amounts:
        raise ValueError("a step that asks for nothing has no zones")
    if layout.single:
        ones = np.ones(state.count, dtype=np.int8)
        return PreferredHint(layout.of_width, ones, ((None, 1, fitting_sets(state, request, 1)),))
    widths = state.ever(request.amounts, partial(_common_width, request))
    parts = list[tuple[Rows | None, int, Bools]]()
    for width, count in enumerate(np.bincount(widths, minlength=1).tolist()):
        if width and count == len(widths):
            parts.append((None, width, fitting_sets(state, request, width)))
        elif width and count:
            rows = np.flatnonzero(widths == width)
            parts.append((rows, width, fitting_sets(state.at(rows), request, width)))
    return PreferredHint(layout.of_width, widths, tuple(parts))


def _common_width(request: StepRequest, state: ColumnState) -> NDArray[np.int8]:
    """How many zones all resources of a step need, 0 where they differ."""
    first, *others = widths_of(state, request).values()
    same = _all(state, (width == first for width in others))
    return np.where(same, first, np.int8(0)).astype(np.int8, copy=False)


def fitting_sets(state: ColumnState, request: StepRequest, width: int) -> Bools:
    """Which sets of so many zones have all that a step asks for: (sets, rows)."""
    enough = state.enough(request.amounts, width)
    closed = state.closed(width) if request.memory else None
    return enough if closed is None else enough & ~closed


def widths_of(state: ColumnState, request: StepRequest) -> dict[str, Ints]:
    """The fewest zones that could hold each resource of a step by hardware, by name and row."""
    alone = request.memory if len(request.memory) == 1 else ()
    widths = _widths(state, tuple(sorted((*request.pieces, *alone))))
    if len(request.memory) > 1:
        widths |= dict.fromkeys((name for name, _ in request.memory), _width_together(state, request))
    return widths


def _widths(state: ColumnState, amounts: ResourceAmounts) -> dict[str, Ints]:
    """Of resources that do not depend on each other."""
    count = state.columns.layout.count
    in_columns = [item for item in amounts if state.columns.has((TOP, item[0]))]
    absent = {
        name: np.full(state.count, 1 if name == CPU else count, dtype=np.int8)
        for name, _ in {*amounts} - {*in_columns}
    }
    if not in_columns:
        return absent
    names, least = zip(*in_columns, strict=True)
    most = state.columns.block(TOP, names, state.rows).reshape(len(names), count, state.count)
    short = most < np.array(least)[:, None, None]
    widths: Ints = np.add.reduce(short, axis=1, dtype=np.int8) + np.int8(1)
    # What all zones together could not serve.
    beyond = short[:, -1]
    if beyond.any():
        needed = state.columns.block(MOST_ZONES_NEEDED, names, state.rows)
        np.copyto(widths, needed, where=beyond, casting="unsafe")
    return absent | dict(zip(names, widths, strict=True))


def _width_together(state: ColumnState, request: StepRequest) -> Ints:
    """The fewest zones that could hold the memory of all names."""
    count = state.columns.layout.count
    widths = np.full(state.count, count, dtype=np.int8)
    empty = ColumnState(state.columns, When.EMPTY, state.rows)
    for width in range(count, 0, -1):
        fits = fitting_sets(empty, request.only_memory, width).any(axis=0)
        np.copyto(widths, np.int8(width), where=fits)
    return widths


# What the pod asks for.


def keeps(plan: LayoutPlan, state: ColumnState, intent: Intent, admitted: Feasibility) -> tuple[Bools, Bools]:
    """Whether the zones that a pod gets are what an intent asks for; and where only the rules can tell.

    By row; restates `decision.evaluate.keeps`.
    """
    yes, no = _all(state), _none(state)
    if not admitted.hints or nothing_to_keep(plan.layout, intent):
        return yes, no
    pod = (intent.scope or plan.layout.scope) is Scope.POD
    if pod and plan.layout.scope is Scope.CONTAINER and len(plan.decisions) > 1:
        return _keeps_together(plan, state, intent, admitted)
    kept, unsure = yes, no
    for request, hint in zip(plan.decisions, admitted.hints, strict=True):
        names = concerned(plan, request, intent)
        if names:
            kept = kept & hint.exists
            if intent.policy is Policy.SINGLE_NUMA_NODE:
                kept = kept & ~(hint.width > 1)
            if len(plan.steps) > 1 or names != request.names:
                unsure = unsure | ~hint.exists
            if plan.as_one and not pod:
                unsure = unsure | ((hint.width > 1) & hint.exists)
    return kept | unsure, unsure


def _keeps_together(
    plan: LayoutPlan, state: ColumnState, intent: Intent, admitted: Feasibility
) -> tuple[Bools, Bools]:
    """Containers that were placed one by one, and are to sit together."""
    decisions = zip(plan.decisions, admitted.hints, strict=True)
    masks = [hint.mask for request, hint in decisions if concerned(plan, request, intent)]
    if not masks:
        return _all(state), _none(state)
    unsure = ~_all(state, (hint.exists for hint in admitted.hints))
    if intent.policy is Policy.SINGLE_NUMA_NODE:
        narrowest: Ints = np.ones(state.count, dtype=np.int8)
    else:
        names = concerned(plan, plan.whole, intent)
        widths = [width for name, width in widths_of(state, plan.whole).items() if name in names]
        # The fewest zones that any resource of the whole pod needs, of those that the intent is about.
        every = np.full(state.count, plan.layout.count, dtype=np.int8)
        narrowest = np.minimum.reduce(widths or [every])
    zones = np.bitwise_count(np.bitwise_or.reduce(masks))
    return (zones <= narrowest) | unsure, unsure
