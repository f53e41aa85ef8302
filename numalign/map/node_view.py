"""One node with its zones, devices and pods, as a viewer may see it."""

from numalign.map.node_boxes import boxes
from numalign.map.pods_on_node import pods_on_node
from numalign.map.tiles import tile
from numalign.map.views import NodeView, Visible
from numalign.scheduling.scheduler_state import SchedulerState


def node_view(state: SchedulerState, name: str, visible: Visible, *, revision: int) -> NodeView | None:
    """Return the current view of a node; None if its topology is not known."""
    free = state.reservations.free_capacity(name, now=state.clock())
    info, node_tile = state.reservations.node_info(name), tile(state, name)
    if free is None or info is None or node_tile is None:
        return None
    pods = pods_on_node(state, name, visible)
    placed = boxes(info.node, free, pods)
    return NodeView(
        node_tile,
        placed.sockets,
        tuple(zone.id for zone in info.node.others),
        placed.shared_devices,
        pods,
        info.node.machine is not None,
        free.exact,
        info.node.attributes.labels,
        tuple(map(str, info.node.attributes.taints)),
        revision,
        state.wall(),
    )
