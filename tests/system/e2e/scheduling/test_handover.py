"""The lease goes to another scorer while the one that had it lives on, cut off from the API server.

A scheduler keeps its connections. The Service leads new ones to the scorer that has the lease now, and leaves
those that are made where they are.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.system.e2e.placing import SCORER, Cluster, Replica, Running, replica, second_scheduler
from tools.clusters.api_requests import INTENT, gpus
from tools.clusters.processes import Children, free_port, until
from tools.clusters.wires import Wire, wire

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

Start = Callable[[str, int], Awaitable[Replica]]


@dataclass(slots=True)
class Service:
    wire: Wire

    def lead_to(self, scorer: Replica) -> None:
        port = int(scorer.url.rpartition(":")[2])
        self.wire.where = lambda: port


@partial(pytest_asyncio.fixture, loop_scope="session")()
async def service() -> AsyncIterator[Service]:
    async with wire() as leading:
        yield Service(leading)


@partial(pytest_asyncio.fixture, loop_scope="session")()
async def asking(
    children: Children, published: Cluster, service: Service, tmp_path: Path
) -> AsyncIterator[Running]:
    """A scheduler that comes to scorers through the Service."""
    async with second_scheduler(children, published, tmp_path, port=service.wire.port) as running:
        yield running


@pytest.fixture
def start(children: Children, published: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts a scorer by its name, that comes to the API server through a port."""

    def started(name: str, port: int) -> Awaitable[Replica]:
        kubeconfig = published.plane.kubeconfig(SCORER, tmp_path_factory.mktemp(name), port=port)
        return replica(children, kubeconfig, port=free_port(), name=name)

    return started


async def test_scheduler_reconnects_to_the_new_leader(
    published: Cluster, service: Service, asking: Running, start: Start
) -> None:
    async with wire() as uplink:
        uplink.where = lambda: published.plane.port
        old = await start("scorer-old", uplink.port)
        await until(old.ready, what="the first was ready", child=old.child)
        new = await start("scorer-new", published.plane.port)
        service.lead_to(old)
        await published.create("before", scheduler=asking.name, asks=gpus(1), annotations=INTENT)
        await published.until_bound("before")

        uplink.cut()
        await until(new.ready, what="the second was ready", child=new.child)
        service.lead_to(new)
        uplink.mend()
        await published.create("after", scheduler=asking.name, asks=gpus(1), annotations=INTENT)
        await published.until_bound("after")
    await old.child.end()
    await new.child.end()
