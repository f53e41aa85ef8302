"""A replica of the controller, whose loop runs second by second."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from controller.node_classes import NodeClasses
from numalign.model.node import Node, node_class
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog


@dataclass
class Replica:
    """Its clock, log and metrics. It `leads`, but only for the first `leads_for` calls of `leading`."""

    log: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    clock: Clock = field(default_factory=lambda: Clock(1e6))
    leads: bool = True
    leads_for: float = math.inf

    def __post_init__(self) -> None:
        self._until = 0.0
        self._enough, self._more = asyncio.Event(), asyncio.Event()

    def leading(self) -> bool:
        self.leads_for -= 1
        return self.leads and self.leads_for >= 0

    def parts(self, registry: CollectorRegistry | None = None) -> dict[str, Any]:
        """What every loop of the controller needs; a second one needs a registry of its own."""
        made: dict[str, Any] = {"leading": self.leading, "log": self.log.log, "clock": self.clock}
        return {**made, "sleep": self.sleep, "registry": registry or self.registry}

    @contextmanager
    def running(self, loop: Callable[[], Coroutine[object, object, None]]) -> Iterator[None]:
        """The loop runs inside the `with`, as far as `pass_by` lets it."""
        task = asyncio.ensure_future(loop())
        try:
            yield
        finally:
            task.cancel()

    async def pass_by(self, seconds: float) -> None:
        """Let the loop go on for so long."""
        self._until = self.clock.seconds + seconds
        self._more.set()
        self._enough.clear()
        await asyncio.wait_for(self._enough.wait(), 10)

    async def sleep(self, seconds: float) -> None:
        """Time passes; at the end of what was allowed, the loop waits."""
        self.clock.seconds += seconds
        if self.clock.seconds >= self._until:
            self._more.clear()
            self._enough.set()
        await self._more.wait()

    def count(self, metric: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"numalign_{metric}", labels) or 0


def classes_of(labels: Mapping[str, str | None], **nodes: Node) -> NodeClasses:
    """These labels, and the classes of these topologies."""
    return NodeClasses(labels, {name: node_class(made) for name, made in nodes.items()})
