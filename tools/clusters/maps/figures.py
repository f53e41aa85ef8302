"""Measurements of the map in a browser: bytes, first paint, and how long a change takes to be visible."""

import statistics
import time
from dataclasses import dataclass

from playwright.async_api import Browser, Page

from tools.clusters.maps import clusters, sites
from tools.clusters.maps.browsers import opened

REPEATED = 5
"""How often a page is loaded, or a change made; the median counts."""

_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_CHANGED = """([address, before]) =>
  document.querySelector(`.tiles a[href="${address}"] title`).textContent !== before
"""


@dataclass(frozen=True, slots=True)
class PageFigures:
    """Figures of the fleet page: bytes of HTML, and milliseconds until content is visible, and all of it."""

    nodes: int
    html: int
    first_paint: float
    complete: float


async def page_figures(browser: Browser, address: str, nodes: int) -> PageFigures:
    """Return what a new browser needs to show the fleet; the median of several times."""
    loads = [await _load(browser, address) for _ in range(REPEATED)]
    html, paint, complete = (statistics.median(values) for values in zip(*loads, strict=True))
    return PageFigures(nodes, int(html), paint, complete)


async def _load(browser: Browser, address: str) -> tuple[int, float, float]:
    async with opened(browser, "about:blank") as watched:
        answer = await watched.page.goto(address, wait_until="load")
        assert answer, f"{address} gave no answer"
        html = len(await answer.body())
        await watched.page.wait_for_function(f"() => {_PAINT} !== undefined")
        paint = float(await watched.page.evaluate(_PAINT))
        return html, paint, float(await watched.page.evaluate(_LOADED))


async def update_latency(browser: Browser, cluster: sites.ShownCluster, address: str, node: str) -> float:
    """Return milliseconds from a pod's arrival on a node until its tile shows it, the median of several."""
    async with opened(browser, address) as watched:
        await watched.page.wait_for_selector(".live.on")
        return statistics.median([await _change(watched.page, cluster, node, at) for at in range(REPEATED)])


async def _change(page: Page, cluster: sites.ShownCluster, node: str, at: int) -> float:
    before = await page.locator(f'.tiles a[href="/nodes/{node}"] title').text_content()
    start = time.perf_counter()
    cluster.put(clusters.pod(f"new-{at}", node, {"cpu": "1", "mem": "1Gi"}, zone="node-0"))
    await page.wait_for_function(_CHANGED, arg=[f"/nodes/{node}", before], polling="raf")
    return (time.perf_counter() - start) * 1000
