"""Simulated nodes at a real API server, with the kubelet's own managers behind them."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.system.e2e.guarded import binding
from tests.system.e2e.sites import PODS, Site
from tests.system.e2e.sites import pod as pod_of
from tools.clusters.api_requests import ask
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.sim.shapes import SimNode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[4]


async def send(site: Site, name: str, *, node: str, cpu: int, gpu: int = 0) -> None:
    await site.create(pod_of(name, cpu=cpu, gpu=gpu, schedulerName="nobody"))
    answer = await ask(site.api, "POST", f"{PODS}/{name}/binding", binding(name, node))
    assert answer.code == 201, answer


async def left(site: Site, node: str) -> list[str]:
    zones = (await ask(site.api, "GET", f"{TOPOLOGIES}/{node}")).body["zones"]
    return [one["available"] for zone in zones for one in zone["resources"] if one["name"] == "cpu"]


async def test_simulated_node_admits_and_refuses_as_a_kubelet(site: Site) -> None:
    async with site.nodes(SimNode("two", "small")) as cluster:
        assert await left(site, "two") == ["4", "4"]
        for name, cpus in (("two-a", 3), ("two-b", 3), ("two-c", 2)):
            await send(site, name, cpu=cpus, node="two")
            await cluster.idle()
        statuses = [(await site.pods())[f"two-{name}"]["status"] for name in "abc"]
        assert [each["phase"] for each in statuses] == ["Running", "Running", "Failed"]
        assert (statuses[2]["reason"], statuses[2]["message"]) == (
            "TopologyAffinityError",
            "Pod was rejected: Resources cannot be allocated with Topology locality",
        )
        assert [one.pod for one in cluster.rejections] == ["default/two-c"]
        assert cluster.held("two")["default/two-b"][1,]["cpu"] == 3000
        assert await left(site, "two") == ["1", "1"]


@pytest.mark.parametrize("grace", [0, 30], ids=["at once", "gently"])
async def test_a_deleted_pod_makes_room_for_the_next(site: Site, grace: int) -> None:
    node = f"room-{grace}"
    async with site.nodes(SimNode(node, "small")) as cluster:
        for name in "ab":
            await send(site, f"{node}-{name}", cpu=4, node=node)
        await cluster.idle()
        await site.server.delete(f"{PODS}/{node}-a", {"gracePeriodSeconds": grace}, what="pod")
        await cluster.idle()
        assert await left(site, node) == ["4", "0"]
        await send(site, f"{node}-c", cpu=4, node=node)
        await cluster.idle()
        assert cluster.rejections == []
        assert cluster.held(node).keys() == {f"default/{node}-b", f"default/{node}-c"}


async def test_simulated_nodes_outlive_the_api_server(site: Site) -> None:
    async with site.nodes(SimNode("firm", "two-by-four")) as cluster:
        await send(site, "firm-a", cpu=8, gpu=3, node="firm")
        await cluster.idle()
        await site.plane.kill()
        await site.plane.serve()
        await send(site, "firm-b", cpu=4, gpu=4, node="firm")
        await send(site, "firm-c", cpu=4, gpu=2, node="firm")
        await cluster.idle()
        assert cluster.held("firm").keys() == {"default/firm-a", "default/firm-b"}


async def test_program_prints_decisions_until_interrupted(site: Site, tmp_path: Path) -> None:
    kubeconfig = site.plane.kubeconfig("admin", tmp_path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.clusters.sim", "--shape=small=1", f"--kubeconfig={kubeconfig}"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    output = b""
    while b"Ctrl-C" not in output:
        output += (line := await process.stdout.readline())
        assert line
    await send(site, "large", cpu=5, node="small-00")
    line = await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert line.startswith(b"small-00: default/large REJECTED TopologyAffinityError: ")
    assert await process.wait() == 0
    await site.clear([SimNode("small-00", "small")])
