"""
One node as a viewer may see it: nested boxes, in the order in which lstopo nests them, and its pods.

The boxes are socket, zone, cache, core, CPU. CPUs are known only for nodes whose machine is described. Other
nodes have zones with amounts only, below a socket without an id.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from numalign.ledger.model import FreeCapacity
from numalign.map.fleet import tile_of, zone_uses
from numalign.map.pods import pods_on_node
from numalign.map.views import (
    CacheBox,
    CoreBox,
    CpuBox,
    CpuUse,
    DeviceBox,
    NodeView,
    PodOnNode,
    SocketBox,
    Visible,
    ZoneBox,
    ZoneUse,
)
from numalign.model.bitset import members
from numalign.model.machine import Core
from numalign.model.node import Node
from numalign.model.resources import Kind, kind
from numalign.scheduling.scheduler_state import SchedulerState


def node_view(state: SchedulerState, name: str, visible: Visible, *, revision: int) -> NodeView | None:
    """Return the current view of a node; None if its topology is not known."""
    free = state.reservations.free_capacity(name, now=state.clock())
    info, node_tile = state.reservations.node_info(name), tile_of(state, name)
    if free is None or info is None or node_tile is None:
        return None
    pods, devices = pods_on_node(state, name, visible), _devices(info.node, free.node)
    return NodeView(
        node_tile,
        _sockets(info.node, free, pods, devices),
        tuple(zone.id for zone in info.node.others),
        tuple(box for box in devices if len(box.zones) != 1),
        pods,
        info.node.machine is not None,
        free.exact,
        info.node.attributes.labels,
        tuple(map(str, info.node.attributes.taints)),
        revision,
        state.wall(),
    )


def _sockets(
    published: Node, free: FreeCapacity, pods: Sequence[PodOnNode], devices: Iterable[DeviceBox]
) -> tuple[SocketBox, ...]:
    """Return the sockets by id, then zones without CPUs, which are all zones if no CPUs are known."""
    cpus = _cpu_boxes(published, free.node, pods)

    def zone_box(use: ZoneUse, cores: Iterable[Core]) -> ZoneBox:
        caches = tuple(
            CacheBox(cache, tuple(map(core_box, below)))
            for cache, below in _grouped(cores, attrgetter("cache")).items()
        )
        own = tuple(box for box in devices if box.zones == (use.id,))
        holding = (at for at, pod in enumerate(pods) if any(use.name in part.zones for part in pod.held))
        return ZoneBox(use, caches, own, tuple(holding))

    def core_box(core: Core) -> CoreBox:
        threads = tuple(cpus[cpu] for cpu in members(core.threads))
        return CoreBox(threads[0].id, threads)

    uses, cores = zone_uses(free), published.machine.cores if published.machine else ()
    sockets = []
    for socket, in_socket in _grouped(cores, attrgetter("socket")).items():
        by_zone = _grouped(in_socket, attrgetter("zone"))
        zones = tuple(zone_box(use, by_zone[use.id]) for use in uses if use.id in by_zone)
        sockets.append(SocketBox(socket, zones))
    with_cpus = {core.zone for core in cores}
    if elsewhere := tuple(zone_box(use, ()) for use in uses if use.id not in with_cpus):
        sockets.append(SocketBox(None, elsewhere))
    return tuple(sockets)


def _cpu_boxes(published: Node, node: Node, pods: Sequence[PodOnNode]) -> Mapping[int, CpuBox]:
    """Return the box of each known CPU; for all CPUs of a node, the use may be known in amounts only."""
    machine, boxes = published.machine, dict[int, CpuBox]()
    if machine is None:
        return boxes
    holders = {cpu: at for at, pod in enumerate(pods) for cpu in members(pod.cpus or 0)}
    for cpu in (cpu for core in machine.cores for cpu in members(core.threads)):
        if cpu in holders:
            use = CpuUse.HELD
        elif machine.reserved >> cpu & 1:
            use = CpuUse.RESERVED
        elif node.stock is None:
            use = CpuUse.UNKNOWN
        else:
            use = CpuUse.FREE if node.stock.cpus >> cpu & 1 else CpuUse.TAKEN
        boxes[cpu] = CpuBox(cpu, use, holders.get(cpu))
    return boxes


def _grouped(cores: Iterable[Core], key: Callable[[Core], int]) -> Mapping[int, list[Core]]:
    """Return the cores grouped and sorted by a key, each group sorted by the cores' smallest CPU."""
    grouped = defaultdict[int, list[Core]](list)
    for core in sorted(cores, key=lambda core: core.threads & -core.threads):
        grouped[key(core)].append(core)
    return dict(sorted(grouped.items()))


def _devices(published: Node, node: Node) -> tuple[DeviceBox, ...]:
    """Return the devices of a node, by resource and by zones."""
    if published.machine is None:
        return tuple(
            DeviceBox(name, (zone.id,), zone.capacity.get(name, 0), amount, zone.free.get(name, 0))
            for zone in node.zones
            for name, amount in zone.allocatable.items()
            if kind(name) is Kind.DEVICE
        )
    free = dict(node.stock.devices) if node.stock else {}
    return tuple(
        DeviceBox(name, place.known, place.total, place.healthy, left)
        for name, places in published.machine.devices
        for place, left in zip(places, free.get(name, [None] * len(places)), strict=True)
        if place.total
    )
