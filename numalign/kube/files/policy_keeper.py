"""
The policy in force while a program runs.

Its file is mounted from a ConfigMap that people edit. An error there must not stop admission: the last valid
policy stays in force until the file is fixed.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.kube.files.policy import NO_POLICY, BadPolicy, ClusterPolicy, read
from numalign.runtime import files
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.shapes import Declared

_TAKEN, _REFUSED = "taken", "refused"


class PolicyKeeper:
    """The policy in force; `now` is replaced as a whole, never changed. Without a path it is empty."""

    def __init__(self, path: Path | None, *, log: Log, registry: CollectorRegistry) -> None:
        self.now = NO_POLICY
        self._callbacks: list[Callable[[], object]] = []
        self._path = path
        self._log = log
        self._stamps = files.stamps([path] if path else [])
        self._reloads = Counter(
            f"{PREFIX}policy_reloads", "Changes of the policy file, by result.", ["result"], registry=registry
        )
        self._stale = Gauge(
            f"{PREFIX}policy_stale",
            "1 while the policy file is invalid and an earlier version is in force, else 0.",
            registry=registry,
        )
        for result in (_TAKEN, _REFUSED):
            self._reloads.labels(result)

    def load(self) -> None:
        """Read the file for the first time; raise `BadPolicy` with every mistake."""
        if self._path:
            self._stamps = files.stamps([self._path])
            self.apply(read(self._path))
            self._log_loaded(self._path)

    def apply(self, policy: ClusterPolicy) -> None:
        """Put another policy in force."""
        self.now = policy
        for callback in self._callbacks:
            callback()

    def declared(self) -> Declared:
        """Return what the policy says of nodes."""
        return self.now.declared

    def on_change(self, callback: Callable[[], object]) -> None:
        """Register a callback for whenever another policy is in force."""
        self._callbacks.append(callback)

    async def follow(self, *, every: float, sleep: Sleep = asyncio.sleep) -> None:
        """Read the file again whenever it changes, checked every so many seconds; never returns."""
        if self._path is None:
            raise ValueError("there is no file to follow")
        changed = partial(self._reload, self._path)
        await files.watch([self._path], since=self._stamps, every=every, changed=changed, sleep=sleep)

    async def _reload(self, path: Path) -> None:
        try:
            policy = await asyncio.to_thread(read, path)
        except BadPolicy as error:
            self._reloads.labels(_REFUSED).inc()
            self._stale.set(1)
            self._log.error("policy.rejected", path=path, errors=error.mistakes)
            return
        self._reloads.labels(_TAKEN).inc()
        self._stale.set(0)
        self.apply(policy)
        self._log_loaded(path)

    def _log_loaded(self, path: Path) -> None:
        self._log.info("policy.loaded", path=path, **self.now.to_json())
