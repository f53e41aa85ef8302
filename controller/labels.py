"""
Keeping the class label of every node true.

Schedulers and autoscalers know nodes by their labels alone, so what the rules find out about a machine has to
stand on its Node. Others write labels too, and every write wakes everybody who watches nodes: so only what is
wrong is written, one key at a time, by one replica, slowly, and never in a race with somebody who disagrees.

The label of a node that is ill is that of its class in health: a device plugin that starts again, or a device
that breaks, changes nothing, until the loss has lasted for so long that it is taken for real.

A label is taken away only when a topology is gone for good. Exporters are restarted and their objects written
anew, and a kubelet that starts again evicts pods whose required affinity its labels no longer satisfy
(kubernetes/kubernetes#124586): a label that comes and goes would take running work with it.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter

from controller.node_classes import Change, NodeClasses
from numalign.kube.client import Patch
from numalign.kube.errors import ClusterError, Forbidden, NotFound
from numalign.model.intent import CLASS_LABEL
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

GRACE_SECONDS = 300
"""How long a topology has to be missing before it counts as gone for good."""

PER_SECOND = 20
"""Patches; each one is an event for everybody who watches nodes."""

TURN_SECONDS = 1.0
UNSEEN_SECONDS = 30
"""How long a write may take to come back as an event before it is repeated."""

PATCH_SECONDS = 5
"""How long the API server may take: less than others wait before they lead in our place."""

STALE_SECONDS = 120
"""What was confirmed longer ago is no ground to write, nor to count a topology as missing."""

TOLERATED = 3
"""Failures in a row that may be the nodes' own matter."""

FROZEN_SECONDS = 30
"""A process that did not look for so long was not following."""

_FIRST_WAIT, _LONGEST_WAIT = 15.0, 1800.0
_LONGEST_PAUSE = 10.0
_QUIET_SECONDS = 600


class Patches(Protocol):
    """What of an `Api` is used; the real one raises `ClusterError`."""

    async def patch(self, path: str, body: object, *, how: Patch, what: str) -> object:
        """Change the object at a path."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The last write to a node: what it should have become, when, how often in vain, and how long to wait.

    `done` is whether the API server took it, `shown` whether the label has been seen to be so.
    """

    after: str | None = None
    at: float = -math.inf
    vain: int = 0
    wait: float = 0.0
    done: bool = False
    shown: bool = False

    def holds_back(self, change: Change, *, now: float) -> bool:
        """Whether it is too early to write the same again."""
        return change.after == self.after and now < self.at + self.wait

    def undone(self, change: Change) -> int:
        """How often in a row somebody undid this very change."""
        return self.vain + 1 if self.done and self.after == change.after else 0

    def succeeded(self) -> "_Attempt":
        """If it is undone now, it may be done again at once, but later and later each time."""
        return self if self.shown else replace(self, wait=_backoff(self.vain), done=True, shown=True)

    def over(self, *, now: float) -> bool:
        """Whether what was written has stood for so long that nobody contests it."""
        return self.shown and now >= self.at + self.wait + _QUIET_SECONDS


_NO_ATTEMPT = _Attempt()


def _backoff(vain: int) -> float:
    """Seconds before the next write, after so many in vain."""
    return min(_FIRST_WAIT * 2.0 ** min(vain - 1, 16), _LONGEST_WAIT) if vain else 0.0


class LabelWriter:
    """Writes class labels while `leading` says yes, at most `per_second` in any second.

    `nodes` gives what is known now, and `age` how many seconds ago that was last confirmed. A topology is
    gone for good after `GRACE_SECONDS`. Only what this process has seen counts: when it is started again, or
    could not follow for a while, each topology has all of the grace again, for it may have been there.
    """

    def __init__(  # noqa: PLR0913  who knows, who writes, and what every part of a process is given
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
        self._plan: tuple[Change, ...] = ()
        self._attempts: dict[str, _Attempt] = {}
        self._looked = self._paused_until = clock()
        self._failures = 0
        self._forbidden = False
        self._writes = Counter(
            f"{PREFIX}class_writes", "Writes of class labels, by result.", ["result"], registry=registry
        )
        for result in ("written", "gone", "forbidden", "failed"):
            self._writes.labels(result)

    async def run(self) -> None:
        """Keep labels true; never returns."""
        while True:
            await self._reconcile()
            # With at most so many patches in a turn, this pause is what bounds them in any second.
            await self._sleep(TURN_SECONDS)

    async def _reconcile(self) -> None:
        """Look once, and write what a second allows; a plan is too old after that."""
        began, nodes = self._clock(), self._nodes()
        if nodes is None or not self._follows(now=began):
            return
        self._look(nodes, now=began)
        if began < self._paused_until:
            return
        due = [change for change in self._plan if not self._last(change).holds_back(change, now=began)]
        # Nodes that refuse come last, so that they hold up no others.
        for change in sorted(due, key=lambda change: self._last(change).vain)[: self._per_second]:
            late = self._clock() >= began + TURN_SECONDS
            if late or not self._leading() or not await self._write(change):
                return

    def _follows(self, *, now: float) -> bool:
        """Whether what is known can be trusted; each absence counts anew if it could not."""
        stale, frozen = self._age() > STALE_SECONDS, now - self._looked > FROZEN_SECONDS
        self._looked = now
        if stale or frozen:
            self._missing_since = {}
            self._planned_for = None, frozenset()
        return not stale

    def _look(self, nodes: NodeClasses, *, now: float) -> None:
        """Plan anew if anything has changed."""
        if nodes is not self._planned_for[0]:
            self._missing_since = {node: self._missing_since.get(node, now) for node in nodes.missing()}
        gone = frozenset(node for node, since in self._missing_since.items() if now - since >= GRACE_SECONDS)
        if nodes is not self._planned_for[0] or gone != self._planned_for[1]:
            self._planned_for = nodes, gone
            self._plan = nodes.changes(gone=gone)
            self._attempts = dict(self._contested(nodes.labels, now=now))

    def _contested(self, labels: Mapping[str, str | None], *, now: float) -> Iterator[tuple[str, _Attempt]]:
        """The writes that still matter, with what the labels show of them."""
        for node, last in self._attempts.items():
            if node in labels:
                attempt = last.succeeded() if labels[node] == last.after else last
                if not attempt.over(now=now):
                    yield node, attempt

    def _last(self, change: Change) -> _Attempt:
        return self._attempts.get(change.node, _NO_ATTEMPT)

    async def _write(self, change: Change) -> bool:
        """Whether to go on after this one."""
        body = {"metadata": {"labels": {CLASS_LABEL: change.after}}}
        undone = self._last(change).undone(change)
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
            self._log.info("node.labelled", node=change.node, old=change.before, new=change.after)
            if undone:
                self._log.warning("class.contested", node=change.node, label=change.before, reverted=undone)
        wait = max(UNSEEN_SECONDS, _backoff(undone))
        self._attempts[change.node] = _Attempt(change.after, self._clock(), undone, wait, done=True)
        self._writes.labels(result).inc()
        self._failures, self._forbidden = 0, False
        return True

    def _failed(self, change: Change, error: Exception) -> None:
        """Wait with this node; after several in a row with all of them, for it may be the API server."""
        now, last = self._clock(), self._last(change)
        vain = last.vain + 1 if last.after == change.after else 1
        self._attempts[change.node] = _Attempt(change.after, now, vain, _backoff(vain))
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
