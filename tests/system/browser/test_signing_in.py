"""Sign-in with a token: what a browser stores of it, and who sees which names."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.system.browser.test_accessibility import violations
from tests.unit.map.serving import ANN, BOB, EVE, SECRET, TEAM, MapSite
from tools.clusters.maps.browsers import opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded() -> AsyncIterator[str]:
    site = MapSite()
    async with site.serving():
        yield f"http://127.0.0.1:{site.log.of('server.listening')[0]['port']}"


async def sign_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in").click()


async def test_sign_in_opens_the_requested_page(browser: Browser, guarded: str) -> None:
    async with opened(browser, f"{guarded}/nodes/a") as watched:
        page = watched.page
        await sign_in(page, ANN)

        await expect(page).to_have_url(f"{guarded}/nodes/a")
        await expect(page.locator(".who")).to_contain_text("Signed in as ann")
        await expect(page.get_by_role("link", name=f"{SECRET}/hidden-pod")).to_be_visible()
        await expect(page.locator(".live")).to_have_text("live")
        assert await page.evaluate("document.cookie") == ""
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


async def test_names_show_where_pods_may_be_listed(browser: Browser, guarded: str) -> None:
    async with opened(browser, f"{guarded}/nodes/a") as watched:
        await sign_in(watched.page, BOB)
        await expect(watched.page.get_by_role("link", name=f"{TEAM}/shown-pod")).to_be_visible()
        await expect(watched.page.get_by_role("row").get_by_text("a pod", exact=True)).to_have_count(1)
        await expect(watched.page.get_by_text("You may not list pods")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_refused_tokens_have_an_accessible_alert(browser: Browser, guarded: str, scheme: str) -> None:
    async with opened(browser, guarded, color_scheme=scheme) as watched:
        page = watched.page
        assert await violations(page) == []
        for token in ("token.of-nobody", EVE, "<script>window.caught=1</script>"):
            await sign_in(page, token)
            await expect(page.get_by_role("alert")).to_be_visible()
            await expect(page.get_by_label("Token")).to_be_empty()
            assert await page.evaluate("window.caught") is None
        assert await violations(page) == []
