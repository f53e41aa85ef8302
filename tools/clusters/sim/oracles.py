"""One process of the real managers for each node; a call of one does not block the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from typing import Any, TypeVar

from tools.clusters.oracle.build import find
from tools.clusters.oracle.managers import Ended, Hung, Managers
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]
A = TypeVar("A")
T = TypeVar("T")

SECONDS = 30
"""The longest time to wait for a decision: test machines are shared, and a kubelet would wait for ever."""


class SimulationError(Exception):
    """Raised if a kubelet does not start, or fails on a pod, with the reason; the simulation must end."""


class Oracle:
    """The managers of one node. Calls raise `SimulationError` if they fail on a pod, or do not answer."""

    def __init__(self, machine: SimNode, managers: Managers, threads: Executor) -> None:
        self._machine = machine
        self._managers = managers
        self._threads = threads

    async def start(self) -> None:
        if refused := await self._asked(self._managers.node, self._machine.line()):
            raise SimulationError(f"the kubelet of {self._machine.name} does not start: {refused}")

    async def create(self, pod: Json) -> Json:
        answer = await self._asked(self._managers.create, pod)
        if "panicked" in answer:
            raise SimulationError(f"the kubelet of {self._machine.name} panicked: {answer['panicked']}")
        return answer

    async def delete(self, name: str) -> None:
        await self._asked(self._managers.delete, name)

    async def _asked(self, what: Callable[[A], T], of: A) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, what, of)
        except (Hung, Ended) as error:
            raise SimulationError(f"the managers of {self._machine.name}: {error}") from error


@asynccontextmanager
async def oracles(machines: Sequence[SimNode]) -> AsyncIterator[dict[str, Oracle]]:
    """Run the managers of all these nodes during the block, by node name; all are started at once.

    Raise what `tools.clusters.oracle.build.find` raises.
    """
    program = await find()
    with ExitStack() as stack:
        managers = [stack.enter_context(Managers(program, seconds=SECONDS)) for _ in machines]
        # This context ends first: no thread may wait for managers that have been ended.
        threads = stack.enter_context(ThreadPoolExecutor(max_workers=max(1, len(machines))))
        pairs = zip(machines, managers, strict=True)
        made = {machine.name: Oracle(machine, each, threads) for machine, each in pairs}
        await asyncio.gather(*(one.start() for one in made.values()))
        yield made
