"""
What all resources of one container prefer, on many nodes at once.

The result of the kubelet's merge under a strict policy has a closed form (`kubelet.topology_manager`): all
resources need equally many zones by hardware, and some set of that many has enough of each.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from numalign.cache import batch_scores, zone_sets
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.column_state import ColumnState
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import StepRequest
from numalign.cache.widths import widths_of

_NEVER = 127
"""More zones than any node has."""


@dataclass(frozen=True, eq=False)
class PreferredHint:
    """What all resources of a step prefer, by row: sets of `width` zones, 0 if their widths differ.

    `parts` has, for rows of one width (all rows if None), which sets of that width have enough of everything:
    (sets, rows). On rows with `nothing` requested all zones will do.
    """

    state: ColumnState
    request: StepRequest
    width: Ints
    nothing: Bools
    parts: tuple[tuple[Rows | None, int, Bools], ...]

    @cached_property
    def exists(self) -> Bools:
        """Whether there is any such set, by row."""
        exists = self.nothing.copy()
        for rows, _, enough in self.parts:
            if rows is None:
                exists |= enough.any(axis=0)
            else:
                exists[rows] |= enough.any(axis=0)
        return exists

    @cached_property
    def mask(self) -> Ints:
        """The set that the kubelet chooses, as bits by row; 0 if nothing is requested or preferred."""
        masks = np.zeros(self.state.count, dtype=np.int64)
        for (numa, ties), some in self.state.alike(lambda layout: (layout.numa, layout.ties)):
            for rows, width, enough in self.parts:
                at = np.arange(self.state.count) if rows is None else rows
                chosen = slice(None) if some is None else np.isin(at, some)
                fits = enough[:, chosen]
                if ties is None:
                    masks[at[chosen]] = zone_sets.first(self.state.zones, width, fits, numa)
                else:
                    uses = batch_scores.uses(self.state.at(at[chosen]), ties, self.request.names)
                    sets = zone_sets.of_width(self.state.zones, width)
                    masks[at[chosen]] = batch_scores.first(sets, fits, numa, ties, uses)
        masks[self.nothing] = 0
        return masks


def preferred_hint(state: ColumnState, request: StepRequest) -> PreferredHint:
    """Return the sets of zones that all resources of a step prefer."""
    plan, zones = state.plan, state.zones
    nothing = np.zeros(state.count, dtype=np.bool_)
    if not request.everywhere or not request.names:
        nothing = ~state.flags([bool(some.any()) for some in request.given.T])
    if plan.kinds.all(Trait.SINGLE) or zones == 1 or not request.names:
        widths: Ints = np.ones(state.count, dtype=np.int8)
    else:
        widths = _common_width(state, request)
        if plan.kinds.any(Trait.SINGLE):
            widths[state.has(Trait.SINGLE)] = 1
    if not request.names:
        return PreferredHint(state, request, widths, nothing, ())
    parts = list[tuple[Rows | None, int, Bools]]()
    for width, count in enumerate(np.bincount(widths, minlength=1).tolist()):
        if width and count == len(widths):
            parts.append((None, width, fitting_sets(state, request, width)))
        elif width and count:
            rows = np.flatnonzero(widths == width)
            parts.append((rows, width, fitting_sets(state.at(rows), request, width)))
    return PreferredHint(state, request, widths, nothing, tuple(parts))


def fitting_sets(state: ColumnState, request: StepRequest, width: int) -> Bools:
    """Return which sets of `width` zones have all that a step requests: (sets, rows)."""
    enough = state.enough(request, width)
    closed = state.closed(width) if request.memory else None
    return enough if closed is None else enough & ~closed


def _common_width(state: ColumnState, request: StepRequest) -> NDArray[np.int8]:
    """Return how many zones all resources of a step need, 0 if they differ."""
    widths = widths_of(state, request)
    if request.everywhere:
        same: NDArray[np.int8] = np.logical_and.reduce(widths[1:] == widths[:1]) * widths[0]
        return same
    given = request.given.take(state.kinds, axis=1)
    least = np.where(given, widths, np.int8(_NEVER)).min(axis=0, initial=_NEVER)
    most = np.where(given, widths, np.int8(0)).max(axis=0, initial=0)
    return np.where(least == most, least, np.int8(0)).astype(np.int8, copy=False)
