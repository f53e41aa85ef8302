"""
The agent's rounds: wait until there is something to see, look, and publish what is new.

A change is looked at as soon as the kubelet's files are quiet for a moment, for a pod is given CPUs, memory
and devices one after another. From then on there are at most two writes a second, whatever comes and goes:
each has all that happened until then, and only the newest is ever published. What fails is tried again,
sooner where a change is waiting to be seen; what goes on failing is said once.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from agent.amounts import SeenDevices
from agent.metrics import AgentMetrics
from agent.observation import Observation, Unobserved
from agent.report import NodeReport, report
from agent.unary import CallRefused
from numalign.kube.errors import ClusterError, Unreachable
from numalign.model.errors import BadInput, Mistake
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log

POLL_SECONDS = 0.1
SETTLE_SECONDS = 0.025
"""For so long the files have to be as they are before it is worth looking,"""
MOST_SETTLES = 4
"""but no longer than so many times that."""

WRITE_SECONDS = 0.5
"""Between the beginnings of a round that wrote, and of the next one."""
LOOK_SECONDS = 0.2
"""The same after a round that found nothing to write: what woke it may be just about to happen."""

BLIND_SECONDS = 1.0
"""Between two looks where no file tells of changes."""

FIRST_RETRY_SECONDS = 0.5
AWAY_SECONDS = 1.0
"""The longest pause while the kubelet or the API server is down: meanwhile published data gets old."""
REFUSED_SECONDS = 30.0
"""The longest pause after an answer that denies access or is invalid."""

MOST_DOUBTS = 3
"""Rounds in a row that are made only because it is not certain what some pod holds."""

_JITTER = 0.25


class NodeObserver(Protocol):
    """What looks at the node."""

    async def look(self) -> Observation:
        """What is there now; raises `ClusterError` or `BadInput`."""


class ReportPublisher(Protocol):
    """What publishes."""

    @property
    def unsettled(self) -> bool:
        """Whether the same is worth publishing once more."""

    async def publish(self, report: NodeReport) -> None:
        """Publish a report; raises `ClusterError`."""


class ChangeWatcher(Protocol):
    """What hears of changes."""

    @property
    def blind(self) -> bool:
        """Whether no change can be heard of."""

    def changed(self) -> bool:
        """Whether there was one since the last call."""


@dataclass(slots=True)
class Retry:
    """How long to wait after each failure in a row, by chance somewhat more or less."""

    chance: Callable[[], float]
    failures: int = 0
    said: set[str] = field(default_factory=set)

    def pause(self, longest: float) -> float:
        """Seconds to wait now that it failed once more."""
        pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(self.failures, 16), longest)
        self.failures += 1
        return pause * (1 + _JITTER * (2 * self.chance() - 1))

    def news(self, kind: str) -> bool:
        """Whether it fails in a way in which it has not failed since it last went well."""
        new = kind not in self.said
        self.said.add(kind)
        return new

    def recovered(self) -> bool:
        """It went well; whether it had failed before."""
        before, self.failures = self.failures, 0
        self.said.clear()
        return before > 0


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often, in seconds, to look without an occasion (`resync`), and to write without (`heartbeat`)."""

    resync: float = 60.0
    heartbeat: float = 300.0


class Rounds:
    """The life of an agent. `observed` is given each report that differs from the one before."""

    def __init__(  # noqa: PLR0913  what it depends on
        self,
        observer: NodeObserver,
        publisher: ReportPublisher,
        watcher: ChangeWatcher,
        intervals: Intervals,
        *,
        log: Log,
        metrics: AgentMetrics,
        observed: Callable[[NodeReport], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._observer, self._publisher, self._watcher = observer, publisher, watcher
        self._intervals = intervals
        self._log, self._metrics = log, metrics
        self._observed = observed
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._looks, self._writes = Retry(chance), Retry(chance)
        self._seen = SeenDevices()
        self._published: NodeReport | None = None
        self._mistakes: tuple[Mistake, ...] = ()
        self._doubts = 0
        self._changed = True
        self._begun = self._not_before = self._resync_at = self._heartbeat_at = clock()

    @property
    def waiting_for(self) -> str | None:
        """What has to happen before the agent is of use; None once it was."""
        return None if self._published else "the first report"

    async def run(self) -> NoReturn:
        """Go round for ever."""
        while True:
            await self.occasion()
            await self.round()

    async def occasion(self) -> None:
        """Wait until there is reason to look, and it is time."""
        while True:
            if self._watcher.changed():
                self._changed = True
                await self._settle()
                if self._looks.failures:
                    # Nobody who was away has to be waited for once it is back.
                    self._not_before = min(self._not_before, self._begun + LOOK_SECONDS)
            now = self._clock()
            if now >= self._not_before and (self._changed or now >= self._resync_at):
                return
            await self._sleep(POLL_SECONDS)

    async def _settle(self) -> None:
        for _ in range(MOST_SETTLES):
            await self._sleep(SETTLE_SECONDS)
            if not self._watcher.changed():
                return

    async def round(self) -> bool:
        """Look, and publish what is new or due; whether both went well."""
        begun = self._begun = self._clock()
        self._not_before = begun + LOOK_SECONDS
        self._changed = False
        # What changes while it is being looked at is seen in the next round.
        found = await self._look()
        done = found is not None and await self._publish(found)
        if done:
            self._resync_at = begun + (BLIND_SECONDS if self._watcher.blind else self._intervals.resync)
        return done

    async def _look(self) -> NodeReport | None:
        try:
            observation = await self._observer.look()
        except (ClusterError, BadInput) as error:
            self._metrics.missed()
            if self._looks.news(type(error).__name__):
                self._log.warning("node.observation_failed", error=error)
            self._again(self._looks.pause(_longest(error)))
            return None
        if self._looks.recovered():
            self._log.info("node.observation_recovered")
        found, self._seen = report(observation, self._seen)
        self._metrics.seen(left_out=found.left_out)
        if found.mistakes and found.mistakes != self._mistakes:
            self._log.warning("topology.incomplete", errors=found.mistakes)
        self._mistakes = found.mistakes
        # Mostly it was just being given something, or another one of its name was going.
        self._doubts = self._doubts + 1 if found.left_out else 0
        self._changed = 0 < self._doubts <= MOST_DOUBTS
        return found

    async def _publish(self, found: NodeReport) -> bool:
        """Whether all that is due is published."""
        now = self._clock()
        same = found == self._published
        if same and now < self._heartbeat_at and not self._publisher.unsettled:
            return True
        if not same:
            self._observed(found)
        self._not_before = self._begun + WRITE_SECONDS
        try:
            await self._publisher.publish(found)
        except ClusterError as error:
            if self._writes.news(type(error).__name__):
                self._log.warning("topology.write_failed", error=error)
            self._again(self._writes.pause(_longest(error)))
            return False
        if self._writes.recovered():
            self._log.info("topology.write_recovered")
        self._published = found
        # A fleet that was started at once shall not write at once for ever.
        self._heartbeat_at = now + self._intervals.heartbeat * (1 - _JITTER * self._chance())
        return True

    def _again(self, pause: float) -> None:
        self._changed = True
        self._not_before = max(self._not_before, self._clock() + pause)


def _longest(error: ClusterError | BadInput) -> float:
    """How long to wait at most before whoever failed so is asked again."""
    return AWAY_SECONDS if isinstance(error, _PASSING) else REFUSED_SECONDS


_PASSING = (CallRefused, Unobserved, Unreachable)
"""What is over by itself."""
