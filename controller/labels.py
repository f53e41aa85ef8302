"""
Keep the labels of every node right: its class and, if that is maintained, its name.

Schedulers and autoscalers know nodes only by their labels, so the class of a machine must be a label of its
Node. Others write labels too, and every write is an event for all clients that watch nodes. So only what is
wrong is written, one key at a time, by one replica, slowly, and with growing pauses if another program
disagrees.

The label of a degraded node is that of its class when healthy: a device plugin that restarts, or a device
that fails, changes nothing until the loss has lasted long enough to count as permanent.

A label is removed only when a topology is gone for good. Exporters restart and recreate their objects, and a
kubelet that restarts evicts pods whose required affinity its labels no longer satisfy
(kubernetes/kubernetes#124586): a label that comes and goes would end running pods.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter

from controller.node_classes import LabelChange, NodeClasses
from numalign.kube.client import Patch
from numalign.kube.errors import ClusterError, Forbidden, NotFound
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

GRACE_SECONDS = 300
"""Seconds for which a topology has to be missing before it counts as gone for good."""

PER_SECOND = 20
"""Most patches per second; each one is an event for all clients that watch nodes."""

TURN_SECONDS = 1.0
UNSEEN_SECONDS = 30
"""Seconds within which a write must be seen in the watch before it is repeated."""

PATCH_SECONDS = 5
"""Timeout of API requests in seconds: shorter than the time after which another replica leads."""

STALE_SECONDS = 120
"""Age in seconds above which the known state allows no writes, and a missing topology does not count."""

TOLERATED = 3
"""Consecutive failures from which on the API server is assumed to be the cause, not single nodes."""

FROZEN_SECONDS = 30
"""A process that did not run for this many seconds was not following the cluster."""

_FIRST_WAIT, _LONGEST_WAIT = 15.0, 1800.0
_LONGEST_PAUSE = 10.0
_QUIET_SECONDS = 600


class Patches(Protocol):
    """The method of `Api` that is used; the real one raises `ClusterError`."""

    async def patch(self, path: str, body: object, *, how: Patch, what: str) -> object:
        """LabelChange the object at `path`."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """
    The last write to a node: label and time, failures and reverts in a row, and how long to wait.

    `accepted` is whether the API server accepted it, `observed` whether the label has been seen on the node.
    """

    after: str | None = None
    at: float = -math.inf
    in_a_row: int = 0
    wait: float = 0.0
    accepted: bool = False
    observed: bool = False

    def holds_back(self, change: LabelChange, *, now: float) -> bool:
        """Return whether it is too early to write the same again."""
        return change.after == self.after and now < self.at + self.wait

    def reverts(self, change: LabelChange) -> int:
        """Return how often in a row this change was reverted."""
        return self.in_a_row + 1 if self.accepted and self.after == change.after else 0

    def succeeded(self) -> "_Attempt":
        """Return the attempt once seen: a revert may be corrected at once, but with growing pauses."""
        return (
            self
            if self.observed
            else replace(self, wait=_backoff(self.in_a_row), accepted=True, observed=True)
        )

    def over(self, *, now: float) -> bool:
        """Return whether the label has been unchanged for long enough to be uncontested."""
        return self.observed and now >= self.at + self.wait + _QUIET_SECONDS


_NO_ATTEMPT = _Attempt()


def _backoff(failures: int) -> float:
    """Return the seconds before the next write, after this many failures or reverts."""
    return min(_FIRST_WAIT * 2.0 ** min(failures - 1, 16), _LONGEST_WAIT) if failures else 0.0


_LabelPlace = tuple[str, str]
"""A node, and the key of one of its labels."""


class LabelWriter:
    """
    Writes labels of nodes while `leading` returns True, at most `per_second` each second.

    `nodes` returns the known state, and `age` the seconds since it was last confirmed. A topology is gone for
    good after `GRACE_SECONDS`. Only what this process has seen counts: after a restart, or after a while of
    not following, the grace period of each topology starts again, because it may have been there.
    """

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: Patches,
        *,
        nodes: Callable[[], NodeClasses | None],
        age: Callable[[], float],
        leading: Callable[[], bool],
        log: Log,
        registry: CollectorRegistry,
        per_second: int = PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api, self._nodes, self._age, self._leading, self._log = api, nodes, age, leading, log
        self._per_second = per_second
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._missing_since: dict[str, float] = {}
        self._planned_for: tuple[NodeClasses | None, frozenset[str]] = None, frozenset()
        self._plan: tuple[LabelChange, ...] = ()
        self._attempts: dict[_LabelPlace, _Attempt] = {}
        self._checked = self._paused_until = clock()
        self._failures = 0
        self._forbidden = False
        self._writes = Counter(
            f"{PREFIX}class_writes", "Writes of class labels, by result.", ["result"], registry=registry
        )
        for result in ("written", "gone", "forbidden", "failed"):
            self._writes.labels(result)

    async def run(self) -> None:
        """Keep labels right; never returns."""
        while True:
            await self._reconcile()
            # Each turn makes a limited number of patches, so this pause limits their rate.
            await self._sleep(TURN_SECONDS)

    async def _reconcile(self) -> None:
        """Check once, and write what one second allows; after that the plan is too old."""
        began, nodes = self._clock(), self._nodes()
        if nodes is None or not self._follows(now=began):
            return
        self._replan(nodes, now=began)
        if began < self._paused_until:
            return
        due = [change for change in self._plan if not self._last(change).holds_back(change, now=began)]
        # Nodes whose writes fail come last, so that they do not delay others.
        for change in sorted(due, key=lambda change: self._last(change).in_a_row)[: self._per_second]:
            late = self._clock() >= began + TURN_SECONDS
            if late or not self._leading() or not await self._write(change):
                return

    def _follows(self, *, now: float) -> bool:
        """Return whether the known state can be trusted; if not, start all grace periods again."""
        stale, frozen = self._age() > STALE_SECONDS, now - self._checked > FROZEN_SECONDS
        self._checked = now
        if stale or frozen:
            self._missing_since = {}
            self._planned_for = None, frozenset()
        return not stale

    def _replan(self, nodes: NodeClasses, *, now: float) -> None:
        """Update the plan if anything has changed."""
        if nodes is not self._planned_for[0]:
            self._missing_since = {node: self._missing_since.get(node, now) for node in nodes.missing()}
        gone = frozenset(node for node, since in self._missing_since.items() if now - since >= GRACE_SECONDS)
        if nodes is not self._planned_for[0] or gone != self._planned_for[1]:
            self._planned_for = nodes, gone
            self._plan = nodes.changes(gone=gone)
            self._attempts = dict(self._contested(nodes, now=now))

    def _contested(self, nodes: NodeClasses, *, now: float) -> Iterator[tuple[_LabelPlace, _Attempt]]:
        """Yield the writes that still matter, updated by what the labels show."""
        for (node, key), last in self._attempts.items():
            if node in (labels := nodes.of(key)):
                attempt = last.succeeded() if labels[node] == last.after else last
                if not attempt.over(now=now):
                    yield (node, key), attempt

    def _last(self, change: LabelChange) -> _Attempt:
        return self._attempts.get((change.node, change.key), _NO_ATTEMPT)

    async def _write(self, change: LabelChange) -> bool:
        """Write a change; return whether to continue with the next one."""
        body = {"metadata": {"labels": {change.key: change.after}}}
        reverts = self._last(change).reverts(change)
        result = "written"
        try:
            async with asyncio.timeout(PATCH_SECONDS):
                await self._api.patch(
                    f"/api/v1/nodes/{quote(change.node)}", body, how=Patch.MERGE, what=f"node {change.node}"
                )
        except NotFound:
            result = "gone"
        except (ClusterError, TimeoutError) as error:
            self._failed(change, error)
            return self._failures < TOLERATED
        else:
            self._log.info(
                "node.labelled", node=change.node, key=change.key, old=change.before, new=change.after
            )
            if reverts:
                told = {"key": change.key, "label": change.before, "reverted": reverts}
                self._log.warning("class.contested", node=change.node, **told)
        wait = max(UNSEEN_SECONDS, _backoff(reverts))
        attempt = _Attempt(change.after, self._clock(), reverts, wait, accepted=True)
        self._attempts[change.node, change.key] = attempt
        self._writes.labels(result).inc()
        self._failures, self._forbidden = 0, False
        return True

    def _failed(self, change: LabelChange, error: Exception) -> None:
        """Pause writes to this node; after several failures in a row to all: the API server may be down."""
        now, last = self._clock(), self._last(change)
        failures = last.in_a_row + 1 if last.after == change.after else 1
        self._attempts[change.node, change.key] = _Attempt(change.after, now, failures, _backoff(failures))
        self._failures += 1
        if self._failures >= TOLERATED:
            pause = min(2.0 ** min(self._failures - TOLERATED, 16), _LONGEST_PAUSE)
            self._paused_until = now + pause * (1 + self._chance() / 2)
        forbidden = isinstance(error, Forbidden)
        reason = str(error) or f"the API server did not answer within {PATCH_SECONDS} s"
        self._writes.labels("forbidden" if forbidden else "failed").inc()
        if not forbidden:
            self._log.warning("class.failed", node=change.node, error=reason)
        elif not self._forbidden:
            self._log.error("class.forbidden", node=change.node, error=reason)
        self._forbidden |= forbidden
