"""
Detect possible changes at a kubelet by its files.

The kubelet offers no watch. But its managers write each allocation into their checkpoints, each pod that it
accepts gets a directory, and a restarted kubelet has a new socket. This module does not read the contents: a
changed stamp is reason enough to observe the node.
"""

from collections.abc import Sequence
from pathlib import Path

from numalign.runtime.files import Stamp, stamps

CHECKPOINTS = (
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
    "device-plugins",
    "pods",
)
"""What a kubelet writes when pods start and end, below its directory (pkg/kubelet/cm, and
kubelet_getters.go).

Device plugins have their sockets in `device-plugins`. A plugin that ends removes its socket, and the kubelet
then considers its devices unhealthy without writing that anywhere (PluginDisconnected in
devicemanager/manager.go)."""


def watched(state: Path, socket: Path) -> tuple[Path, ...]:
    """Return the paths to watch of a kubelet with this directory and this podresources socket."""
    return (*(state / name for name in CHECKPOINTS), socket)


class Wakeups:
    """Reports whether a kubelet's files have changed; its socket is the last of the paths."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._before = stamps(paths)

    @property
    def blind(self) -> bool:
        """Return whether there is no checkpoint that could indicate changes."""
        return all(stamp == Stamp() for stamp in self._before[:-1])

    def changed(self) -> bool:
        """Return whether any of them has changed since the last call."""
        before, self._before = self._before, stamps(self._paths)
        return self._before != before
