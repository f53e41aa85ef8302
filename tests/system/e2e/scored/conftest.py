"""A control plane of their own for pods that the scorer places: API server and scorers are killed here."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from certs import authority
from tests.system.e2e import sites
from tests.system.e2e.sites import Site
from tools.clusters.processes import Children


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> AsyncIterator[Site]:
    """Without nodes; each test has its own."""
    place = await sites.place(pytestconfig, tmp_path_factory.mktemp("scored"), pair)
    async with sites.site(children, place) as running:
        yield running
