"""The lease goes to another scorer while the one that had it lives on, cut off from the API server.

A scheduler keeps its connections; the Service leads new ones to the scorer that has the lease now.
"""

from pathlib import Path

import pytest

from tests.system.e2e.placing import SCORER, Cluster, Replica, replica, second_scheduler
from tools.clusters.api_requests import INTENT, gpus
from tools.clusters.processes import Children, free_port, until
from tools.clusters.wires import Wire, wire

NO_DRAIN = {"drain-seconds": "0"}

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


async def test_scheduler_reconnects_to_the_new_leader(
    tidy: Cluster, children: Children, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    async def start(name: str, port: int) -> Replica:
        kubeconfig = tidy.plane.kubeconfig(SCORER, tmp_path_factory.mktemp(name), port=port)
        return await replica(children, kubeconfig, port=free_port(), name=name, pair=None, **NO_DRAIN)

    def lead(service: Wire, scorer: Replica) -> None:
        service.where = lambda: scorer.port

    async with (
        wire() as service,
        wire() as uplink,
        second_scheduler(children, tidy, tmp_path, port=service.port) as asking,
    ):
        uplink.where = lambda: tidy.plane.port
        old = await start("scorer-old", uplink.port)
        await until(old.ready, what="the first was ready", child=old.child)
        new = await start("scorer-new", tidy.plane.port)
        lead(service, old)
        await tidy.create("before", scheduler=asking.name, asks=gpus(1), annotations=INTENT)
        await tidy.until_bound("before")

        uplink.cut()
        await until(new.ready, what="the second was ready", child=new.child)
        lead(service, new)
        uplink.mend()
        await tidy.create("after", scheduler=asking.name, asks=gpus(1), annotations=INTENT)
        await tidy.until_bound("after")
        await old.child.end()
        await new.child.stop()
