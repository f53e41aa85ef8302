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
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from urllib.parse import quote

from prometheus_client import CollectorRegistry

from controller.node_classes import LabelChange, NodeClasses
from numalign.kube.client import Api, Patch
from numalign.kube.errors import ClusterError, Forbidden, NotFound
from numalign.kube.writes import FailureLog, answer, backoff, counter
from numalign.model.intent import CLASS_LABEL
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


_NO_ATTEMPT = _Attempt()


def _wait_after(failures: int) -> float:
    """Return the seconds before the next write, after this many failures or reverts."""
    return backoff(failures - 1, _FIRST_WAIT, _LONGEST_WAIT) if failures else 0.0


class LabelWriter:
    """
    Writes labels of nodes while `leading` returns True, at most `per_second` each second.

    `nodes` returns the known state, and `age` the seconds since it was last confirmed. A topology is gone for
    good after `GRACE_SECONDS`. Only what this process has seen counts: after a restart, or after a while of
    not following, the grace period of each topology starts again, because it may have been there.
    """

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: Api,
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
        self._errors, self._per_second = FailureLog(log), per_second
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._missing_since: dict[str, float] = {}
        self._planned_for: tuple[NodeClasses | None, frozenset[str]] = None, frozenset()
        self._plan: tuple[LabelChange, ...] = ()
        # By node and key.
        self._attempts: dict[tuple[str, str], _Attempt] = {}
        self._checked = self._paused_until = clock()
        self._failures = 0
        results = ("written", "gone", "forbidden", "failed")
        self._writes = counter(
            f"{PREFIX}class_writes", "Writes of class labels, by result.", ["result"], results, registry
        )

    async def run(self) -> None:
        """Keep labels right; never returns."""
        while True:
            await self._reconcile()
            # Each turn makes a limited number of patches, so this pause limits their rate.
            await self._sleep(TURN_SECONDS)

    async def _reconcile(self) -> None:
        """Check once, and write what one second allows; after that the plan is too old."""
        began, nodes = self._clock(), self._nodes()
        if nodes is None:
            return
        stale, frozen = self._age() > STALE_SECONDS, began - self._checked > FROZEN_SECONDS
        self._checked = began
        if stale or frozen:
            # The known state cannot be trusted, so all grace periods start again.
            self._missing_since = {}
            self._planned_for = None, frozenset()
        if stale:
            return
        self._replan(nodes, now=began)
        if began < self._paused_until:
            return
        due: list[tuple[int, LabelChange]] = []
        for change in self._plan:
            last = self._last(change)
            # It may be too early to write the same again.
            if change.after != last.after or began >= last.at + last.wait:
                due.append((last.in_a_row, change))
        # Nodes whose writes fail come last, so that they do not delay others.
        for _, change in sorted(due, key=itemgetter(0))[: self._per_second]:
            late = self._clock() >= began + TURN_SECONDS
            if late or not self._leading() or not await self._write(change):
                return

    def _replan(self, nodes: NodeClasses, *, now: float) -> None:
        if nodes is not self._planned_for[0]:
            self._missing_since = {node: self._missing_since.get(node, now) for node in nodes.missing()}
        gone = frozenset(node for node, since in self._missing_since.items() if now - since >= GRACE_SECONDS)
        if nodes is self._planned_for[0] and gone == self._planned_for[1]:
            return
        self._planned_for = nodes, gone
        self._plan = nodes.changes(gone=gone)
        attempts, self._attempts = self._attempts, {}
        for (node, key), attempt in attempts.items():
            labels = nodes.labels if key == CLASS_LABEL else nodes.names
            if node not in labels:
                continue
            last = attempt
            if labels[node] == last.after and not last.observed:
                # A revert may be corrected at once, but with growing pauses.
                last = replace(last, wait=_wait_after(last.in_a_row), accepted=True, observed=True)
            # A label that has been unchanged for long enough is uncontested.
            if not last.observed or now < last.at + last.wait + _QUIET_SECONDS:
                self._attempts[node, key] = last

    def _last(self, change: LabelChange) -> _Attempt:
        return self._attempts.get((change.node, change.key), _NO_ATTEMPT)

    async def _write(self, change: LabelChange) -> bool:
        """Write a change; return whether to continue with the next one."""
        last, path = self._last(change), f"/api/v1/nodes/{quote(change.node)}"
        repeated = last.after == change.after
        reverts = last.in_a_row + 1 if repeated and last.accepted else 0
        body = {"metadata": {"labels": {change.key: change.after}}}
        patch = self._api.patch(path, body, how=Patch.MERGE, what=f"node {change.node}")
        result = "written"
        try:
            await answer(patch, within=PATCH_SECONDS)
        except NotFound:
            result = "gone"
        except ClusterError as error:
            now, failures = self._clock(), last.in_a_row + 1 if repeated else 1
            attempt = _Attempt(change.after, now, failures, _wait_after(failures))
            self._attempts[change.node, change.key] = attempt
            # After several failures in a row all writes pause: the API server may be down.
            self._failures += 1
            if self._failures >= TOLERATED:
                pause = backoff(self._failures - TOLERATED, 1.0, _LONGEST_PAUSE)
                self._paused_until = now + pause * (1 + self._chance() / 2)
            if isinstance(error, Forbidden):
                result = self._errors.forbidden("class.forbidden", error, node=change.node)
            else:
                result = self._errors.failed("class.failed", error, node=change.node)
            self._writes.labels(result).inc()
            return self._failures < TOLERATED
        else:
            self._log.info(
                "node.labelled", node=change.node, key=change.key, old=change.before, new=change.after
            )
            if reverts:
                told = {"key": change.key, "label": change.before, "reverted": reverts}
                self._log.warning("class.contested", node=change.node, **told)
        wait = max(UNSEEN_SECONDS, _wait_after(reverts))
        attempt = _Attempt(change.after, self._clock(), reverts, wait, accepted=True)
        self._attempts[change.node, change.key] = attempt
        self._writes.labels(result).inc()
        self._failures = 0
        self._errors.succeeded()
        return True
