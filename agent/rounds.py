"""
The agent's main loop: wait for a reason to observe the node, observe it, and publish what is new.

After a change, the agent waits until the kubelet's files are unchanged for a moment, because a pod gets CPUs,
memory and devices one after another. From then on there are at most two writes a second, however much
changes: each contains all changes until then, and only the latest is published. Failures are retried, sooner
if a change is pending; a repeated failure is logged once.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from agent.amounts import SeenDevices
from agent.metrics import AgentMetrics
from agent.observation import Observation, Unobserved
from agent.report import NodeReport, report
from agent.unary import CallRefused
from numalign.kube.errors import ClusterError, Unreachable
from numalign.model.errors import BadInput, Mistake
from numalign.runtime.clock import Sleep
from numalign.runtime.files import Stamp, stamps
from numalign.runtime.logs import Log

POLL_SECONDS = 0.1
SETTLE_SECONDS = 0.025
"""Seconds for which the files must be unchanged before the node is observed."""
MOST_SETTLES = 4
"""Most waits for that before the node is observed anyway."""

WRITE_SECONDS = 0.5
"""Seconds between the starts of a round that wrote and of the next one."""
OBSERVE_SECONDS = 0.2
"""The same after a round that had nothing to write: the change behind its wakeup may be about to happen."""

BLIND_SECONDS = 1.0
"""Seconds between two observations if no file indicates changes."""

FIRST_RETRY_SECONDS = 0.5
UNREACHABLE_SECONDS = 1.0
"""The longest pause while the kubelet or the API server is down: meanwhile published data gets old."""
REFUSED_SECONDS = 30.0
"""The longest pause after a response that denies access or is invalid."""

MOST_DOUBTS = 3
"""Most rounds in a row that are made only because it is uncertain what some pod holds."""

_JITTER = 0.25
# Errors that usually pass by themselves.
_TRANSIENT = (CallRefused, Unobserved, Unreachable)

CHECKPOINTS = (
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
    "device-plugins",
    "pods",
)
"""What a kubelet writes when pods start and end, below its directory (pkg/kubelet/cm, and
kubelet_getters.go).

Device plugins have their sockets in `device-plugins`. A plugin that ends removes its socket, and the kubelet
then considers its devices unhealthy without writing that anywhere (PluginDisconnected in
devicemanager/manager.go)."""


class Wakeups:
    """
    Reports whether files have changed of a kubelet with this directory and this podresources socket.

    The kubelet offers no watch. But its managers write each allocation into their checkpoints, each pod that
    it accepts gets a directory, and a restarted kubelet has a new socket. The contents are not read: a
    changed stamp is reason enough to observe the node.
    """

    def __init__(self, state: Path, socket: Path) -> None:
        self._paths = (*(state / name for name in CHECKPOINTS), socket)
        self._before = stamps(self._paths)

    @property
    def blind(self) -> bool:
        """Return whether there is no checkpoint that could indicate changes."""
        return all(stamp == Stamp() for stamp in self._before[:-1])

    def changed(self) -> bool:
        """Return whether any of them has changed since the last call."""
        before, self._before = self._before, stamps(self._paths)
        return self._before != before


class ReportPublisher(Protocol):
    """Publishes reports."""

    @property
    def unsettled(self) -> bool:
        """Return whether the same report is worth publishing again."""

    async def publish(self, report: NodeReport) -> None:
        """Publish a report; raise `ClusterError`."""


class ChangeWatcher(Protocol):
    """Detects changes."""

    @property
    def blind(self) -> bool:
        """Return whether no change can be detected."""

    def changed(self) -> bool:
        """Return whether anything changed since the last call."""


@dataclass(slots=True)
class Retry:
    """Consecutive failures, and which kinds of them are logged."""

    failures: int = 0
    logged: set[str] = field(default_factory=set)

    def is_new(self, error: Exception) -> bool:
        """Note a failure; return whether there was none of its kind since the last success."""
        self.failures += 1
        kind = type(error).__name__
        new = kind not in self.logged
        self.logged.add(kind)
        return new

    def recovered(self) -> bool:
        """Note a success; return whether there were failures before it."""
        before, self.failures = self.failures, 0
        self.logged.clear()
        return before > 0


class Rounds:
    """
    The main loop of an agent.

    `observe` raises `ClusterError` or `BadInput`. Without a change it is called every `resync` seconds, and
    its report is written every `heartbeat` seconds. `observed` is called with each report that differs from
    the one before.
    """

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        observe: Callable[[], Awaitable[Observation]],
        publisher: ReportPublisher,
        watcher: ChangeWatcher,
        *,
        resync: float = 60.0,
        heartbeat: float = 300.0,
        log: Log,
        metrics: AgentMetrics,
        observed: Callable[[NodeReport], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._observe_node, self._publisher, self._watcher = observe, publisher, watcher
        self._resync, self._heartbeat = resync, heartbeat
        self._log, self._metrics = log, metrics
        self._observed = observed
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._observe_retry, self._write_retry = Retry(), Retry()
        self._seen = SeenDevices()
        self._published: NodeReport | None = None
        self._mistakes: tuple[Mistake, ...] = ()
        self._doubts = 0
        self._changed = True
        self._begun = self._not_before = self._resync_at = self._heartbeat_at = clock()

    @property
    def waiting_for(self) -> str | None:
        """Return what the agent needs before it is ready; None once it is."""
        return None if self._published else "the first report"

    async def run(self) -> NoReturn:
        """Run forever."""
        while True:
            await self.wait_until_due()
            await self.round()

    async def wait_until_due(self) -> None:
        """Wait until there is a reason to observe the node, and it is time."""
        while True:
            if self._watcher.changed():
                self._changed = True
                for _ in range(MOST_SETTLES):
                    await self._sleep(SETTLE_SECONDS)
                    if not self._watcher.changed():
                        break
                if self._observe_retry.failures:
                    # The kubelet is back: do not wait for the rest of the pause.
                    self._not_before = min(self._not_before, self._begun + OBSERVE_SECONDS)
            now = self._clock()
            if now >= self._not_before and (self._changed or now >= self._resync_at):
                return
            await self._sleep(POLL_SECONDS)

    async def round(self) -> bool:
        """Observe the node, and publish what is new or due; return whether both succeeded."""
        begun = self._begun = self._clock()
        self._not_before = begun + OBSERVE_SECONDS
        self._changed = False
        # What changes during the observation is seen in the next round.
        result = await self._observe()
        done = result is not None and await self._publish(result)
        if done:
            self._resync_at = begun + (BLIND_SECONDS if self._watcher.blind else self._resync)
        return done

    async def _observe(self) -> NodeReport | None:
        try:
            observation = await self._observe_node()
        except (ClusterError, BadInput) as error:
            self._metrics.observation_failed()
            if self._observe_retry.is_new(error):
                self._log.warning("node.observation_failed", error=error)
            self._pause(self._observe_retry, error)
            return None
        if self._observe_retry.recovered():
            self._log.info("node.observation_recovered")
        made, self._seen = report(observation, self._seen)
        self._metrics.observed(left_out=made.left_out)
        if made.mistakes and made.mistakes != self._mistakes:
            self._log.warning("topology.incomplete", errors=made.mistakes)
        self._mistakes = made.mistakes
        # Usually the pod is just getting its resources, or a pod of the same name is being removed.
        self._doubts = self._doubts + 1 if made.left_out else 0
        self._changed = 0 < self._doubts <= MOST_DOUBTS
        return made

    async def _publish(self, report_made: NodeReport) -> bool:
        """Return whether all that is due is published."""
        now = self._clock()
        same = report_made == self._published
        if same and now < self._heartbeat_at and not self._publisher.unsettled:
            return True
        if not same:
            self._observed(report_made)
        self._not_before = self._begun + WRITE_SECONDS
        try:
            await self._publisher.publish(report_made)
        except ClusterError as error:
            if self._write_retry.is_new(error):
                self._log.warning("topology.write_failed", error=error)
            self._pause(self._write_retry, error)
            return False
        if self._write_retry.recovered():
            self._log.info("topology.write_recovered")
        self._published = report_made
        # A fleet that was started at once must not write at once forever.
        self._heartbeat_at = now + self._heartbeat * (1 - _JITTER * self._chance())
        return True

    def _pause(self, retry: Retry, error: ClusterError | BadInput) -> None:
        """Set the time of the next attempt after a failure, with jitter."""
        longest = UNREACHABLE_SECONDS if isinstance(error, _TRANSIENT) else REFUSED_SECONDS
        pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(retry.failures - 1, 16), longest)
        self._changed = True
        jitter = 1 + _JITTER * (2 * self._chance() - 1)
        self._not_before = max(self._not_before, self._clock() + pause * jitter)
