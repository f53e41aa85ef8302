"""
Screenshots of the map for docs/how-to/map.md: `python -m tools.generate.map_pages`.

A Chromium shows the bundled cluster and 5,000 nodes, which this process serves.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, Page

from tools.bench.map_nodes import many
from tools.clusters.maps import clusters, sites
from tools.clusters.maps.browsers import chromium, opened

DOCS = Path(__file__).parents[2] / "docs"

NODES = 5000

ASKED = """\
apiVersion: v1
kind: Pod
metadata:
  name: trainer
  namespace: team-a
  annotations:
    numalign.io/policy: single-numa-node
spec:
  containers:
  - name: main
    resources:
      requests: {cpu: "24", memory: 64Gi, nvidia.com/gpu: "2"}
      limits: {cpu: "24", memory: 64Gi, nvidia.com/gpu: "2"}
"""


async def _ask(page: Page) -> None:
    """Evaluate replicas of a pod on the what-if page."""
    await page.get_by_label("Pod or workload").fill(ASKED)
    await page.get_by_label("Replicas").fill("8")
    await page.get_by_role("button", name="Evaluate").click()
    await page.locator("#result").evaluate("(heading) => heading.scrollIntoView()")


@dataclass(frozen=True, slots=True)
class Picture:
    """A file below docs, and what it shows: a path of the map, in a colour scheme, after a preparation."""

    name: str
    path: str
    scheme: str = "light"
    height: int = 800
    prepare: Callable[[Page], Awaitable[None]] | None = None


PICTURES = (
    Picture("map-fleet", "/", height=1190),
    Picture("map-node", f"/nodes/{clusters.AGENT_NODE}", height=1180),
    Picture("map-node-dark", f"/nodes/{clusters.AGENT_NODE}", "dark", height=1180),
    Picture("map-pod", "/pods/prod/ranker", height=950),
    Picture("map-what-if", "/what-if", height=1000, prepare=_ask),
)


async def _take(browser: Browser, address: str, picture: Picture) -> None:
    viewport = {"width": 1280, "height": picture.height}
    options = {"color_scheme": picture.scheme, "viewport": viewport}
    async with opened(browser, address + picture.path, **options) as watched:
        if picture.prepare:
            await picture.prepare(watched.page)
        await watched.page.wait_for_timeout(500)
        await watched.page.screenshot(path=DOCS / "images" / f"{picture.name}.png")


async def main() -> None:
    bundled, crowd = sites.ShownCluster(clusters.bundled(now=time.time())), sites.ShownCluster(many(NODES))
    async with chromium() as browser:
        for cluster, pictures in ((bundled, PICTURES), (crowd, (Picture("map-many", "/"),))):
            async with sites.serving(cluster) as address:
                for picture in pictures:
                    await _take(browser, address, picture)


if __name__ == "__main__":
    asyncio.run(main())
