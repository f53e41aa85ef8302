"""The map as one file, opened from a disk."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from numalign.map.standalone import export
from tests.system.browser.test_accessibility import violations
from tests.unit.map.example_views import ANY, fleet, node_view, tile
from tools.clusters.maps.browsers import opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The address of a file of two nodes, one of them with its boxes."""
    path = tmp_path / "map.html"
    path.write_text("".join(export(fleet([tile("dgx-1"), tile("dgx-2")]), ANY, [node_view(name="dgx-1")])))
    return path.as_uri()


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_file_needs_no_network_and_no_script(browser: Browser, file: str, scripts: bool) -> None:  # noqa: FBT001  a parameter
    async with opened(browser, file, offline=True, java_script_enabled=scripts) as watched:
        page = watched.page
        await expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
        await page.locator(".tiles a").first.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("dgx-1")
        await expect(page.locator(".cpu").first).to_be_visible()
        await page.get_by_label("You are here").get_by_role("link", name="Fleet").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")

        assert watched.asked == [file]
        assert watched.complaints == []


async def test_a_file_obeys_its_policy(browser: Browser, file: str) -> None:
    async with opened(browser, file) as watched:
        assert await watched.violations() == []
        await watched.page.keyboard.press("Tab")
        await watched.page.locator(".tiles a").first.focus()
        await watched.page.keyboard.press("ArrowRight")
        assert await watched.page.evaluate("document.activeElement.textContent") != ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_file_is_accessible(browser: Browser, file: str, scheme: str) -> None:
    async with opened(browser, file, color_scheme=scheme) as watched:
        assert await violations(watched.page) == []
        await watched.page.locator(".tiles a").first.click()
        assert await violations(watched.page) == []
