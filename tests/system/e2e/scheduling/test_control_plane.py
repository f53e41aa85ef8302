"""The scorer with a certificate, asked by the control plane's own scheduler with what is shipped for it."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from certs import authority
from numalign.model.intent import PLACEMENT
from tests.system.e2e.placing import Cluster, Replica, Running, replica
from tools.clusters.api_requests import INTENT, gpus
from tools.clusters.processes import Children, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

RESERVE_AT = {"bind": "bind", "rank": "prioritize"}
"""When the scorer is to reserve zones, by the configuration of the scheduler."""

each_configuration = pytest.mark.parametrize("own", RESERVE_AT, indirect=True, scope="module")


@partial(pytest_asyncio.fixture, scope="module", loop_scope="session")()
async def scorer(
    children: Children, kubeconfig: Path, own: Running, trusted: authority.Files
) -> AsyncIterator[Replica]:
    reserve_at = RESERVE_AT[own.configuration]
    flags = {"reserve-at": reserve_at, "drain-seconds": "0"}
    running = await replica(
        children, kubeconfig, port=own.port, name=f"scorer-{reserve_at}", pair=trusted, **flags
    )
    await until(running.ready, what="the scorer was ready", child=running.child)
    yield running
    # It gives its lease back, so that the next need not wait until it has grown old.
    assert await running.child.stop() == 0


@each_configuration
async def test_pod_is_placed_and_recorded_in_its_zone(tidy: Cluster, own: Running, scorer: Replica) -> None:
    assert scorer.child.running()
    await tidy.create("aligned", scheduler=own.name, asks=gpus(3), annotations=INTENT)
    seen = await tidy.until_bound("aligned")
    assert (PLACEMENT in seen["metadata"]["annotations"]) == (own.configuration == "bind")
