"""A node with one pod, a kubelet's socket and an API server, for agents that run as programs."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent import podresources_pb2 as pb
from agent.__main__ import PROGRAM, checked
from agent.options import hand_over
from agent.settings import AgentSettings
from numalign.kube.decode import kubelet_reports
from numalign.kube.decode.kubelet_reports import PLACEMENTS
from numalign.runtime.settings import from_command_line
from tests.unit.agent.fabricated import write
from tests.unit.agent.test_hardware import TWO_ZONES
from tools.clusters.fake_api import FakeApi, Json
from tools.clusters.podresources import FakePodResources
from tools.clusters.processes import program

TOPOLOGY = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/a"
POD = "/api/v1/namespaces/default/pods/web"


@dataclass
class Beside:
    folder: Path
    api: FakeApi
    fake: FakePodResources

    def flags(self, *more: str) -> list[str]:
        return [
            "--node-name=a", "--bind=127.0.0.1", "--metrics-port=0", f"--sysfs={self.folder}",
            f"--podresources-socket={self.folder / 'kubelet.sock'}", f"--kubelet-state={self.folder}",
            f"--kubelet-config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.api.kubeconfig(self.folder / 'kubeconfig')}", *more,
        ]  # fmt: skip

    async def start(self, *more: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            program("numalign-agent"), *self.flags(*more), stdout=PIPE, stderr=PIPE
        )

    async def start_daemon(self, *more: str) -> asyncio.subprocess.Process:
        return await daemon(self.flags(*more))

    def hold(self, cpus: str, *ids: int) -> None:
        container = pb.ContainerResources(name="main", cpu_ids=ids)
        pod = pb.PodResources(name="web", namespace="default", containers=[container])
        self.fake.listed = pb.ListPodResourcesResponse(pod_resources=[pod])
        uid = (self.api.get(POD) or {})["metadata"]["uid"]
        state = {"policyName": "static", "entries": {uid: {"main": cpus}}}
        (self.folder / "cpu_manager_state").write_text(json.dumps(state))

    def topology(self) -> Json | None:
        return self.api.get(TOPOLOGY)

    def cpus(self) -> list[int]:
        found = self.topology()
        text = found["metadata"]["annotations"][PLACEMENTS] if found else None
        return [each.cpus for each in kubelet_reports.read_placements(text).values()] if text else []


async def daemon(flags: Sequence[str]) -> asyncio.subprocess.Process:
    """The second stage, told these flags. The first is most of a start, and always the same."""
    settings = from_command_line(AgentSettings, prog=PROGRAM, argv=flags, environ={})
    descriptor = hand_over(await asyncio.to_thread(checked, settings, {}))
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "agent.daemon", str(descriptor)),
            stdout=PIPE,
            stderr=PIPE,
            pass_fds=[descriptor],
        )
    finally:
        os.close(descriptor)


@asynccontextmanager
async def node(folder: Path) -> AsyncIterator[Beside]:
    write(TWO_ZONES, folder)
    (folder / "kubelet.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
        "topologyManagerPolicy: restricted\n"
    )
    fake = FakePodResources(allocatable=pb.AllocatableResourcesResponse(cpu_ids=[1, 2, 3, 5, 6, 7]))
    async with FakeApi() as api, fake.serving(folder / "kubelet.sock"):
        info = {"kubeletVersion": "v1.34.4"}
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"nodeInfo": info}})
        api.put({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"nodeName": "a", "containers": [{"name": "main"}]}, "status": {"phase": "Running"},
        })  # fmt: skip
        found = Beside(folder, api, fake)
        found.hold("1-2", 1, 2)
        yield found


async def metrics_port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr
    return int(json.loads(await process.stderr.readline())["metrics_port"])
