"""The map over HTTP: who is shown what, and what becomes of everything else that anybody can send."""

import pytest

from tests.map.serving import ANN, SECRET, TEAM, MapHouse

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: asked, namespace: team, annotations: {numalign.io/policy: single-numa-node}}
spec:
  containers:
  - name: main
    resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}
"""

PAGES = ("/", "/?resource=memory", "/tiles?name=a&name=b", "/nodes/a", "/nodes/b", "/what-if")
PODS = (f"/pods/{TEAM}/shown-pod", f"/pods/{SECRET}/hidden-pod")


@pytest.fixture
def house() -> MapHouse:
    return MapHouse()


@pytest.mark.parametrize("path", [*PAGES, *PODS])
async def test_whoever_may_see_everything_sees_every_page(house: MapHouse, path: str) -> None:
    async with house.serving() as browser:
        seen = await browser.get(path, ANN)

    assert (seen.status, bool(seen.text)) == (200, True)
