"""What axe-core finds on each page, in both colour schemes, and what it cannot find: keys, names, motion."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.async_api import Browser, Page, expect

from tests.system.browser.test_pages import POD
from tools.bench.cluster import many
from tools.clusters.maps import sites
from tools.clusters.maps.browsers import opened
from tools.clusters.maps.clusters import AGENT_NODE

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = (
    "/",
    f"/nodes/{AGENT_NODE}",
    "/nodes/dgx-1",
    "/pods/prod/ranker",
    "/what-if",
    "/nodes/nowhere",
    "/login",
)
SCHEMES = ("light", "dark")
AXE = AXE_FILE_PATH.read_text()


async def violations(page: Page) -> list[str]:
    """Return what axe finds on a page, each with its place."""
    # The policy lets no script in, so it comes by the protocol that drives the browser.
    await page.evaluate(AXE)
    results = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in results["violations"]
        for node in violation["nodes"]
    ]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_page_is_accessible(browser: Browser, site: str, path: str, scheme: str) -> None:
    async with opened(browser, site + path, color_scheme=scheme) as watched:
        for details in await watched.page.locator("details:not([open]) > summary").all():
            await details.click()
        assert await violations(watched.page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_an_answer_is_accessible(browser: Browser, site: str, scheme: str) -> None:
    async with opened(browser, f"{site}/what-if", color_scheme=scheme) as watched:
        await watched.page.get_by_label("Pod or workload").fill(POD)
        await watched.page.get_by_role("button", name="Evaluate").click()
        await expect(watched.page.get_by_text("Results by node")).to_be_visible()
        assert await violations(watched.page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_many_nodes_are_accessible(browser: Browser, crowd: str, scheme: str) -> None:
    async with opened(browser, crowd, color_scheme=scheme) as watched:
        assert await violations(watched.page) == []


async def test_arrow_keys_move_between_tiles(browser: Browser, site: str) -> None:
    async with opened(browser, site) as watched:
        page = watched.page
        names = await page.locator(".tiles a span").all_inner_texts()
        await page.locator(".tiles a").first.focus()

        for key, at in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1), ("Home", 0)):
            await page.keyboard.press(key)
            assert await focused(page) == names[at]
        await page.keyboard.press("ArrowDown")
        below = await focused(page)
        assert below != names[0]
        await page.keyboard.press("ArrowUp")
        assert await focused(page) == names[0]
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text(names[0])


async def test_tab_key_skips_to_the_content_and_shows_its_focus(browser: Browser, site: str) -> None:
    async with opened(browser, site) as watched:
        page = watched.page
        # A class of tiles is one stop.
        stops = await page.evaluate(
            "Array.from(document.querySelectorAll('.tiles'),"
            " (each) => each.querySelectorAll('[tabindex=\"0\"]').length)"
        )
        assert set(stops) == {1}
        await page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        await expect(skip).to_be_focused()
        await expect(skip).to_be_in_viewport()
        for _ in range(12):
            await page.keyboard.press("Tab")
            style, width = await page.evaluate(
                "(({outlineStyle, outlineWidth}) => [outlineStyle, parseFloat(outlineWidth)])"
                "(getComputedStyle(document.activeElement))"
            )
            assert style == "solid"
            assert width >= 2
        await skip.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()


async def test_tiles_have_spoken_names(browser: Browser, site: str, crowd: str) -> None:
    async with opened(browser, site) as watched:
        name = await watched.page.locator(f'.tiles a[href="/nodes/{AGENT_NODE}"]').aria_snapshot()
        assert f'link "{AGENT_NODE}' in name
        assert "zone 1: 30 of 62 free; misaligned" in name
    # Those of small tiles show on focus.
    async with opened(browser, crowd) as watched:
        tile = watched.page.locator(".tiles a").first
        text = await tile.locator("span").text_content()
        assert f'link "{text}' in await tile.aria_snapshot()
        await tile.focus()
        assert await tile.locator("span").evaluate("(span) => getComputedStyle(span).clipPath") == "none"


async def test_reduced_motion_and_print_are_obeyed(browser: Browser, site: str) -> None:
    async with opened(browser, site, reduced_motion="reduce") as watched:
        page = watched.page
        await page.evaluate("document.querySelector('.tiles li').classList.add('changed')")
        first = page.locator(".tiles li a").first
        assert await first.evaluate("(a) => getComputedStyle(a).animationName") == "none"
        await page.emulate_media(media="print")
        await expect(page.locator(".filters")).to_be_hidden()
        await expect(page.locator(".tiles a").first).to_be_visible()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def crowd() -> AsyncIterator[str]:
    async with sites.serving(sites.ShownCluster(many(500, makes=4))) as address:
        yield address


async def focused(page: Page) -> str:
    return str(await page.evaluate("document.activeElement.querySelector('span')?.textContent"))
