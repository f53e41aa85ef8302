"""What tests of the controller share: a loop that runs second by second, as far as a test lets it."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from controller.node_classes import NodeClasses
from numalign.model.node import Node, node_class
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog


@dataclass
class Steps:
    """Runs a loop on a clock that it turns itself as it sleeps.

    It `leads`, but only the first `leads_for` times that it is asked.
    """

    told: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    clock: Clock = field(default_factory=lambda: Clock(1e6))
    leads: bool = True
    leads_for: float = math.inf

    def __post_init__(self) -> None:
        self._until = 0.0
        self._enough, self._more = asyncio.Event(), asyncio.Event()

    def leading(self) -> bool:
        """What the election says."""
        self.leads_for -= 1
        return self.leads and self.leads_for >= 0

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


def seen(labels: Mapping[str, str | None], **nodes: Node) -> NodeClasses:
    """These labels, and the classes of these topologies."""
    return NodeClasses(labels, {name: node_class(made) for name, made in nodes.items()})
