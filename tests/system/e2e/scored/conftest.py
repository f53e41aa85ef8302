"""A control plane of their own for pods that the scorer places: API server and scorers are killed here."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.system.e2e import sites
from tests.system.e2e.own_planes import OwnPlane
from tests.system.e2e.sites import Site
from tools.clusters.processes import Children


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(own_plane: OwnPlane, children: Children) -> AsyncIterator[Site]:
    async with sites.site(children, own_plane, "scored") as running:
        yield running
