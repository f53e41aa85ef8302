"""Changes of the cluster show on the page without a reload."""

import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.worlds.opt_in import BROWSER
from tools.bench.cluster import many
from tools.clusters.maps import clusters, sites
from tools.clusters.maps.browsers import WatchedPage, opened
from tools.clusters.maps.clusters import AGENT_NODE

pytestmark = pytest.mark.asyncio(loop_scope="session")

A_SECOND = 1000
"""Milliseconds after which a change would show."""

TILE = '.tiles a[href="/nodes/cpu-1"]'
FULL = "zone 0: 0 of 62, zone 1: 62 of 62 free"


def pod(cpu: str = "10") -> dict[str, Any]:
    return clusters.pod("new", "cpu-1", {"cpu": cpu, "mem": "8Gi"}, zone="node-0")


async def live(page: Page) -> None:
    await expect(page.locator(".live")).to_have_text("live")


@asynccontextmanager
async def live_page(
    browser: Browser, path: str = "/"
) -> AsyncIterator[tuple[WatchedPage, sites.ShownCluster]]:
    cluster = sites.ShownCluster(clusters.bundled(now=time.time()))
    async with sites.serving(cluster) as address, opened(browser, address + path) as watched:
        await live(watched.page)
        yield watched, cluster


async def test_a_changed_tile_keeps_its_focus_and_figures_follow(browser: Browser) -> None:
    async with live_page(browser) as (watched, cluster):
        page = watched.page
        address, figure = page.url, page.locator(".figures dd").nth(1)
        before = await figure.inner_text()
        await page.locator(TILE).focus()
        cluster.put(pod("62"))

        await expect(page.locator(f"{TILE} title")).to_have_text(FULL)
        await expect(page.locator(".changed")).to_have_count(1)
        await expect(page.locator(TILE)).to_be_focused()
        await expect(figure).not_to_have_text(before)
        head = page.locator(".class", has_text="2x64cpu-restricted-pod")
        await expect(head).to_contain_text("62 of 124 cpu free")
        assert page.url == address
        assert watched.complaints == []


async def test_a_tile_that_the_filter_excludes_goes(browser: Browser) -> None:
    async with live_page(browser, "/?only=misaligned") as (watched, cluster):
        await expect(watched.page.locator(".tiles a")).to_have_count(1)
        cluster.drop(("prod", "ranker"))
        await expect(watched.page.locator(".tiles a")).to_have_count(0)
        await expect(watched.page.get_by_text("No node matches")).to_be_visible()


async def test_a_node_follows_and_keeps_what_is_open(browser: Browser) -> None:
    async with live_page(browser, f"/nodes/{AGENT_NODE}") as (watched, cluster):
        requests = len(watched.requested)
        # Of another node, which reloads nothing.
        cluster.put(pod())
        await watched.page.wait_for_timeout(A_SECOND)
        assert len(watched.requested) == requests

        await watched.page.get_by_text("Labels and taints").click()
        cluster.put(clusters.pod("second", AGENT_NODE, {"cpu": "2", "mem": "8Gi"}))
        await expect(watched.page.get_by_role("link", name="team-a/second")).to_be_visible()
        await expect(watched.page.get_by_text("rack-b")).to_be_visible()


async def test_a_page_reconnects_to_a_new_server(browser: Browser) -> None:
    cluster = sites.ShownCluster(clusters.bundled(now=time.time()))
    async with AsyncExitStack() as stack:
        async with sites.serving(cluster) as address:
            watched = await stack.enter_async_context(opened(browser, address))
            await live(watched.page)
        await expect(watched.page.locator(".live")).to_have_text("reconnecting")

        another = sites.ShownCluster([*cluster.objects, pod("62")])
        port = int(address.rpartition(":")[2])
        await stack.enter_async_context(sites.serving(another, port=port))
        await live(watched.page)
        await expect(watched.page.locator(f"{TILE} title")).to_have_text(FULL, timeout=10_000)


NODES = 5000
MOST_BYTES = 2 * 10**6
MOST_MILLISECONDS = 5000
"""Of the first paint, and until a change is seen: a second each, where machines have nothing else to do."""

REPEATED = 5
"""How often a page is loaded, or a change made; the median counts."""

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
CHANGED = """([address, before]) =>
  document.querySelector(`.tiles a[href="${address}"] title`).textContent !== before
"""


async def load(browser: Browser, address: str) -> tuple[int, float, float]:
    """Bytes of HTML, and milliseconds until content is visible, and all of it, in a new browser."""
    async with opened(browser, "about:blank") as watched:
        answer = await watched.page.goto(address, wait_until="load")
        assert answer, f"{address} gave no answer"
        await watched.page.wait_for_function(f"() => {PAINT} !== undefined")
        paint, loaded = [float(await watched.page.evaluate(each)) for each in (PAINT, LOADED)]
        return len(await answer.body()), paint, loaded


async def change(page: Page, cluster: sites.ShownCluster, node: str, at: int) -> float:
    """Milliseconds from a pod's arrival on a node until its tile shows it."""
    before = await page.locator(f'.tiles a[href="/nodes/{node}"] title').text_content()
    start = time.perf_counter()
    cluster.put(clusters.pod(f"new-{at}", node, {"cpu": "1", "mem": "1Gi"}, zone="node-0"))
    await page.wait_for_function(CHANGED, arg=[f"/nodes/{node}", before], polling="raf")
    return (time.perf_counter() - start) * 1000


async def test_the_page_is_small_and_fast_and_shows_changes(
    browser: Browser, request: pytest.FixtureRequest
) -> None:
    cluster = sites.ShownCluster(many(NODES))
    async with sites.serving(cluster) as address:
        loads = [await load(browser, address) for _ in range(REPEATED)]
        html, paint, complete = (statistics.median(values) for values in zip(*loads, strict=True))
        async with opened(browser, address) as watched:
            await watched.page.wait_for_selector(".live.on")
            changes = [await change(watched.page, cluster, "node-00001", at) for at in range(REPEATED)]
            seen = statistics.median(changes)
    BROWSER.remark(
        request.config,
        f"{NODES:,} nodes: {html:,.0f} bytes, first paint after {paint:.0f} ms, "
        f"complete after {complete:.0f} ms, a change is seen after {seen:.0f} ms",
    )

    assert html <= MOST_BYTES
    assert paint <= MOST_MILLISECONDS
    assert seen <= MOST_MILLISECONDS
