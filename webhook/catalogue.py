"""
What the webhook knows of the cluster at the moment, and how it follows the snapshot file.

A review never waits for a file or an API server: it is answered from the last snapshot that could be read.
A snapshot that cannot be read changes nothing but a metric and a log line.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.cluster import snapshot
from numalign.cluster.snapshot import Snapshot
from numalign.fleet import Fleet
from numalign.rules.errors import BadInput, Mistake
from numalign.rules.intent import UNRULED, NamespaceRules
from numalign.runtime import files
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

_PROBLEMS_LOGGED = 20


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster as one snapshot shows it."""

    fleet: Fleet
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)

    def rules_of(self, namespace: str) -> NamespaceRules:
        """What a namespace's labels ask of its pods."""
        return self.namespaces.get(namespace, UNRULED)


class Catalogue:
    """The last moment that could be read; `now` is replaced whole, never changed."""

    def __init__(
        self, path: Path, *, log: Log, registry: CollectorRegistry, clock: Callable[[], float]
    ) -> None:
        self.now: Moment | None = None
        self._path = path
        self._log = log
        self._clock = clock
        self._read_at = clock()
        self._stamps = files.stamps([path])
        self._gauges(registry)

    def _gauges(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._nodes = gauge(f"{PREFIX}nodes", "Nodes by whether their topology is known.", ["topology"])
        self._classes = gauge(f"{PREFIX}classes", "Node classes known.")
        self._problems = gauge(
            f"{PREFIX}snapshot_problems", "Objects in the snapshot that could not be used."
        )
        self._failures = Counter(
            f"{PREFIX}snapshot_failures", "Times the snapshot could not be read.", registry=registry
        )
        age = gauge(f"{PREFIX}snapshot_age_seconds", "Time since the snapshot was last read with success.")
        age.set_function(lambda: self._clock() - self._read_at)

    def waiting_for(self) -> str | None:
        """What readiness lacks: a first snapshot."""
        return None if self.now else f"a readable snapshot at {self._path}"

    def load(self) -> None:
        """Read the snapshot; on failure log it and keep what there was."""
        self._stamps = files.stamps([self._path])
        try:
            self._take(self._read())
        except (BadInput, OSError) as error:
            self._failures.inc()
            self._log.error("snapshot.failed", path=self._path, error=error)
        except Exception as error:  # noqa: BLE001  whatever a file holds, the last good snapshot serves on
            self._failures.inc()
            self._log.failed("snapshot.failed", error, path=self._path)

    def _read(self) -> Snapshot:
        """The snapshot in the file; raises `BadInput` for one that would make us forget all nodes."""
        if self._path.exists() and not self._path.is_file():
            raise BadInput([Mistake(str(self._path), "is not a regular file")])
        found = snapshot.load(self._path)
        if self.now and self.now.fleet.nodes and not found.nodes:
            raise BadInput(
                [Mistake(str(self._path), "holds no topology that can be read, and held some before")]
            )
        return found

    async def follow(self, *, every: float) -> None:
        """Load again whenever the file changes, without holding up reviews while it is read."""
        await files.watch([self._path], since=self._stamps, every=every, changed=self._reload)

    async def _reload(self) -> None:
        await asyncio.to_thread(self.load)

    def _take(self, found: Snapshot) -> None:
        unknown = len(found.unknown)
        fleet = self.now.fleet.following(found.nodes, unknown=unknown) if self.now else None
        self.now = Moment(fleet or Fleet(found.nodes, unknown=unknown), found.namespaces)
        self._read_at = self._clock()
        self._nodes.labels("known").set(len(found.nodes))
        self._nodes.labels("unknown").set(unknown)
        self._classes.set(len(self.now.fleet.classes))
        self._problems.set(len(found.problems))
        for problem in found.problems[:_PROBLEMS_LOGGED]:
            self._log.warning("snapshot.problem", problem=problem)
        self._log.info(
            "snapshot.loaded",
            nodes=len(found.nodes),
            unknown=unknown,
            namespaces=len(found.namespaces),
            problems=len(found.problems),
            ignored=dict(found.ignored),
        )
