"""
When something may have changed at a kubelet: its files tell.

The kubelet offers no watch. But whatever it gives out it writes into its checkpoints, a pod that it takes
gets a folder, and one that restarted has a new socket. What stands in these is not read here: that a stamp is
another one says that it is time to look.
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
"""
What a kubelet writes when pods come and go, below its folder (pkg/kubelet/cm, and kubelet_getters.go).

Plugins have their sockets in `device-plugins`. One that ends takes its socket away, and the kubelet
then takes its devices for ill without writing that anywhere (PluginDisconnected in devicemanager/manager.go).
"""


def watched(state: Path, socket: Path) -> tuple[Path, ...]:
    """What to watch of a kubelet with this folder and this socket of podresources."""
    return (*(state / name for name in CHECKPOINTS), socket)


class Wakeups:
    """Knows of a kubelet's files, its socket the last of them, whether they changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._before = stamps(paths)

    @property
    def blind(self) -> bool:
        """Whether there is no checkpoint that could tell of changes."""
        return all(stamp == Stamp() for stamp in self._before[:-1])

    def changed(self) -> bool:
        """Whether any of them is another one than it was at the last call."""
        before, self._before = self._before, stamps(self._paths)
        return self._before != before
