"""
The fewest zones that a request needs by hardware, whatever is allocated.

Restates `min_affinity_size` of the kubelet's managers (`kubelet.cpu_manager`, `device_manager` and
`memory_manager`) for all nodes of a table at once.
"""

import numpy as np

from numalign.cache import zone_sets
from numalign.cache.arrays import Ints
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import When
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import StepRequest
from numalign.model.resources import CPU, Kind, kind


def widths_of(state: ColumnState, request: StepRequest) -> Ints:
    """Return the fewest zones that could hold each resource of a step by hardware: (names, rows).

    The value means nothing where managers do not allocate a resource.
    """
    listed = [name for name in request.names if state.plan.columns.has(name)]
    if len(listed) == len(request.names):
        widths = _of_listed(state, listed, state.needs(request))
    else:
        widths = np.empty((len(request.names), state.count), dtype=np.int8)
        places = [at for at, name in enumerate(request.names) if name in listed]
        for at, name in enumerate(request.names):
            widths[at] = 1 if name == CPU else state.zones
        widths[places] = _of_listed(state, listed, state.needs(request)[places])
    if len(request.memory) > 1:
        memory = [at for at, name in enumerate(request.names) if name in request.memory]
        widths[memory] = _width_together(state, request.only(request.memory))
    return widths


def _of_listed(state: ColumnState, names: list[str], needs: Ints) -> Ints:
    """Return the same for resources that do not depend on each other, and that some node lists."""
    short = state.plan.columns.top(names, state.rows) < needs[:, None]
    widths: Ints = np.add.reduce(short, axis=1, dtype=np.int8)
    widths += np.int8(1)
    # Requests that all zones together could not serve.
    beyond = short[:, -1]
    if beyond.any():
        np.copyto(widths, _most_needed(state, names), where=beyond, casting="unsafe")
    return widths


def _width_together(state: ColumnState, memory: StepRequest) -> Ints:
    """Return the fewest zones that could hold the memory of all names."""
    widths = np.full(state.count, state.zones, dtype=np.int8)
    empty = ColumnState(state.plan, When.EMPTY, state.rows)
    for width in range(state.zones, 0, -1):
        fits = empty.enough(memory, width).any(axis=0)
        np.copyto(widths, np.int8(width), where=fits)
    return widths


def _most_needed(state: ColumnState, names: list[str]) -> Ints:
    """Return the number of zones for a request that no set of zones could serve: (names, rows)."""
    hosts = zone_sets.widths(state.plan.columns.hosts(names, state.rows))
    near = state.has(Trait.NEAR)
    needed = np.full(hosts.shape, state.zones, dtype=np.int8)
    for at, name in enumerate(names):
        if name == CPU:
            needed[at] = np.maximum(hosts[at], 1)
        elif kind(name) is Kind.DEVICE:
            needed[at][near] = hosts[at][near]
    return needed
