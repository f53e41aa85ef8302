"""The program as it runs on a node: two stages, an API server, and a kubelet's socket."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from agent.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)
from harness.fake_api import FakeApi, Json
from harness.podresources import FakePodResources
from harness.processes import program
from harness.waiting import until
from numalign.kube.decode import kubelet_reports, nrt
from numalign.kube.decode.kubelet_reports import MACHINE, PLACEMENTS
from numalign.model.intent import PLACEMENT_OBSERVED
from tests.agent.fabricated import write
from tests.agent.test_hardware import TWO_ZONES

HEAVY = {
    "aiohttp",
    "click",
    "cryptography",
    "grpc",
    "kubernetes_asyncio",
    "numpy",
    "pydantic",
    "rich",
    "yaml",
}
TOPOLOGY = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/a"
POD = "/api/v1/namespaces/default/pods/web"


@dataclass
class Beside:
    """A node with one pod, as its kubelet and its API server show it."""

    folder: Path
    api: FakeApi
    fake: FakePodResources

    def flags(self, *more: str) -> list[str]:
        """Those of an agent here."""
        return [
            "--node-name=a",
            f"--podresources-socket={self.folder / 'kubelet.sock'}",
            f"--kubelet-state={self.folder}",
            f"--sysfs={self.folder}",
            f"--kubelet-config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.api.kubeconfig(self.folder / 'kubeconfig')}",
            "--bind=127.0.0.1",
            "--metrics-port=0",
            *more,
        ]

    async def start(self, *more: str) -> asyncio.subprocess.Process:
        """The program, which has not done anything yet."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            program("numalign-agent"), *self.flags(*more), stdout=pipe, stderr=pipe
        )

    def hold(self, cpus: str, *ids: int) -> None:
        """Give the pod these CPUs, and write that down."""
        container = ContainerResources(name="main", cpu_ids=ids)
        pod = PodResources(name="web", namespace="default", containers=[container])
        self.fake.listed = ListPodResourcesResponse(pod_resources=[pod])
        uid = (self.api.get(POD) or {})["metadata"]["uid"]
        state = {"policyName": "static", "entries": {uid: {"main": cpus}}}
        (self.folder / "cpu_manager_state").write_text(json.dumps(state))

    def topology(self) -> Json | None:
        """What is published."""
        return self.api.get(TOPOLOGY)

    def cpus(self) -> list[int]:
        """What pods are told to hold, each as a set of bits."""
        found = self.topology()
        text = found["metadata"]["annotations"][PLACEMENTS] if found else None
        return [each.cpus for each in kubelet_reports.read_placements(text).values()] if text else []


@pytest_asyncio.fixture
async def beside(tmp_path: Path) -> AsyncIterator[Beside]:
    write(TWO_ZONES, tmp_path)
    (tmp_path / "kubelet.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
        "topologyManagerPolicy: restricted\n"
    )
    fake = FakePodResources(allocatable=AllocatableResourcesResponse(cpu_ids=[1, 2, 3, 5, 6, 7]))
    async with FakeApi() as api, fake.serving(tmp_path / "kubelet.sock"):
        info = {"kubeletVersion": "v1.34.4"}
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"nodeInfo": info}})
        api.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"nodeName": "a", "containers": [{"name": "main"}]},
                "status": {"phase": "Running"},
            }
        )
        found = Beside(tmp_path, api, fake)
        found.hold("1-2", 1, 2)
        yield found


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, list[dict[str, Any]]]:
    """Its exit code, what it said on standard output, and its log."""
    out, err = await process.communicate()
    code = await process.wait()
    return code, out.decode(), [json.loads(line) for line in err.decode().splitlines()]


def test_a_daemon_imports_little() -> None:
    code = "import agent.daemon, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own

    assert set(found.stdout.split()) & HEAVY == set()
    assert "agent" in found.stdout.split()


async def test_once_prints_what_it_would_publish_and_writes_nothing(beside: Beside) -> None:
    code, out, log = await ended(await beside.start("--once", "--output=-"))

    assert (code, log) == (0, [])
    topology = json.loads(out)
    assert [zone.name for zone in nrt.topology(topology).zones] == ["node-0", "node-1"]
    read = kubelet_reports.read_machine(topology["metadata"]["annotations"][MACHINE], "a")
    assert (read.version, read.machine.cpus) == ("v1.34.4", 0b11111111)
    assert beside.topology() is None


async def test_once_into_a_file(beside: Beside) -> None:
    code, out, _ = await ended(await beside.start("--once", f"--output={beside.folder / 'out.json'}"))

    assert (code, out) == (0, "")
    assert json.loads((beside.folder / "out.json").read_text())["metadata"]["name"] == "a"


async def test_once_publishes_once(beside: Beside) -> None:
    code, _, _ = await ended(await beside.start("--once"))

    assert code == 0
    assert beside.cpus() == [0b110]
    assert (beside.api.get(POD) or {})["metadata"].get("annotations") is None


async def test_once_fails_where_the_kubelet_cannot_be_seen(beside: Beside) -> None:
    code, out, log = await ended(await beside.start("--once", "--podresources-socket=/nowhere.sock"))

    assert (code, out) == (1, "")
    [line] = log
    assert line["event"] == "node.unseen"


async def test_it_follows_its_kubelet_until_it_is_told_to_end(beside: Beside) -> None:
    process = await beside.start("--annotate-pods")
    await until(beside.cpus)
    beside.hold("5-6", 5, 6)
    await until(lambda: beside.cpus() == [0b1100000])
    await until(lambda: "node-1" in _observed(beside))

    process.send_signal(signal.SIGTERM)
    code, _, log = await ended(process)
    assert code == 0
    assert [line["event"] for line in log] == ["server.listening", "server.stopped"]


def _observed(beside: Beside) -> str:
    annotations = (beside.api.get(POD) or {})["metadata"].get("annotations") or {}
    return str(annotations.get(PLACEMENT_OBSERVED, ""))


async def test_it_tells_of_itself(beside: Beside) -> None:
    process = await beside.start()
    assert process.stderr
    port = json.loads(await process.stderr.readline())["metrics_port"]
    await until(beside.topology)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        async with session.get("/metrics") as answer:
            page = await answer.text()
        async with session.get("/readyz") as answer:
            assert answer.status == 200

    assert 'numalign_agent_writes_total{result="applied"} 1.0' in page
    assert 'program="numalign-agent"' in page
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0


async def test_a_port_that_is_taken_is_told(beside: Beside) -> None:
    port = str(beside.api.port)
    code, _, log = await ended(await beside.start(f"--metrics-port={port}"))

    assert code == 2
    [line] = log
    assert line["event"] == "server.refused"
    assert port in line["mistakes"][0]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--node-name: is needed"),
        (["--node-name=a", "--publish=sometimes"], "expected one of if-absent, always, never"),
        (["--node-name=a", "--annotate-pods", "--output=-"], "keep one of them"),
        (["--node-name=a", "--kubeconfig=/nowhere"], "there is no kubeconfig at /nowhere"),
    ],
)
async def test_settings_that_cannot_be_used_are_told_before_anything_is_done(
    flags: list[str], said: str
) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "NODE_NAME"}
    process = await asyncio.create_subprocess_exec(
        program("numalign-agent"), *flags, stderr=asyncio.subprocess.PIPE, env=environ
    )
    _, err = await process.communicate()

    assert process.returncode == 2
    assert said in err.decode()
