"""Five thousand nodes: what has to be sent, when there is something to see, and when a change is."""

import pytest
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


async def test_the_page_is_small_and_fast_and_shows_changes(
    browser: Browser, request: pytest.FixtureRequest
) -> None:
    cluster = sites.ShownCluster(many(NODES))
    async with sites.serving(cluster) as address:
        figures = await page_figures(browser, address, NODES)
        milliseconds = await update_latency(browser, cluster, address, "node-00001")
    BROWSER.remark(
        request.config,
        f"{figures.nodes:,} nodes: {figures.html:,} bytes, first paint after {figures.first_paint:.0f} ms, "
        f"complete after {figures.complete:.0f} ms, a change is seen after {milliseconds:.0f} ms",
    )

    assert figures.html <= MOST_BYTES
    assert figures.first_paint <= MOST_MILLISECONDS
    assert milliseconds <= MOST_MILLISECONDS
