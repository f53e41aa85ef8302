"""
The device manager on many nodes at once.

Restates `kubelet.device_manager`, which names the kubelet's functions, for devices that a topology
counts by zone: none is between zones, or on none. All rows of a call have the same number of zones. Amounts
decide everything, so the result is exact on every row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from numalign.cache import batch_hint_sets
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.model.pod import Role


@dataclass(frozen=True, slots=True, eq=False)
class DeviceColumns:
    """The devices of one resource on many nodes while one pod is admitted (`device_manager.DeviceState`).

    `free` and `reusable` are by zone, (zones, rows); init containers of this pod had the latter, none at
    first. `hosts` are the zones with a device in any state, as bits by row; a row has none if no plugin has
    registered. By row, `near` is whether hints include only hosts, as from Kubernetes 1.36 on, and `healthy`
    whether any device is healthy. Arrays are never changed in place.
    """

    free: Ints
    reusable: Ints
    hosts: Ints
    near: Bools
    healthy: Bools

    @property
    def zones(self) -> int:
        """The number of zones of each node."""
        return len(self.free)

    def at(self, rows: Rows) -> "DeviceColumns":
        """Return the same for some of these rows."""
        return DeviceColumns(
            self.free[:, rows],
            self.reusable[:, rows],
            self.hosts[rows],
            self.near[rows],
            self.healthy[rows],
        )

    def charged(self, taken: Ints, role: Role) -> "DeviceColumns":
        """Return the columns after a container is allocated these devices (`DeviceState.charged`)."""
        # devicesToAllocate takes reusable devices first, so those of a zone are used before others.
        again = np.minimum(taken, self.reusable)
        new = taken - again
        # An init container adds to the reusable devices; a sidecar or an app container takes them for good.
        kept = self.reusable + new if role is Role.INIT else self.reusable - again
        return DeviceColumns(self.free - new, kept, self.hosts, self.near, self.healthy)


class DeviceAllocation(NamedTuple):
    """The result of an allocation for one container, by row.

    `taken` counts the devices that it gets from each zone, (zones, rows). Where it is not `ok`, there are too
    few devices, or none is healthy: the container gets none, and `after` is the state before.
    """

    after: DeviceColumns
    taken: Ints
    ok: Bools


def hints(devices: DeviceColumns, request: int) -> Bools:
    """Return the sets of zones that can serve a request (generateDeviceTopologyHints): (2^zones, rows).

    A request may be 0: the manager gives hints for every device that a container names. Where it reports the
    request as impossible, a row has no set. Where no plugin has registered, the manager gives no hints at
    all; the caller has to handle that (`hosts`). Which sets are preferred depends on their width alone.
    """
    possible = batch_hint_sets.reaching(devices.free + devices.reusable, request)
    beyond = np.where(devices.near, ~devices.hosts, 0)
    if beyond.any():
        possible &= batch_hint_sets.apart(beyond, devices.zones)
    if devices.reusable.any():
        # A set without a zone of reusable devices is skipped.
        possible &= batch_hint_sets.around(batch_hint_sets.masks(devices.reusable > 0), devices.zones)
    return possible


def allocate(devices: DeviceColumns, request: Ints | int, mask: Ints, role: Role) -> DeviceAllocation:
    """Return the devices that a container gets on each row, and the columns after it (devicesToAllocate).

    `request` is one number or one per row; even a request of 0 is refused if all devices are unhealthy. A row
    on which no plugin has registered is ok, and gives no devices. `mask` is the affinity as bits by row, or
    -1 where none is stored. Reusable devices are taken first, then those of the affinity, then the others,
    each from the lowest zone on.
    """
    enough = (devices.free + devices.reusable).sum(axis=0) >= request
    ok = (devices.hosts == 0) | devices.healthy & enough
    missing = np.where(ok, request, 0)
    # -1 has all bits: without an affinity all zones are equal.
    aligned = devices.free * batch_hint_sets.members(mask, devices.zones)
    taken = np.zeros_like(devices.free)
    for group in (devices.reusable, aligned, devices.free - aligned):
        drawn = _drawn(group, missing)
        taken += drawn
        missing = missing - drawn.sum(axis=0)
    return DeviceAllocation(devices.charged(taken, role), taken, ok)


def _drawn(amounts: Ints, needed: Ints) -> Ints:
    """Return how much of what is needed each zone gives, the lowest first, as `bitmask.draw`."""
    given = amounts.cumsum(axis=0) - amounts
    drawn: Ints = np.clip(needed - given, 0, amounts)
    return drawn
