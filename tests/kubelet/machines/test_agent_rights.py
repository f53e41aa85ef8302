"""With nothing but what the chart gives it, an agent sees its kubelet, and no kubelet does anything for it.

The agent runs as it is shipped: with the token of a pod on its node, its roles, and the policies. Kubelets
ask the API server who it is and what it may do.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Patch
from numalign.kube.decode import kubelet_reports
from tests.kubelet.machines.pods import MARKS, container, look_once, machine, remove, send, settled
from tests.worlds.opt_in import KUBELETS
from tools.clusters import agents, builds
from tools.clusters.agents import ACCOUNT, TOPOLOGIES
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask, patch
from tools.clusters.controlplane import audits
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode

pytestmark = MARKS

OWN, OTHER = "own", "other"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/numalign-agent"

CONFIGURATION = {"cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"}


@dataclass(frozen=True)
class Scene:
    """Two nodes, and an agent on the first."""

    cluster: RealCluster
    admin: ApiClient
    token: str
    noted: Path
    folder: Path

    async def agent(self) -> tuple[int, str]:
        kubeconfig = self.cluster.plane.kubeconfig(self.token, self.folder)
        return await look_once(self.cluster.kubelets[OWN], OWN, kubeconfig)

    async def published(self) -> Json:
        topology = (await ask(self.admin, "GET", f"{TOPOLOGIES}/{OWN}")).body
        annotations: Json = topology.get("metadata", {}).get("annotations", {})
        return annotations

    async def answer(self, node: str, method: str, path: str) -> int:
        url = f"{self.cluster.kubelets[node].url}{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, url, ssl=False) as response,
        ):
            return response.status


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=builds.versions(builds.KUBELETS))
async def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    nodes = [RealNode(name=name, machine=machine(), configuration=CONFIGURATION) for name in (OWN, OTHER)]
    noted = tmp_path_factory.mktemp("noted")
    with KUBELETS.or_skipped():
        flags = audits.flags(noted, users=(ACCOUNT,))
        async with (
            started(nodes, version=request.param, flags=flags) as cluster,
            cluster.plane.client("admin") as admin,
        ):
            store = Store(admin)
            await agents.define(store)
            for document in (*agents.objects(), agents.pod("agent", OWN)):
                await store.apply(document)
            token = await agents.token(admin, "agent")
            yield Scene(cluster, admin, token, noted, tmp_path_factory.mktemp("agent"))


async def test_chart_grants_exactly_what_the_agent_uses(scene: Scene) -> None:
    await send(scene.admin, "web", container("main", cpu="2", memory="1Gi"), node=OWN)
    assert await settled(scene.admin, "web") == ("Running", "")
    code, output = await scene.agent()
    annotations = await scene.published()
    await remove(scene.admin, "web")

    assert code == 0, output
    read = kubelet_reports.read_machine(annotations[kubelet_reports.MACHINE], OWN)
    assert (read.machine.cpus, read.configuration.policy) == (0b11111111, "restricted")
    placements = kubelet_reports.read_placements(annotations[kubelet_reports.PLACEMENTS])
    assert sum(each.cpus.bit_count() for each in placements.values()) == 2
    uses = audits.uses(scene.noted, user=ACCOUNT)
    assert {use.code for use in uses} <= {HTTPStatus.OK, HTTPStatus.CREATED}
    assert {(use.verb, use.resource) for use in uses} == {
        ("get", "nodes"),
        ("patch", "noderesourcetopologies"),
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/exec/default/web/main?command=sh&output=1"),
        ("POST", "/run/default/web/main?cmd=sh"),
        ("POST", "/attach/default/web/main?output=1"),
        ("GET", "/containerLogs/default/web/main"),
        ("GET", "/logs/"),
        ("GET", "/metrics"),
        ("GET", "/stats/summary"),
    ],
)
@pytest.mark.parametrize("node", [OWN, OTHER])
async def test_kubelets_forbid_everything_else_to_the_agent(
    scene: Scene, node: str, method: str, path: str
) -> None:
    assert await scene.answer(node, method, path) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("path", ["/configz", "/pods"])
async def test_agent_token_reads_other_kubelets_too(scene: Scene, path: str) -> None:
    """docs/explanation/security.md says so of a stolen token."""
    assert await scene.answer(OTHER, "GET", path) == HTTPStatus.OK


async def test_agent_logs_a_forbidden_configuration(scene: Scene) -> None:
    role = (await ask(scene.admin, "GET", ROLE)).body
    fewer = [rule for rule in role["rules"] if "nodes/configz" not in rule["resources"]]
    await patch(scene.admin, ROLE, {"rules": fewer}, how=Patch.MERGE)
    try:
        code, output = await scene.agent()
        assert code == 1
        assert "node.observation_failed" in output
        assert "the kubelet answered 403" in output
    finally:
        await patch(scene.admin, ROLE, {"rules": role["rules"]}, how=Patch.MERGE)
