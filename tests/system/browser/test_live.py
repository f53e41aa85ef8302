"""What changes in the cluster changes on the page, without anybody reloading it."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tools.clusters.maps import clusters, sites
from tools.clusters.maps.browsers import opened
from tools.clusters.maps.clusters import AGENT_NODE

pytestmark = pytest.mark.asyncio(loop_scope="session")

A_SECOND = 1000
"""Milliseconds after which a change would have been seen."""


@dataclass(frozen=True)
class Changing:
    """A map, and the cluster behind it."""

    cluster: sites.ShownCluster
    address: str


@pytest_asyncio.fixture(loop_scope="session")
async def changing() -> AsyncIterator[Changing]:
    """A map of a cluster of its own."""
    cluster = sites.ShownCluster(clusters.bundled(now=time.time()))
    async with sites.serving(cluster) as address:
        yield Changing(cluster, address)


async def live(page: Page) -> None:
    """Wait until the page follows changes."""
    await expect(page.locator(".live")).to_have_text("live")


async def test_a_tile_follows(browser: Browser, changing: Changing) -> None:
    async with opened(browser, changing.address) as watched:
        page = watched.page
        await live(page)
        address = page.url
        changing.cluster.put(clusters.pod("new", "cpu-1", {"cpu": "62", "mem": "8Gi"}, zone="node-0"))

        title = page.locator('.tiles a[href="/nodes/cpu-1"] title')
        await expect(title).to_have_text("zone 0: 0 of 62, zone 1: 62 of 62 free")
        assert page.url == address
        assert watched.complaints == []


async def test_figures_and_classes_follow(browser: Browser, changing: Changing) -> None:
    async with opened(browser, changing.address) as watched:
        page = watched.page
        await live(page)
        before = await page.locator(".figures dd").nth(1).inner_text()
        changing.cluster.put(clusters.pod("new", "cpu-1", {"cpu": "10", "mem": "8Gi"}, zone="node-0"))

        await expect(page.locator(".figures dd").nth(1)).not_to_have_text(before)
        head = page.locator(".class", has_text="2x64cpu-restricted-pod")
        await expect(head).to_contain_text("114 of 124 cpu free")


async def test_a_tile_that_has_the_focus_keeps_it(browser: Browser, changing: Changing) -> None:
    async with opened(browser, changing.address) as watched:
        page = watched.page
        await live(page)
        tile = page.locator('.tiles a[href="/nodes/cpu-1"]')
        await tile.focus()
        changing.cluster.put(clusters.pod("new", "cpu-1", {"cpu": "10", "mem": "8Gi"}, zone="node-0"))
        await expect(page.locator(".changed")).to_have_count(1)

        await expect(tile).to_be_focused()


async def test_a_node_follows(browser: Browser, changing: Changing) -> None:
    async with opened(browser, f"{changing.address}/nodes/cpu-1") as watched:
        page = watched.page
        await live(page)
        changing.cluster.put(clusters.pod("new", "cpu-1", {"cpu": "10", "mem": "8Gi"}, zone="node-0"))

        await expect(page.get_by_role("link", name="team-a/new")).to_be_visible()


async def test_what_happens_on_other_nodes_reloads_nothing(browser: Browser, changing: Changing) -> None:
    async with opened(browser, f"{changing.address}/nodes/{AGENT_NODE}") as watched:
        await live(watched.page)
        asked = len(watched.asked)
        changing.cluster.put(clusters.pod("new", "cpu-1", {"cpu": "10", "mem": "8Gi"}, zone="node-0"))
        await watched.page.wait_for_timeout(A_SECOND)

        assert len(watched.asked) == asked


async def test_a_tile_that_the_filter_no_longer_shows_goes(browser: Browser, changing: Changing) -> None:
    async with opened(browser, f"{changing.address}/?only=misaligned") as watched:
        page = watched.page
        await live(page)
        await expect(page.locator(".tiles a")).to_have_count(1)
        changing.cluster.remove("prod", "ranker")

        await expect(page.locator(".tiles a")).to_have_count(0)
        await expect(page.get_by_text("No node matches")).to_be_visible()


async def test_what_is_typed_and_open_stays(browser: Browser, changing: Changing) -> None:
    async with opened(browser, f"{changing.address}/nodes/{AGENT_NODE}") as watched:
        page = watched.page
        await live(page)
        await page.get_by_text("Labels and taints").click()
        changing.cluster.put(clusters.pod("new", AGENT_NODE, {"cpu": "2", "mem": "8Gi"}))

        await expect(page.get_by_role("link", name="team-a/new")).to_be_visible()
        await expect(page.get_by_text("rack-b")).to_be_visible()


async def test_a_page_says_when_it_is_not_live_and_comes_back(browser: Browser) -> None:
    cluster = sites.ShownCluster(clusters.bundled(now=time.time()))
    async with AsyncExitStack() as stack:
        async with sites.serving(cluster) as address:
            watched = await stack.enter_async_context(opened(browser, address))
            await live(watched.page)
        await expect(watched.page.locator(".live")).to_have_text("reconnecting")

        another = sites.ShownCluster(
            [*cluster.objects, clusters.pod("new", "cpu-1", {"cpu": "62", "mem": "8Gi"}, zone="node-0")]
        )
        port = int(address.rpartition(":")[2])
        await stack.enter_async_context(sites.serving(another, port=port))
        await live(watched.page)
        title = watched.page.locator('.tiles a[href="/nodes/cpu-1"] title')
        await expect(title).to_have_text("zone 0: 0 of 62, zone 1: 62 of 62 free", timeout=10_000)
