"""
Files that are replaced while a process runs: certificates, snapshots.

Polling works on everything that is mounted into a pod: a Secret is updated by moving a symbolic link two
directories up, which no watch on the file itself would report. A stamp is taken *before* a file is read and
passed to `watch`, so that a change between reading and watching is never missed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from numalign.runtime.clock import Sleep


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes when a file is written or replaced; all None while it cannot be read."""

    modified_ns: int | None = None
    size: int | None = None
    inode: int | None = None


def stamps(paths: Sequence[Path]) -> tuple[Stamp, ...]:
    """Return the current stamps of files, through symbolic links; take them before reading."""
    found = list[Stamp]()
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            found.append(Stamp())
        else:
            found.append(Stamp(status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


async def watch(
    paths: Sequence[Path],
    *,
    since: tuple[Stamp, ...],
    every: float,
    changed: Callable[[], Awaitable[None]],
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Check every so many seconds, and call `changed` when a file has changed; never returns.

    `changed` may find a file missing or half written; then it keeps its state, because the next change calls
    it again. Its errors end the watch.
    """
    last = since
    while True:
        await sleep(every)
        now = stamps(paths)
        if now != last:
            last = now
            await changed()
