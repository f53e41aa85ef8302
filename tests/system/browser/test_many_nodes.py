"""Five thousand nodes: what has to be sent, when there is something to see, and when a change is."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.worlds.asked_for import BROWSER
from tools.bench.map_nodes import many
from tools.clusters.maps import sites
from tools.clusters.maps.figures import page_figures, update_latency

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODES = 5000
MOST_BYTES = 2 * 10**6
MOST_MILLISECONDS = 5000
"""Of the first paint, and until a change is seen: a second each, where machines have nothing else to do."""


@dataclass(frozen=True)
class Large:
    cluster: sites.ShownCluster
    address: str


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def large() -> AsyncIterator[Large]:
    """A map of five thousand nodes, which has been looked at once."""
    cluster = sites.ShownCluster(many(NODES))
    async with sites.serving(cluster) as address:
        yield Large(cluster, address)


async def test_the_page_is_small_and_fast(
    browser: Browser, large: Large, request: pytest.FixtureRequest
) -> None:
    figures = await page_figures(browser, large.address, NODES)
    BROWSER.remark(
        request.config,
        f"{figures.nodes:,} nodes: {figures.html:,} bytes, first paint after {figures.first_paint:.0f} ms, "
        f"complete after {figures.complete:.0f} ms",
    )

    assert figures.html <= MOST_BYTES
    assert figures.first_paint <= MOST_MILLISECONDS


async def test_a_change_shows_within_a_second(
    browser: Browser, large: Large, request: pytest.FixtureRequest
) -> None:
    milliseconds = await update_latency(browser, large.cluster, large.address, "node-00001")
    BROWSER.remark(request.config, f"{NODES:,} nodes: a change is seen after {milliseconds:.0f} ms")

    assert milliseconds <= MOST_MILLISECONDS
