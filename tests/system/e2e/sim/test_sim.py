"""Simulated nodes at a real API server, with the kubelet's own managers behind them."""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from numalign.kube.client import Api
from tests.system.bindings import binding
from tools.clusters.controlplane.planes import Plane
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.desk import TOPOLOGIES, delete
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]

# The first test may have to build the managers.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[4]
PODS = "/api/v1/namespaces/default/pods"
GPU = "nvidia.com/gpu"
ALIGNED = "Pod was rejected: Resources cannot be allocated with Topology locality"


def container(name: str, *, guaranteed: bool = True, **amounts: str) -> Json:
    asked = {"memory": "1Gi", **{_NAMES.get(key, key): amount for key, amount in amounts.items()}}
    limits = {"limits": asked} if guaranteed else {}
    return {"name": name, "image": "registry.example/a", "resources": {"requests": asked, **limits}}


_NAMES = {"gpu": GPU}


async def send(api: Api, name: str, *containers: Json, node: str, **spec: object) -> None:
    metadata = {"name": name}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    await api.create(PODS, {**pod, "spec": {"containers": [*containers], **spec}}, what=name)
    await api.create(f"{PODS}/{name}/binding", binding(name, node), what=name)


async def read(api: Api, path: str) -> Any:  # noqa: ANN401  whatever stands there
    return await api.get(path, what=path)


async def status(api: Api, name: str) -> Json:
    found: Json = (await read(api, f"{PODS}/{name}"))["status"]
    return found


async def left(api: Api, node: str, resource: str = "cpu") -> list[str]:
    topology = await read(api, f"{TOPOLOGIES}/{node}")
    return [
        one["available"] for zone in topology["zones"] for one in zone["resources"] if one["name"] == resource
    ]


async def attributes(api: Api, node: str) -> Mapping[str, str]:
    topology = await read(api, f"{TOPOLOGIES}/{node}")
    return {one["name"]: one["value"] for one in topology["attributes"]}


async def test_of_pods_of_3_3_and_2_cpus_two_zones_of_4_run_two(server: Api) -> None:
    async with simulated(server, [SimNode("two", "small")]) as cluster:
        assert await left(server, "two") == ["4", "4"]
        for name, cpus in (("two-a", 3), ("two-b", 3), ("two-c", 2)):
            await send(server, name, container("c", cpu=str(cpus)), node="two")
            await cluster.idle()
        phases = [(await status(server, f"two-{name}"))["phase"] for name in "abc"]
        assert phases == ["Running", "Running", "Failed"]
        refused = await status(server, "two-c")
        assert (refused["reason"], refused["message"]) == ("TopologyAffinityError", ALIGNED)
        assert [one.pod for one in cluster.rejections] == ["default/two-c"]
        assert cluster.held("two")["default/two-b"][1,]["cpu"] == 3000
        assert await left(server, "two") == ["1", "1"]


@pytest.mark.parametrize("grace", [0, 30], ids=["at once", "gently"])
async def test_a_deleted_pod_makes_room_for_the_next(server: Api, grace: int) -> None:
    node = f"room-{grace}"
    async with simulated(server, [SimNode(node, "small")]) as cluster:
        for name in "ab":
            await send(server, f"{node}-{name}", container("c", cpu="4"), node=node)
        await cluster.idle()
        await delete(server, f"{PODS}/{node}-a", {"gracePeriodSeconds": grace})
        await cluster.idle()
        assert await left(server, node) == ["4", "0"]
        await send(server, f"{node}-c", container("c", cpu="4"), node=node)
        await cluster.idle()
        assert cluster.rejections == []
        assert cluster.held(node).keys() == {f"default/{node}-b", f"default/{node}-c"}


async def test_shapes_and_policies_decide_over_the_same_pod(server: Api) -> None:
    machines = [
        SimNode("shape-single", "two-by-four"),
        SimNode("shape-effort", "eight-zones", policy="best-effort"),
        SimNode("shape-limited", "eight-zones", policy="restricted"),
    ]
    async with simulated(server, machines) as cluster:
        for machine in machines:
            asked = container("c", cpu="8", gpu="2")
            await send(server, machine.name, asked, node=machine.name)
        await cluster.idle()
        assert [one.node for one in cluster.rejections] == ["shape-limited"]
        assert await left(server, "shape-single", GPU) == ["2", "4"]
        assert sorted(await left(server, "shape-effort", GPU)) == ["0"] * 2 + ["1"] * 6
        assert cluster.largest_slot(GPU) == 4


async def test_what_a_pod_holds_is_written_to_it(server: Api) -> None:
    async with simulated(server, [SimNode("seen", "two-by-four")], observe=True) as cluster:
        await send(server, "seen-a", container("c", cpu="8", gpu="3"), node="seen")
        await cluster.idle()
        pod = await read(server, f"{PODS}/seen-a")
        assert json.loads(pod["metadata"]["annotations"]["numalign.io/placement-observed"]) == [
            {"zones": ["node-0"], "amount": {"cpu": "8", "memory": str(2**30), GPU: "3"}}
        ]


async def test_nodes_outlive_the_api_server(server: Api, plane: Plane) -> None:
    async with simulated(server, [SimNode("firm", "small")]) as cluster:
        await send(server, "firm-a", container("c", cpu="4"), node="firm")
        await cluster.idle()
        await plane.kill()
        await plane.serve()
        await send(server, "firm-b", container("c", cpu="4"), node="firm")
        await send(server, "firm-c", container("c", cpu="4"), node="firm")
        await cluster.idle()
        assert cluster.held("firm").keys() == {"default/firm-a", "default/firm-b"}
        assert await left(server, "firm") == ["0", "0"]


async def test_program_prints_decisions_until_interrupted(server: Api, plane: Plane, tmp_path: Path) -> None:
    kubeconfig = plane.kubeconfig("admin", tmp_path)
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
    await send(server, "large", container("c", cpu="5"), node="small-00")
    line = await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert line.startswith(b"small-00: default/large REJECTED TopologyAffinityError: ")
    assert await process.wait() == 0
