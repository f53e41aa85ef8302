"""Instances of inotify, of which each kubelet needs some and Linux gives each user few.

Linux counts them for the user on the whole machine, in all containers, so whether enough are left can only be
tried.
"""

import ctypes
import errno
import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from tools.clusters.gotools import UnavailableError

INSTANCES = 6
"""Instances that a kubelet needs."""

SPARE = 32
"""Instances to leave to programs that start beside the kubelets."""

NAME = "fs.inotify.max_user_instances"
LIMIT = Path("/proc/sys", *NAME.split("."))
"""The sysctl with the limit of a user; it lasts until the machine is booted."""


def require(kubelets: int, *, limit: Path = LIMIT) -> None:
    """Raise the limit of the machine if it leaves too few instances for so many more kubelets.

    Raise `UnavailableError` if that is not allowed.
    """
    needed = kubelets * INSTANCES
    if left(needed + SPARE) == needed + SPARE:
        return
    before = int(limit.read_text())
    raised = before + needed + SPARE
    with suppress(OSError):
        limit.write_text(f"{raised}\n")
        sys.stderr.write(f"kubelets: raised {NAME} from {before} to {raised} for {kubelets} kubelets\n")
    if (got := left(needed)) < needed:
        raise UnavailableError(
            f"{kubelets} kubelets need {needed} instances of inotify, and only {got} are left for this user:"
            f" raise {NAME} above {before} and the limit of open files, or start at most {got // INSTANCES}"
        )


def left(most: int) -> int:
    """Return how many more instances this user can have now, at most `most`."""
    new = ctypes.CDLL(None, use_errno=True).inotify_init1
    with ExitStack() as opened:
        for count in range(most):
            descriptor = new(os.O_CLOEXEC)
            if descriptor < 0:
                why = ctypes.get_errno()
                if why != errno.EMFILE:
                    raise OSError(why, os.strerror(why))
                return count
            opened.callback(os.close, descriptor)
    return most
