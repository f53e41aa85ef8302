"""
Answers that are there before the first call.

Who was waiting when a replica starts is asked about first, and nothing is worked out by then: neither what is
free on thousands of nodes, nor what they say to a pod. So that is done before the replica is ready, for as
long as readiness may be kept waiting; what is left is worked out when it is asked, as ever.
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
from scorer.context import CallContext

SECONDS = 3.0
"""After which nothing more is begun."""

MOST_QUESTIONS = 32
"""That are answered ahead: those that most of the waiting pods ask."""

LOOK_SECONDS = 0.05
"""How often it is looked whether there is a cluster to ask about."""


@dataclass(eq=False)
class Warming:
    """What is worked out once, as soon as nothing is `lacking`. Times are seconds of `clock`."""

    context: CallContext
    lacking: Callable[[], str | None]
    log: Log
    clock: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _done: bool = field(init=False, default=False)

    def waiting_for(self) -> str | None:
        """What readiness lacks because of it; nothing more while something else is lacking."""
        return None if self._done or self.lacking() is not None else "the evaluation of pending pods"

    async def run(self) -> None:
        """Work out what the nodes say to pending pods; what cannot be worked out keeps nobody from asking."""
        while self.lacking() is not None:
            await self.sleep(LOOK_SECONDS)
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
        """Of each question that waiting pods ask one of them, the most frequent first; a pod at each step."""
        state, examples, counts = self.context.state, dict[Question, PendingPod](), Counter[Question]()
        for seen in [*state.pods.values()]:
            pod = None if seen.node or seen.ended or seen.leaving else state.waiting(seen.uid)
            if pod:
                examples.setdefault(pod.question, pod)
                counts[pod.question] += 1
            yield
        return [examples[question] for question, _ in counts.most_common(MOST_QUESTIONS)]
