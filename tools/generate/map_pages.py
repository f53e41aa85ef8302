"""
Screenshots of the map for docs/how-to/map.md: `python -m tools.generate.map_pages`.

A Chromium shows the bundled cluster and 5,000 nodes, which this process serves.
"""

import asyncio
import time
from pathlib import Path

from playwright.async_api import Browser

from tools.bench.cluster import many
from tools.clusters.maps import clusters, sites
from tools.clusters.maps.browsers import chromium, opened

IMAGES = Path(__file__).parents[2] / "docs" / "images"

NODES = 5000

POD = """\
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


PICTURES = {
    "map-fleet": ("/", 1190),
    "map-node": (f"/nodes/{clusters.AGENT_NODE}", 1180),
    "map-node-dark": (f"/nodes/{clusters.AGENT_NODE}", 1180),
    "map-pod": ("/pods/prod/ranker", 950),
    "map-what-if": ("/what-if", 1000),
}
"""Of each image the path of the map, and its height."""


async def _take(browser: Browser, address: str, name: str, path: str, height: int) -> None:
    scheme = "dark" if name.endswith("-dark") else "light"
    viewport = {"width": 1280, "height": height}
    async with opened(browser, address + path, color_scheme=scheme, viewport=viewport) as watched:
        page = watched.page
        if path == "/what-if":
            await page.get_by_label("Pod or workload").fill(POD)
            await page.get_by_label("Replicas").fill("8")
            await page.get_by_role("button", name="Evaluate").click()
            await page.locator("#result").evaluate("(heading) => heading.scrollIntoView()")
        await page.wait_for_timeout(500)
        await page.screenshot(path=IMAGES / f"{name}.png")


async def main() -> None:
    bundled, crowd = sites.ShownCluster(clusters.bundled(now=time.time())), sites.ShownCluster(many(NODES))
    async with chromium() as browser:
        for cluster, pictures in ((bundled, PICTURES), (crowd, {"map-many": ("/", 800)})):
            async with sites.serving(cluster) as address:
                for name, (path, height) in pictures.items():
                    await _take(browser, address, name, path, height)


if __name__ == "__main__":
    asyncio.run(main())
