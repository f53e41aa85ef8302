"""Each page in a browser: it loads only from its server, obeys its policy, and has its contents."""

import pytest
from playwright.async_api import Browser, FilePayload, Locator, Page, expect

from tools.clusters.maps.browsers import opened
from tools.clusters.maps.clusters import AGENT_NODE

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = (
    "/",
    "/?resource=memory&only=misaligned",
    f"/nodes/{AGENT_NODE}",
    "/nodes/dgx-1",
    "/pods/prod/ranker",
    "/what-if",
)

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: asked, namespace: lab, annotations: {numalign.io/policy: single-numa-node}}
spec:
  containers:
  - name: main
    resources: {requests: {cpu: 40, memory: 8Gi}, limits: {cpu: 40, memory: 8Gi}}
"""
FILE = FilePayload(name="pod.yaml", mimeType="text/yaml", buffer=POD.encode())


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_loads_nothing_else_and_obeys_its_policy(browser: Browser, site: str, path: str) -> None:
    async with opened(browser, site + path) as watched:
        await watched.page.wait_for_timeout(300)

        assert watched.hosts() == {site.removeprefix("http://")}
        assert await watched.violations() == []
        assert watched.complaints == []
        # Nor is it wider than its window.
        for width in (320, 768, 1920):
            await watched.page.set_viewport_size({"width": width, "height": 800})
            assert await watched.page.evaluate("document.documentElement.scrollWidth") <= width

        await watched.page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')"
        )
        await watched.page.wait_for_function("() => violations.length")
        assert {each.split(":")[0] for each in await watched.violations()} == {"style-src-attr"}


async def test_a_node_has_cores_with_cpus_and_pods(browser: Browser, site: str) -> None:
    async with opened(browser, f"{site}/nodes/{AGENT_NODE}") as watched:
        page = watched.page

        await expect(page.locator(".socket")).to_have_count(2)
        await expect(page.locator(".zone")).to_have_count(2)
        await expect(page.locator(".cpu")).to_have_count(128)
        await expect(page.locator(".cpu.held")).to_have_count(16 + 16 + 16 + 38 + 8)
        await expect(page.locator(".cpu.reserved")).to_have_count(4)
        table = page.get_by_role("table", name="Predicted and observed resources")
        await expect(table.locator("tbody tr")).to_have_count(5)
        await expect(table.get_by_text("misaligned")).to_have_count(1)
        await expect(table.get_by_text("not as predicted")).to_have_count(1)
        await expect(table.get_by_text("9-12,41-44,73-76,105-108")).to_be_visible()


async def test_from_the_fleet_to_a_node_to_a_pod_and_back(browser: Browser, site: str) -> None:
    async with opened(browser, site) as watched:
        page = watched.page
        await page.locator(f'.tiles a[href="/nodes/{AGENT_NODE}"]').click()
        await page.get_by_role("link", name="prod/ranker").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("ranker")
        await expect(page.locator(".answer")).to_contain_text("misaligned")
        await page.get_by_label("You are here").get_by_role("link", name=AGENT_NODE).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(AGENT_NODE)


async def test_what_if_evaluates_every_node(browser: Browser, site: str) -> None:
    async with opened(browser, f"{site}/what-if") as watched:
        page = watched.page
        await page.get_by_label("or a file").set_input_files(FILE)
        await expect(page.get_by_label("Pod or workload")).to_have_value(POD)
        await page.get_by_label("Replicas").fill("5")
        await page.get_by_role("button", name="Evaluate").click()

        fits = _row(page, "cpu-1")
        await expect(fits.locator(".tag")).to_have_text("fits")
        await expect(fits.locator(".chosen")).to_have_count(1)
        await expect(_row(page, "edge-1").locator(".tag")).to_have_text("never")
        await expect(_row(page, "dgx-2").locator(".tag")).to_have_text("not now")
        await expect(page.get_by_text("Replicas that fit")).to_be_visible()


def _row(page: Page, node: str) -> Locator:
    return page.locator("table.nodes tr", has=page.get_by_role("link", name=node))


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
async def test_without_scripts_only_live_updates_are_missing(
    browser: Browser, site: str, *, scripts: bool
) -> None:
    async with opened(browser, site, java_script_enabled=scripts) as watched:
        page = watched.page
        await page.get_by_label("misaligned").check()
        await page.get_by_role("button", name="Filter").click()
        await page.wait_for_url("**/?*only=misaligned*")
        await expect(page.locator(".tiles a")).to_have_count(1)
        await page.get_by_role("link", name="Show all").click()
        await expect(page.locator(".tiles a")).to_have_count(10)
        await page.locator(f'.tiles a[href="/nodes/{AGENT_NODE}"]').click()
        await expect(page.locator(".cpu")).to_have_count(128)

        await page.goto(f"{site}/what-if")
        await page.get_by_label("or a file").set_input_files(FILE)
        await page.get_by_role("button", name="Evaluate").click()
        await expect(page.get_by_text("Results by node")).to_be_visible()
