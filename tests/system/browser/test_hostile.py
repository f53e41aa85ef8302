"""Names and texts that try to be markup are text, on every page and in the file."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from numalign.map.standalone import export, fleet_svg
from tests.system.browser.test_accessibility import violations
from tests.unit.map.example_views import ANY, HOSTILE, fleet, node_view, pod, tile
from tests.worlds.objects import node, nrt
from tools.clusters.maps import clusters, sites
from tools.clusters.maps.browsers import WatchedPage, opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


def hostile_cluster() -> list[dict[str, Any]]:
    """A node of each name, as a file may have them, and another one with pods that have each text."""
    names = [each for name in HOSTILE for each in (node(name, x=name[:63]), nrt(name, "node-0", "node-1"))]
    pods = [clusters.pod(f"pod-{at}", "plain", {"cpu": "1", "mem": "1Gi"}) for at in range(len(HOSTILE))]
    for pod_object, text in zip(pods, HOSTILE, strict=True):
        annotations = dict.fromkeys(("numalign.io/placement", "numalign.io/aligned-why", text), text)
        pod_object["metadata"]["annotations"] |= annotations
        pod_object["metadata"]["ownerReferences"] = [
            {"apiVersion": text, "kind": text, "name": text, "uid": text, "controller": True}
        ]
        pod_object["spec"] |= {"schedulerName": text, "schedulingGates": [{"name": text}]}
        pod_object["spec"]["containers"][0]["name"] = text
        pod_object["status"] |= {"reason": text, "message": text}
    labels = {f"x-{at}": text for at, text in enumerate(HOSTILE)}
    return [*names, node("plain", **labels), nrt("plain", "node-0", "node-1", cpu=64), *pods]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hostile() -> AsyncIterator[str]:
    async with sites.serving(sites.ShownCluster(hostile_cluster())) as address:
        yield address


async def harmless(watched: WatchedPage) -> None:
    """Check that no script ran, nothing was loaded, and the policy was not violated."""
    assert await watched.page.evaluate("window.caught") is None
    assert await watched.violations() == []
    assert watched.complaints == []
    assert len(watched.hosts()) <= 1


async def test_names_in_the_fleet_and_on_node_pages_are_text(browser: Browser, hostile: str) -> None:
    async with opened(browser, hostile) as watched:
        names = await watched.page.locator(".tiles a span").all_text_contents()
        assert set(HOSTILE) <= set(names)
        await harmless(watched)
        for at in range(len(HOSTILE)):
            await watched.page.locator(".tiles a").nth(at).click()
            heading = await watched.page.get_by_role("heading", level=1).text_content()
            assert heading in {*HOSTILE, "plain", "Not Found"}
            assert await watched.page.evaluate("window.caught") is None
            assert await watched.violations() == []
            await watched.page.go_back()


async def test_texts_of_a_node_and_of_pods_are_text(browser: Browser, hostile: str) -> None:
    async with opened(browser, f"{hostile}/nodes/plain") as watched:
        await watched.page.get_by_text("Labels and taints").click()
        text = await watched.page.locator("main").text_content() or ""
        assert [each for each in HOSTILE if each not in text] == []
        await harmless(watched)
        for at, each in enumerate(HOSTILE):
            await watched.page.goto(f"{hostile}/pods/team-a/pod-{at}")
            assert each in (await watched.page.locator("main").text_content() or "")
            await harmless(watched)


async def test_a_pasted_text_comes_back_as_text(browser: Browser, hostile: str) -> None:
    async with opened(browser, f"{hostile}/what-if") as watched:
        field = watched.page.get_by_label("Pod or workload")
        for name in HOSTILE:
            await field.fill(name)
            await watched.page.get_by_role("button", name="Evaluate").click()
            await watched.page.wait_for_load_state()
            await expect(field).to_have_value(name)
            assert await watched.page.evaluate("window.caught") is None
            assert await watched.violations() == []


async def test_a_long_name_makes_no_page_wide(browser: Browser, hostile: str) -> None:
    longest = max(HOSTILE, key=len)
    for path in ("/", f"/nodes/{longest}"):
        async with opened(browser, hostile + path, viewport={"width": 320, "height": 600}) as watched:
            assert await watched.page.evaluate("document.documentElement.scrollWidth") <= 320


async def test_names_in_a_file_and_in_a_drawing_are_text(browser: Browser, tmp_path: Path) -> None:
    views = [node_view([pod(0, name, name)], name) for name in HOSTILE]
    path = tmp_path / "map.html"
    path.write_text("".join(export(fleet([tile(name) for name in HOSTILE]), ANY, views)))
    async with opened(browser, path.as_uri()) as watched:
        for at in range(len(HOSTILE)):
            await watched.page.locator("#fleet .tiles a").nth(at).click()
            await expect(watched.page.get_by_role("heading", level=1)).to_have_text(HOSTILE[at])
            await harmless(watched)
            await watched.page.goto(f"{path.as_uri()}#fleet")
    drawing = tmp_path / "map.svg"
    drawing.write_text("".join(fleet_svg(fleet([tile(name) for name in HOSTILE]), ANY)))
    async with opened(browser, drawing.as_uri()) as watched:
        await harmless(watched)


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

        assert watched.requested == [file]
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
