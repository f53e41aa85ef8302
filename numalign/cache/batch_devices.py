"""
The device manager on many nodes at once.

Restates `kubelet.device_manager`, which names the kubelet's functions, for devices of which a topology counts
those of each zone: none sit between zones or nowhere. All rows of a call have as many zones. Amounts decide
everything, so no row is ever unsure.
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

    `free` and `reusable` are by zone, (zones, rows); the latter were given to init containers of this pod,
    none at first. `hosts` are the zones that have one, in whatever state, as bits by row: where there is none
    no plugin has registered. By row `near` says that hints hold only hosts, as they do from Kubernetes 1.36
    on, and `healthy` that any device is. Arrays are never changed in place.
    """

    free: Ints
    reusable: Ints
    hosts: Ints
    near: Bools
    healthy: Bools

    @property
    def zones(self) -> int:
        """How many zones each of the nodes has."""
        return len(self.free)

    def at(self, rows: Rows) -> "DeviceColumns":
        """Return the same of some of these rows."""
        return DeviceColumns(
            self.free[:, rows],
            self.reusable[:, rows],
            self.hosts[rows],
            self.near[rows],
            self.healthy[rows],
        )

    def charged(self, taken: Ints, role: Role) -> "DeviceColumns":
        """Return the columns after a container got these of each zone (`DeviceState.charged`)."""
        # devicesToAllocate looks at reusable devices first, so whatever of a zone is reusable is reused.
        again = np.minimum(taken, self.reusable)
        new = taken - again
        # An init container adds to the set, a sidecar or an app takes out of it for good.
        kept = self.reusable + new if role is Role.INIT else self.reusable - again
        return DeviceColumns(self.free - new, kept, self.hosts, self.near, self.healthy)


class DeviceAllocation(NamedTuple):
    """What becomes of a container, by row.

    `taken` counts the devices that it gets from each zone, (zones, rows). Where it is not `ok` there are too
    few, or none in health: there it gets none, and `after` is what was before.
    """

    after: DeviceColumns
    taken: Ints
    ok: Bools


def hints(devices: DeviceColumns, request: int) -> Bools:
    """Return the sets of zones that could serve a request (generateDeviceTopologyHints): (2^zones, rows).

    Naming a device is enough to be given hints, so a request can be for 0. There is no set where the manager
    calls the request impossible. Where no plugin has registered it gives no hints at all, which is for the
    caller to know (`hosts`). Which of them are preferred is for their width to say.
    """
    possible = batch_hint_sets.reaching(devices.free + devices.reusable, request)
    beyond = np.where(devices.near, ~devices.hosts, 0)
    if beyond.any():
        possible &= batch_hint_sets.apart(beyond, devices.zones)
    if devices.reusable.any():
        # Each reusable device anchors what follows to its zone.
        possible &= batch_hint_sets.around(batch_hint_sets.masks(devices.reusable > 0), devices.zones)
    return possible


def allocate(devices: DeviceColumns, request: Ints | int, mask: Ints, role: Role) -> DeviceAllocation:
    """Return what a container gets of each zone on each row, and the columns after it (devicesToAllocate).

    `request` is one number or one per row: to name a device of which all are ill is refused even with 0. A
    row on which no plugin has registered is ok, and gives nothing. `mask` is the affinity as bits by row, or
    -1 where none is stored. Reusable devices come first, then those of the affinity, then the others, each
    from the lowest zone on.
    """
    enough = (devices.free + devices.reusable).sum(axis=0) >= request
    ok = (devices.hosts == 0) | devices.healthy & enough
    missing = np.where(ok, request, 0)
    # -1 has all bits: to a container without affinity all zones are alike.
    aligned = devices.free * batch_hint_sets.members(mask, devices.zones)
    taken = np.zeros_like(devices.free)
    for group in (devices.reusable, aligned, devices.free - aligned):
        drawn = _drawn(group, missing)
        taken += drawn
        missing = missing - drawn.sum(axis=0)
    return DeviceAllocation(devices.charged(taken, role), taken, ok)


def _drawn(amounts: Ints, needed: Ints) -> Ints:
    """So many of the lowest zones that have any, (zones, rows), as `zone_amounts.draw`."""
    given = amounts.cumsum(axis=0) - amounts
    drawn: Ints = np.clip(needed - given, 0, amounts)
    return drawn
