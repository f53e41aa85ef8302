"""
Compute answers before the first call.

When a replica starts, schedulers first ask about pods that are already pending, and nothing is computed by
then: neither what is free on thousands of nodes, nor how they answer about a pod. So this is done before the
replica is ready, within a time limit; the rest is computed when it is asked for, as usual.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

from numalign.cache import Question
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import result_of
from numalign.runtime.logs import Log
from numalign.scheduling.scheduler_state import AT_ONCE, PendingPod
from scorer.handlers import CallContext

SECONDS = 3.0
"""Seconds after which nothing more is started."""

MOST_QUESTIONS = 32
"""Most questions that are answered ahead: the most frequent ones of pending pods."""

POLL_SECONDS = 0.05
"""Interval in seconds at which to check whether the cluster is known."""


@dataclass(eq=False)
class Warming:
    """Computes answers once, as soon as nothing is `lacking`. Times are seconds of `clock`."""

    context: CallContext
    lacking: Callable[[], str | None]
    log: Log
    clock: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _done: bool = field(init=False, default=False)

    def waiting_for(self) -> str | None:
        """Return what readiness waits for because of this; None while something else is lacking."""
        return None if self._done or self.lacking() is not None else "the evaluation of pending pods"

    async def run(self) -> None:
        """Compute how the nodes answer about pending pods; an error does not keep others from asking."""
        while self.lacking() is not None:
            await self.sleep(POLL_SECONDS)
        try:
            await self._warm(until=self.clock() + SECONDS)
        except Exception as error:  # noqa: BLE001  no pod in a cluster may end the program again and again
            self.log.failed("warming.failed", error)
        self._done = True

    async def _warm(self, *, until: float) -> None:
        state = self.context.state
        for _ in state.cache.work_ahead(AT_ONCE, self.clock):
            await self.sleep(0)
            if self.clock() >= until:
                return
        names = tuple(state.node_names())
        for pod in await result_of(self._examples()):
            if self.clock() >= until:
                return
            await self.context.ranks(names, pod)
            self.context.nodes.filtered(names, pod)

    def _examples(self) -> Generator[None, None, Iterable[PendingPod]]:
        """Return one pending pod for each question, the most frequent question first; one pod per step."""
        state, examples, counts = self.context.state, dict[Question, PendingPod](), Counter[Question]()
        for seen in [*state.pods.values()]:
            pod = None if seen.node or seen.ended or seen.leaving else state.waiting(seen.uid)
            if pod:
                examples.setdefault(pod.question, pod)
                counts[pod.question] += 1
            yield
        return [examples[question] for question, _ in counts.most_common(MOST_QUESTIONS)]
