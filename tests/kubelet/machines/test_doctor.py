"""What `kubectl numa doctor` says of real kubelets: before anybody tells of them, and beside agents."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.worlds.asked_for import KUBELETS
from tools.clusters import agents
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json
from tools.clusters.kubelets.build import USUAL
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode
from tools.clusters.processes import program, run

pytestmark = [
    pytest.mark.kubelets,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

ALIGNS, DOES_NOT = "aligns", "does-not"
MACHINE: Json = {
    "zones": [
        {"id": zone, "socket": zone, "cores": [[4 * zone + at] for at in range(4)], "memory": 8 << 30}
        for zone in range(2)
    ],
    "reservedSystemCPUs": "0",
}
NODES = [
    RealNode(
        name=name,
        machine=MACHINE,
        configuration={"cpuManagerPolicy": "static", "topologyManagerPolicy": policy},
    )
    for name, policy in ((ALIGNS, "restricted"), (DOES_NOT, "none"))
]


@dataclass(frozen=True)
class Watched:
    """A cluster, and who looks at it."""

    cluster: RealCluster
    kubeconfig: Path

    async def doctor(self) -> tuple[int, dict[str, list[str]]]:
        """The exit code, and what was found on each node."""
        flags = ("-o", "json", f"--kubeconfig={self.kubeconfig}")
        code, said = await run(program("kubectl-numa"), "doctor", *flags)
        listed = json.loads(said[said.index("[\n") :])
        return code, {node["name"]: [each["finding"] for each in node["findings"]] for node in listed}

    async def look(self, name: str) -> None:
        """An agent looks at a node once, and publishes."""
        kubelet = self.cluster.kubelets[name]
        code, said = await run(
            program("numalign-agent"),
            *("--once", f"--node-name={name}", "--bind=127.0.0.1", "--metrics-port=0"),
            *(f"--node-address={kubelet.address}", f"--kubelet-port={kubelet.port}"),
            *(f"--podresources-socket={kubelet.podresources}", f"--sysfs={kubelet.sysfs}"),
            *(f"--kubelet-state={kubelet.state}", f"--kubeconfig={self.kubeconfig}"),
        )
        assert code == 0, said


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    """Two nodes of which nobody tells."""
    with KUBELETS.or_skipped():
        async with started(NODES, version=USUAL) as cluster:
            yield Watched(cluster, cluster.plane.kubeconfig("admin", tmp_path_factory.mktemp("admin")))


async def test_what_is_missing_is_what_agents_bring(watched: Watched) -> None:
    nothing = ["no-topology"]
    assert await watched.doctor() == (1, {ALIGNS: nothing, DOES_NOT: nothing})

    async with watched.cluster.plane.client("admin") as admin:
        await agents.define(Store(admin))
    assert await watched.doctor() == (1, {ALIGNS: nothing, DOES_NOT: nothing})

    await watched.look(ALIGNS)
    assert await watched.doctor() == (1, {ALIGNS: [], DOES_NOT: nothing})

    await watched.look(DOES_NOT)
    assert await watched.doctor() == (0, {ALIGNS: [], DOES_NOT: ["not-aligned"]})
