"""
A real Chromium before a map that is served in this process; without one, the last lines of a run say so.

`make browser-test` asks for these tests. They share one browser and the map of one cluster; whoever changes a
cluster has one of its own.
"""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.worlds.opt_in import BROWSER
from tools.clusters.maps import browsers, clusters, sites


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    async def find() -> str:
        return browsers.executable()

    BROWSER.claim(config, items, Path(__file__).parent, find)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests; each page is in a context of its own."""
    async with browsers.chromium() as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site() -> AsyncIterator[str]:
    """The address of a map of the bundled cluster, with a node whose agent tells everything, and pods."""
    async with sites.serving(sites.ShownCluster(clusters.bundled(now=time.time()))) as address:
        yield address
