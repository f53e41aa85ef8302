"""
Following a snapshot file, which somebody replaces now and then.

The last file that could be read counts. One that cannot be, or that would make everyone forget all nodes,
changes nothing but a metric and a log line.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from numalign.cluster import documents, snapshot
from numalign.cluster.census import Census, Tenants
from numalign.cluster.feed import Take
from numalign.cluster.world import Snapshot
from numalign.rules.errors import BadInput, Mistake
from numalign.runtime import files
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX


class FileFeed:
    """The snapshots in a file, looked at every so many seconds; 0 looks once."""

    def __init__(  # noqa: PLR0913  a file, how often, and what every part of a process is given
        self,
        path: Path,
        *,
        every: float,
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
        sleep: files.Sleep = asyncio.sleep,
    ) -> None:
        self._path = path
        self._every = every
        self._log = log
        self._clock = clock
        self._sleep = sleep
        self._read_at: float | None = None
        self._stamps: tuple[files.Stamp, ...] | None = None
        self._had_nodes = False
        self._census = Census()
        self._failures = Counter(
            f"{PREFIX}snapshot_failures", "Times the snapshot file could not be read.", registry=registry
        )

    def waiting_for(self) -> str | None:
        """A first file that can be read."""
        return f"a readable snapshot at {self._path}" if self._read_at is None else None

    def age(self) -> float:
        """Since the file was last read with success."""
        return float("inf") if self._read_at is None else self._clock() - self._read_at

    def tenants(self) -> Iterator[Tenants]:
        """The pods in the file."""
        return self._census.tenants()

    async def follow(self, take: Take) -> None:
        """Read the file whenever it changes, without holding up whoever asks meanwhile; never returns."""
        if self._stamps is None:
            await self.load(take)
        if not self._every:
            await asyncio.Event().wait()
        await files.watch(
            [self._path],
            since=self._stamps or (),
            every=self._every,
            changed=partial(self.load, take),
            sleep=self._sleep,
        )

    async def load(self, take: Take) -> None:
        """Read the file now; if that fails, say so and keep what there was. `follow` begins with it."""
        self._stamps = files.stamps([self._path])
        try:
            found, census = await asyncio.to_thread(self._read)
            await take(found)
        except (BadInput, OSError) as error:
            self._failures.inc()
            self._log.error("snapshot.failed", path=self._path, error=error)
            return
        except Exception as error:  # noqa: BLE001  whatever a file holds, the last good snapshot serves on
            self._failures.inc()
            self._log.failed("snapshot.failed", error, path=self._path)
            return
        self._census = census
        self._had_nodes = bool(found.nodes)
        self._read_at = self._clock()

    def _read(self) -> tuple[Snapshot, Census]:
        """What the file holds; raises `BadInput` for one that would make us forget all nodes."""
        if self._path.exists() and not self._path.is_file():
            raise BadInput([Mistake(str(self._path), "is not a regular file")])
        pile = snapshot.pile(documents.load(self._path))
        found = pile.snapshot()
        if self._had_nodes and not found.nodes:
            raise BadInput(
                [Mistake(str(self._path), "holds no topology that can be read, and held some before")]
            )
        return found, pile.world.census
