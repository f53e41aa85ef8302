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
from tests.kubelet.machines.pods import container, remove, send, settled
from tests.worlds.asked_for import KUBELETS
from tools.clusters import agents
from tools.clusters.agents import ACCOUNT, TOPOLOGIES
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask, patch
from tools.clusters.controlplane import audits
from tools.clusters.kubelets.build import versions
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode
from tools.clusters.processes import program, run

pytestmark = [
    pytest.mark.kubelets,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

HERE, THERE = "here", "there"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/numalign-agent"

MACHINE: Json = {
    "zones": [
        {"id": zone, "socket": zone, "cores": [[4 * zone + at] for at in range(4)], "memory": 8 << 30}
        for zone in range(2)
    ],
    "reservedSystemCPUs": "0",
}
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
        """It looks once and publishes: its exit code, and what it said."""
        kubelet = self.cluster.kubelets[HERE]
        return await run(
            program("numalign-agent"),
            *("--once", f"--node-name={HERE}", "--bind=127.0.0.1", "--metrics-port=0"),
            *(f"--node-address={kubelet.address}", f"--kubelet-port={kubelet.port}"),
            *(f"--podresources-socket={kubelet.podresources}", f"--sysfs={kubelet.sysfs}"),
            f"--kubelet-state={kubelet.state}",
            f"--kubeconfig={self.cluster.plane.kubeconfig(self.token, self.folder)}",
        )

    async def published(self) -> Json:
        """The annotations of its topology."""
        found = (await ask(self.admin, "GET", f"{TOPOLOGIES}/{HERE}")).body
        said: Json = found.get("metadata", {}).get("annotations", {})
        return said

    async def asked(self, node: str, method: str, path: str) -> int:
        """What a kubelet answers to the token of the agent."""
        url = f"{self.cluster.kubelets[node].url}{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, url, ssl=False) as answer,
        ):
            return answer.status


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=versions())
async def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    """A cluster of each version."""
    nodes = [RealNode(name=name, machine=MACHINE, configuration=CONFIGURATION) for name in (HERE, THERE)]
    noted = tmp_path_factory.mktemp("noted")
    with KUBELETS.or_skipped():
        flags = audits.flags(noted, users=(ACCOUNT,))
        async with (
            started(nodes, version=request.param, flags=flags) as cluster,
            cluster.plane.client("admin") as admin,
        ):
            store = Store(admin)
            await agents.define(store)
            for document in (*agents.objects(), agents.pod("agent", HERE)):
                await store.apply(document)
            token = await agents.token(admin, "agent")
            yield Scene(cluster, admin, token, noted, tmp_path_factory.mktemp("agent"))


async def test_what_the_chart_gives_is_enough_and_all_of_it_is_used(scene: Scene) -> None:
    await send(scene.admin, "web", container("main", cpu="2", memory="1Gi"), node=HERE)
    assert await settled(scene.admin, "web") == ("Running", "")
    code, said = await scene.agent()
    annotations = await scene.published()
    await remove(scene.admin, "web")

    assert code == 0, said
    read = kubelet_reports.read_machine(annotations[kubelet_reports.MACHINE], HERE)
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
@pytest.mark.parametrize("node", [HERE, THERE])
async def test_no_kubelet_does_anything_else_for_its_token(
    scene: Scene, node: str, method: str, path: str
) -> None:
    assert await scene.asked(node, method, path) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("path", ["/configz", "/pods"])
async def test_roles_know_no_nodes_so_other_kubelets_are_read_too(scene: Scene, path: str) -> None:
    """docs/explanation/security.md says so of a stolen token."""
    assert await scene.asked(THERE, "GET", path) == HTTPStatus.OK


async def test_without_the_right_to_its_configuration_the_agent_says_so(scene: Scene) -> None:
    role = (await ask(scene.admin, "GET", ROLE)).body
    fewer = [rule for rule in role["rules"] if "nodes/configz" not in rule["resources"]]
    await patch(scene.admin, ROLE, {"rules": fewer}, how=Patch.MERGE)
    try:
        code, said = await scene.agent()
        assert code == 1
        assert "node.observation_failed" in said
        assert "the kubelet answered 403" in said
    finally:
        await patch(scene.admin, ROLE, {"rules": role["rules"]}, how=Patch.MERGE)
