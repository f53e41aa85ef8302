"""The site of the documents before a real browser: accessible, not too wide, and without other servers."""

import asyncio
import sys
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ViewportSize

from tests.system.browser.test_accessibility import violations
from tests.unit.docs.blocks import ROOT

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

PAGES = ("index", "tutorial", "how-to/install", "reference/metrics", "explanation/failures")
DESKTOP, MOBILE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
LOOKS = [
    pytest.param("light", DESKTOP, id="light-desktop"),
    pytest.param("dark", DESKTOP, id="dark-desktop"),
    pytest.param("light", MOBILE, id="light-mobile"),
]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, made as `make docs` makes it."""
    folder = tmp_path_factory.mktemp("site")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--nitpicky"),
        *("--doctree-dir", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / "html")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return folder / "html"


@pytest.mark.parametrize(("scheme", "viewport"), LOOKS)
async def test_pages_are_accessible_and_load_nothing(
    browser: Browser, documents: Path, scheme: Literal["light", "dark"], viewport: ViewportSize
) -> None:
    async with await browser.new_context(viewport=viewport, color_scheme=scheme) as context:
        requests: list[str] = []
        context.on("request", lambda request: requests.append(request.url))
        for page in PAGES:
            shown = await context.new_page()
            await shown.goto((documents / f"{page}.html").as_uri())
            assert [url for url in requests if not url.startswith((documents.as_uri(), "data:"))] == []
            assert await shown.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
            assert await violations(shown) == []


async def test_search_finds_words(browser: Browser, documents: Path) -> None:
    async with await browser.new_context() as context:
        shown = await context.new_page()
        await shown.goto((documents / "search.html").as_uri() + "?q=kubelet")
        await shown.locator("#search-results li").first.wait_for()
