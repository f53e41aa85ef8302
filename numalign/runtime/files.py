"""
Files that are replaced while a process runs: certificates, snapshots.

Polling is used because it works on everything that is mounted into a pod: a secret is swapped by moving a
symbolic link two folders up, which no watch on the file itself would tell. A stamp is taken *before* a file
is read and given to `watch`, so that a change between reading and watching is never missed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from numalign.runtime.clock import Sleep


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes when a file is written or replaced; all None while it cannot be looked at."""

    modified_ns: int | None = None
    size: int | None = None
    inode: int | None = None


def stamps(paths: Sequence[Path]) -> tuple[Stamp, ...]:
    """Return the stamps of files as they are now, through symbolic links; take them before reading."""
    return tuple(map(_stamp, paths))


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return Stamp()
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)


async def watch(
    paths: Sequence[Path],
    *,
    since: tuple[Stamp, ...],
    every: float,
    changed: Callable[[], Awaitable[None]],
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Look every so many seconds, and call `changed` when a file is not what it was; never returns.

    `changed` may find a file missing or half written; if so it keeps what it had, for the next change calls
    it again. What it raises ends the watch.
    """
    last = since
    while True:
        await sleep(every)
        now = stamps(paths)
        if now != last:
            last = now
            await changed()
