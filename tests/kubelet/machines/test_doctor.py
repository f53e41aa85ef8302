"""`kubectl numa doctor` on real kubelets: before any topology is published, and beside agents."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.kubelet.machines.pods import MARKS, look_once, machine
from tests.worlds.opt_in import KUBELETS
from tools.clusters import agents
from tools.clusters.api_objects import Store
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode
from tools.clusters.processes import program, run

pytestmark = MARKS

ALIGNS, DOES_NOT = "aligns", "does-not"
NODES = [
    RealNode(
        name=name,
        machine=machine(),
        configuration={"cpuManagerPolicy": "static", "topologyManagerPolicy": policy},
    )
    for name, policy in ((ALIGNS, "restricted"), (DOES_NOT, "none"))
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[RealCluster]:
    with KUBELETS.or_skipped():
        async with started(NODES) as running:
            yield running


async def test_doctor_finds_missing_topologies_of_real_kubelets(cluster: RealCluster, tmp_path: Path) -> None:
    kubeconfig = cluster.plane.kubeconfig("admin", tmp_path)

    async def doctor() -> tuple[int, dict[str, list[str]]]:
        flags = ("-o", "json", f"--kubeconfig={kubeconfig}")
        code, output = await run(program("kubectl-numa"), "doctor", *flags)
        nodes = json.loads(output[output.index("[\n") :])
        return code, {node["name"]: [finding["finding"] for finding in node["findings"]] for node in nodes}

    missing = ["no-topology"]
    assert await doctor() == (1, {ALIGNS: missing, DOES_NOT: missing})
    async with cluster.plane.client("admin") as admin:
        await agents.define(Store(admin))
    assert await doctor() == (1, {ALIGNS: missing, DOES_NOT: missing})

    steps = {
        ALIGNS: (1, {ALIGNS: [], DOES_NOT: missing}),
        DOES_NOT: (0, {ALIGNS: [], DOES_NOT: ["not-aligned"]}),
    }
    for name, findings in steps.items():
        code, output = await look_once(cluster.kubelets[name], name, kubeconfig)
        assert code == 0, output
        assert await doctor() == findings
