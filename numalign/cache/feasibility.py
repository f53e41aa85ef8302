"""
Which nodes take a pod, for all nodes of a layout at once.

What the kubelet's merge comes to under a strict policy has a closed form (`kubelet.topology_manager`): all
resources need as many zones by hardware, and some set of so many has enough of each. That is a comparison of
columns. Where amounts do not decide (a container that spilled over several zones before another one, a best
effort that failed), a row is `unsure`, and the rules are asked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import REACH, TOP, TOTAL, When
from numalign.cache.plan import LayoutPlan, StepRequest, concerned, nothing_to_keep
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.resources import CPU


@dataclass(frozen=True)
class Common:
    """What all resources of a step prefer, by row: sets of `width` zones, 0 where they differ.

    `parts` has, for rows of one width (all rows if None), which sets of that width have enough of everything.
    """

    layout_masks: Callable[[int], Sequence[int]]
    width: Ints
    parts: tuple[tuple[Rows | None, int, Bools], ...]

    @cached_property
    def exists(self) -> Bools:
        """Whether there is any such set."""
        found = np.zeros(len(self.width), dtype=np.bool_)
        for rows, _, enough in self.parts:
            if rows is None:
                return np.asarray(enough.any(axis=0))
            found[rows] = enough.any(axis=0)
        return found

    @cached_property
    def mask(self) -> Ints:
        """The set that the kubelet picks among them, 0 where there is none."""
        chosen = np.zeros(len(self.width), dtype=np.int64)
        for rows, width, enough in self.parts:
            chosen[slice(None) if rows is None else rows] = _first(enough, self.layout_masks(width))
        return chosen


def _first(enough: Bools, order: Sequence[int]) -> Ints:
    """The first set in order that has enough, by row."""
    found = np.zeros(enough.shape[1], dtype=np.int64)
    for mask, here in zip(reversed(order), enough[::-1], strict=True):
        np.copyto(found, mask, where=here)
    return found


@dataclass(frozen=True, slots=True)
class Tried:
    """What becomes of a pod, by row: whether it is taken, unless that is `unsure`.

    `commons` are what its decisions came to, each in the state that it found; of a policy that aligns nothing
    there are none.
    """

    taken: Bools
    unsure: Bools
    commons: tuple[Common, ...] = ()


@dataclass(frozen=True, eq=False)
class Trial:
    """A plan, and rows on which it is tried; what becomes of it there is found out once."""

    plan: LayoutPlan
    state: ColumnState

    @cached_property
    def outcome(self) -> Tried:
        """What becomes of the pod."""
        return tried(self.plan, self.state)

    def at(self, some: Rows) -> "Trial":
        """The same on some of these rows, by their place among them."""
        return Trial(self.plan, self.state.at(some))


def tried(plan: LayoutPlan, state: ColumnState) -> Tried:
    """Ask the kubelets of these rows, and then whether what they would do is what the pod means."""
    if plan.refused or plan.unheard:
        return Tried(_no(state), _no(state))
    if plan.unsure:
        return Tried(_no(state), ~_no(state))
    found = ADMIT[plan.layout.policy](plan, state)
    taken = found.taken & large_enough(plan, state)
    if plan.kept_anyway:
        return Tried(taken, taken & found.unsure, found.commons)
    kept, unsure = keeps(plan, state, plan.question.intent, found)
    unsure = taken & (found.unsure | unsure)
    return Tried(taken & kept, unsure, found.commons)


def _no(state: ColumnState) -> Bools:
    return np.zeros(state.count, dtype=np.bool_)


def large_enough(plan: LayoutPlan, state: ColumnState) -> Bools:
    """Whether the node as a whole has what the pod asks of it."""
    return state.ever(TOTAL, partial(_large_enough, plan))


def _large_enough(plan: LayoutPlan, state: ColumnState) -> Bools:
    if not plan.totals:
        return ~_no(state)
    names, amounts = zip(*plan.totals, strict=True)
    enough: Bools = state.columns.block(TOTAL, names, state.rows) >= np.array(amounts)[:, None]
    return np.asarray(enough.all(axis=0))


def _all(parts: Iterator[Bools], count: int) -> Bools:
    return reduce(np.logical_and, parts, np.ones(count, dtype=np.bool_))


# What a policy makes of the decisions.


def _strict(plan: LayoutPlan, state: ColumnState) -> Tried:
    """Every decision needs a set that all its resources prefer.

    Containers that are aligned as one might find memory that there is not for all of them at once: of memory
    that no set of zones could give, the manager has no opinion when it is asked for the whole pod.
    """
    if len(plan.decisions) == 1 and not plan.as_one:
        # Nearly every pod is such a one, and nothing of it is unsure.
        held = common(state, plan.decisions[0])
        return Tried(held.exists, _no(state), (held,))
    taken, unsure = ~_no(state), _no(state)
    commons = list[Common]()
    for asked in plan.decisions:
        if commons:
            unsure |= taken & (commons[-1].width > 1)
            state = state.charged(plan.decisions[len(commons) - 1], commons[-1].mask)
        commons.append(common(state, asked))
        exists = commons[-1].exists
        if plan.as_one:
            apart = ~served(state, asked)
            exists, unsure = exists | apart, unsure | apart
        taken = taken & exists
    return Tried(taken | unsure, unsure, tuple(commons))


def _best_effort(plan: LayoutPlan, state: ColumnState) -> Tried:
    """A decision that nothing is preferred for takes what there is, wherever that lies."""
    taken, unsure = ~_no(state), _no(state)
    commons, spread = list[Common](), _no(state)
    for asked in plan.decisions:
        if commons:
            unsure |= taken & (spread | (commons[-1].width > 1))
            state = state.charged(plan.decisions[len(commons) - 1], commons[-1].mask)
        commons.append(common(state, asked))
        spread, enough = ~commons[-1].exists, _enough(state, asked)
        taken &= enough | ~served(state, asked) if plan.as_one else enough
        unsure |= taken & spread & _groups_matter(plan, state, asked)
    return Tried(taken | unsure, unsure, tuple(commons))


def _groups_matter(plan: LayoutPlan, state: ColumnState, asked: StepRequest) -> Bools:
    """Whether memory that is bound together may stand in the way of what spilled over."""
    if not asked.memory:
        return _no(state)
    return ~_no(state) if plan.as_one else state.busy()


def _none(plan: LayoutPlan, state: ColumnState) -> Tried:
    """Nothing is aligned; only memory lies somewhere in particular."""
    taken, unsure = ~_no(state), _no(state)
    before: tuple[StepRequest, Common] | None = None
    for asked in plan.decisions:
        memory = StepRequest(asked.step, (), (), asked.memory)
        if before and asked.memory:
            unsure |= taken & (~before[1].exists | (before[1].width > 1))
            state = state.charged(before[0], before[1].mask)
        taken &= _enough(state, memory)
        before = (memory, common(state, memory)) if asked.memory else before
    return Tried((taken | unsure) & _pieces(plan, state), unsure)


def _pieces(plan: LayoutPlan, state: ColumnState) -> Bools:
    """Whether there are CPUs and devices for all containers together."""
    total: dict[str, int] = {}
    for asked in plan.decisions:
        for name, amount in (*asked.devices, *asked.cpus):
            total[name] = total.get(name, 0) + amount
    every = plan.layout.count
    return _all((state.sums(name, every)[0] >= amount for name, amount in total.items()), state.count)


ADMIT: Mapping[Policy, Callable[[LayoutPlan, ColumnState], Tried]] = MappingProxyType(
    {
        Policy.NONE: _none,
        Policy.BEST_EFFORT: _best_effort,
        Policy.RESTRICTED: _strict,
        Policy.SINGLE_NUMA_NODE: _strict,
    }
)


def _enough(state: ColumnState, asked: StepRequest) -> Bools:
    """Whether all zones together can serve a step."""
    every = state.columns.layout.count
    pieces = (state.sums(name, every)[0] >= amount for name, amount in (*asked.devices, *asked.cpus))
    return _all(pieces, state.count) & served(state, asked)


def served(state: ColumnState, asked: StepRequest) -> Bools:
    """Whether some set of zones may give all the memory of a step."""
    if not asked.memory:
        return ~_no(state)
    every = state.columns.layout.count
    found = _all((state.sums(name, every)[0] >= amount for name, amount in asked.memory), state.count)
    rows = np.flatnonzero(found & state.busy())
    if len(rows):
        memory, some = StepRequest(asked.step, (), (), asked.memory), state.at(rows)
        found[rows] = np.logical_or.reduce(
            [holding(some, memory, width).any(axis=0) for width in range(1, every + 1)]
        )
    return found


# Sets of zones.


def common(state: ColumnState, asked: StepRequest) -> Common:
    """The sets of zones that all resources of a step prefer."""
    layout = state.columns.layout
    if not asked.amounts:
        raise ValueError("a step that asks for nothing has no zones")
    if layout.single:
        ones = np.ones(state.count, dtype=np.int8)
        return Common(layout.of_width, ones, ((None, 1, holding(state, asked, 1)),))
    width = state.ever(asked.amounts, partial(_common_width, asked))
    return Common(layout.of_width, width, tuple(_parts(state, asked, width)))


def _common_width(asked: StepRequest, state: ColumnState) -> NDArray[np.int8]:
    """How many zones all resources of a step need, 0 where they differ."""
    first, *others = widths_of(state, asked).values()
    same = _all((width == first for width in others), state.count)
    return np.where(same, first, np.int8(0)).astype(np.int8, copy=False)


def _parts(state: ColumnState, asked: StepRequest, width: Ints) -> Iterator[tuple[Rows | None, int, Bools]]:
    counts = np.bincount(width, minlength=1).tolist()
    for wide, count in enumerate(counts):
        if wide and count == len(width):
            yield None, wide, holding(state, asked, wide)
        elif wide and count:
            rows = np.flatnonzero(width == wide)
            yield rows, wide, holding(state.at(rows), asked, wide)


def holding(state: ColumnState, asked: StepRequest, width: int) -> Bools:
    """Which sets of so many zones have all that a step asks for: (sets, rows)."""
    found = state.enough(asked.amounts, width)
    shut = state.shut(width) if asked.memory else None
    return found if shut is None else found & ~shut


def widths_of(state: ColumnState, asked: StepRequest) -> dict[str, Ints]:
    """The fewest zones that could hold each resource of a step by hardware, by row."""
    alone = asked.memory if len(asked.memory) == 1 else ()
    found = _widths(state, tuple(sorted((*asked.devices, *asked.cpus, *alone))))
    if len(asked.memory) > 1:
        found |= dict.fromkeys((name for name, _ in asked.memory), _width_together(state, asked))
    return found


def _widths(state: ColumnState, asked: tuple[tuple[str, int], ...]) -> dict[str, Ints]:
    """Of resources that do not depend on each other."""
    told = [item for item in asked if state.columns.tells((TOP, item[0]))]
    count = state.columns.layout.count
    untold = {name: _full(state, 1 if name == CPU else count) for name, _ in {*asked} - {*told}}
    if not told:
        return untold
    names, amounts = zip(*told, strict=True)
    most = state.columns.block(TOP, names, state.rows).reshape(len(told), count, state.count)
    short = most < np.array(amounts)[:, None, None]
    widths: Ints = np.add.reduce(short, axis=1, dtype=np.int8) + np.int8(1)
    # What all zones together could not serve.
    beyond = short[:, -1]
    if beyond.any():
        np.copyto(widths, state.columns.block(REACH, names, state.rows), where=beyond, casting="unsafe")
    return untold | dict(zip(names, widths, strict=True))


def _full(state: ColumnState, width: int) -> Ints:
    return np.full(state.count, width, dtype=np.int8)


def _width_together(state: ColumnState, asked: StepRequest) -> Ints:
    """The fewest zones that could hold the memory of all names."""
    count = state.columns.layout.count
    width = np.full(state.count, count, dtype=np.int8)
    empty, memory = (
        ColumnState(state.columns, When.EMPTY, state.rows),
        StepRequest(asked.step, (), (), asked.memory),
    )
    for wide in range(count, 0, -1):
        np.copyto(width, np.int8(wide), where=holding(empty, memory, wide).any(axis=0))
    return width


# What the pod means.


def keeps(plan: LayoutPlan, state: ColumnState, intent: Intent, found: Tried) -> tuple[Bools, Bools]:
    """Whether the zones that a pod would get are what an intent asks for, and where only rules can say."""
    yes, no = ~_no(state), _no(state)
    if not found.commons or nothing_to_keep(plan.layout, intent):
        return yes, no
    together = (intent.scope or plan.layout.scope) is Scope.POD
    if together and plan.layout.scope is Scope.CONTAINER and len(plan.decisions) > 1:
        return _keeps_together(plan, state, intent, found)
    apart = not together and plan.as_one
    kept, unsure = yes, no
    for asked, held in zip(plan.decisions, found.commons, strict=True):
        about = concerned(plan, asked, intent)
        if about:
            wide = held.width > 1 if intent.policy is Policy.SINGLE_NUMA_NODE else no
            kept = kept & held.exists & ~wide
            unsure = unsure | (~held.exists if len(plan.steps) > 1 or about != asked.names else no)
            unsure = unsure | ((held.width > 1) & held.exists if apart else no)
    return kept | unsure, unsure


def _keeps_together(
    plan: LayoutPlan, state: ColumnState, intent: Intent, found: Tried
) -> tuple[Bools, Bools]:
    """Containers that were placed one by one, and are to sit together."""
    held = [
        common
        for asked, common in zip(plan.decisions, found.commons, strict=True)
        if concerned(plan, asked, intent)
    ]
    yes, no = ~_no(state), _no(state)
    if not held:
        return yes, no
    zones = np.bitwise_count(np.bitwise_or.reduce([each.mask for each in held]))
    unsure = ~np.logical_and.reduce([each.exists for each in found.commons])
    return (zones <= _narrowest(plan, state, intent)) | unsure, unsure


def _narrowest(plan: LayoutPlan, state: ColumnState, intent: Intent) -> Ints:
    """The fewest zones that any resource of the whole pod needs, of those that an intent is about."""
    if intent.policy is Policy.SINGLE_NUMA_NODE:
        return np.ones(state.count, dtype=np.int8)
    about = concerned(plan, plan.whole, intent)
    widths = [width for name, width in widths_of(state, plan.whole).items() if name in about]
    narrowest: Ints = np.minimum.reduce(widths or [np.full(state.count, plan.layout.count, dtype=np.int8)])
    return narrowest
