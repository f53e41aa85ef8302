"""A headless Chromium as distributions package it, and a page that records its requests and errors.

The browser is the one that CHROMIUM names, or one on PATH. Nothing is downloaded.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from tools.clusters.gotools import UnavailableError

NAMES = ("chromium", "chromium-browser", "google-chrome")

_VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.violatedDirective}: ${event.blockedURI}`);
});
"""


def executable() -> str:
    """Return the path of a Chromium. Raise `UnavailableError` if there is none."""
    for path in (os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)):
        if path:
            return path
    raise UnavailableError(f"none of {', '.join(NAMES)} is on PATH, and CHROMIUM names none")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start a browser without a stored profile."""
    async with async_playwright() as playwright:
        # As root, which tests of kubelets need, it has no sandbox.
        browser = await playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox"], chromium_sandbox=False
        )
        yield browser
        await browser.close()


@dataclass
class WatchedPage:
    """A page, with the addresses that it requested, and the errors and warnings of the browser."""

    page: Page
    requested: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def hosts(self) -> set[str]:
        """Return the hosts of requests, with their ports; data: addresses have none."""
        return {urlsplit(address).netloc for address in self.requested if not address.startswith("data:")}

    async def violations(self) -> list[str]:
        """Return the violations of the content security policy."""
        return list(await self.page.evaluate("window.violations"))

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@asynccontextmanager
async def opened(browser: Browser, address: str, **options: Any) -> AsyncIterator[WatchedPage]:  # noqa: ANN401  of a context
    """Open a page at an address, in a new context; `options` are those of Playwright's contexts."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    await context.add_init_script(_VIOLATIONS)
    context.set_default_timeout(10_000)
    watched = WatchedPage(await context.new_page())
    await watched.page.goto(address)
    try:
        yield watched
    finally:
        await context.close()
