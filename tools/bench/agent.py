"""
Measure the agent's memory and CPU time on a node.

The agent runs at rest, then with pods, then while some of them change every second. Memory is the resident
memory and CPU time the processor time of its process alone. Kubelet and API server are played by this
process: pod resources, checkpoints and the machine are as a real kubelet's on 128 CPUs.
"""

import asyncio
import json
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerMemory,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)
from numalign.kube.decode.machines import machine as read_machine
from tools.bench.calls import Json, processor_seconds
from tools.bench.tables import Measurement, program, row
from tools.clusters.fake_api import FakeApi
from tools.clusters.kubelets import machines
from tools.clusters.podresources import FakePodResources
from tools.clusters.processes import Child, Children
from tools.clusters.processes import program as installed
from tools.clusters.waiting import seconds_until

NODE, GPU = "bench", "example.com/gpu"
PODS = "/api/v1/namespaces/default/pods"
TOPOLOGY = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{NODE}"
CPUS, GIB = 128, 1 << 30
CORES = CPUS // 2
RESERVED = {0, CORES}

MOST_MIB = {"at rest": 40}
MOST_PERCENT = {"at rest": 0.5, "changing": 10}

MACHINE: Json = {
    "zones": [
        {
            "id": zone,
            "socket": zone,
            "cores": [[core, core + CORES] for core in range(32 * zone, 32 * zone + 32)],
            "memory": 256 * GIB,
            "reservedMemory": GIB,
            "distances": [10 if other == zone else 21 for other in (0, 1)],
        }
        for zone in (0, 1)
    ],
    "reservedSystemCPUs": f"0,{CORES}",
    "devices": {GPU: [{"id": f"gpu{zone}{at}", "zones": [zone]} for zone in (0, 1) for at in range(4)]},
}
CONFIGURATION: Json = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "maxPods": 200,
}


@dataclass
class Kubelet:
    """A socket, checkpoints and an API server; `held` are the UIDs and CPUs of pods by name."""

    folder: Path
    api: FakeApi
    resources: FakePodResources
    children: Children
    held: dict[str, tuple[str, int]] = field(default_factory=dict)

    async def start(self) -> Child:
        """Start the agent with the kubelet's configuration from a file; return once it has published."""
        child = await self.children.start(
            installed("numalign-agent"),
            f"--node-name={NODE}",
            f"--podresources-socket={self.folder / 'kubelet.sock'}",
            f"--kubelet-state={self.folder}",
            f"--sysfs={self.folder / 'sys'}",
            f"--kubelet-config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self.api.kubeconfig(self.folder / 'kubeconfig')}",
            "--metrics-port=0",
        )

        async def topology() -> Json | None:
            return self.api.get(TOPOLOGY)

        await seconds_until(topology, bool, what="the agent had published", within=60)
        return child

    def add(self, name: str) -> None:
        """Add a pod that gets the first free CPU and runs at once."""
        busy = {cpu for _, cpu in self.held.values()} | RESERVED
        cpu = next(number for number in range(CPUS) if number not in busy)
        amounts = {"cpu": "1", "memory": "64Mi"}
        container = {"name": "main", "image": "a", "resources": {"requests": amounts, "limits": amounts}}
        stored = self.api.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {"nodeName": NODE, "containers": [container]},
                "status": {"phase": "Running"},
            }
        )
        self.held[name] = stored["metadata"]["uid"], cpu
        self._write()

    def remove(self, name: str) -> None:
        """Remove that pod; its CPU is free at once."""
        self.api.delete(f"{PODS}/{name}")
        del self.held[name]
        self._write()

    def _write(self) -> None:
        """Update the pod resources first, then the checkpoint, in the order of a kubelet."""
        memory = [ContainerMemory(memory_type="memory", size=1 << 26)]
        self.resources.listed = ListPodResourcesResponse(
            pod_resources=[
                PodResources(
                    name=name,
                    namespace="default",
                    containers=[ContainerResources(name="main", cpu_ids=[cpu], memory=memory)],
                )
                for name, (_, cpu) in self.held.items()
            ]
        )
        entries = {uid: {"main": str(cpu)} for uid, cpu in self.held.values()}
        new = self.folder / "cpu_manager_state.new"
        new.write_text(json.dumps({"policyName": "static", "entries": entries}))
        new.replace(self.folder / "cpu_manager_state")

    async def change(self, rate: float, seconds: float) -> None:
        """Remove the oldest pod and add one in turn, at `rate` changes a second."""
        due, number = time.monotonic(), len(self.held)
        for turn in range(2 * round(rate * seconds / 2)):
            if turn % 2:
                self.add(f"pod-{number}")
                number += 1
            else:
                self.remove(next(iter(self.held)))
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))


@asynccontextmanager
async def kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    """Run a node without pods."""
    (folder / "logs").mkdir()
    machines.write(read_machine(MACHINE), folder)
    (folder / "kubelet.json").write_text(json.dumps(CONFIGURATION))
    memory = [ContainerMemory(memory_type="memory", size=255 * GIB) for _ in (0, 1)]
    for zone, block in enumerate(memory):
        block.topology.nodes.add(ID=zone)
    free = [cpu for cpu in range(CPUS) if cpu not in RESERVED]
    resources = FakePodResources(allocatable=AllocatableResourcesResponse(cpu_ids=free, memory=memory))
    children = Children(logs=folder / "logs")
    async with FakeApi() as api, resources.serving(folder / "kubelet.sock"):
        status = {"nodeInfo": {"kubeletVersion": "v1.34.4"}}
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": status})
        try:
            yield Kubelet(folder, api, resources, children)
        finally:
            await children.end()


async def _usage(pid: int, seconds: float) -> tuple[float, float]:
    """Return the resident MiB and the percent of one processor over so many seconds."""
    began, before = time.monotonic(), processor_seconds(pid)
    await asyncio.sleep(seconds)
    return _resident_mib(pid), 100 * (processor_seconds(pid) - before) / (time.monotonic() - began)


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Measure at rest, with pods, and while pods change."""
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        yield asyncio.run(_measure(chosen, Path(folder)))


async def _measure(chosen: Namespace, folder: Path) -> Measurement:
    async with kubelet(folder) as node:
        pid = (await node.start()).process.pid
        # The start is not part of the figures at rest.
        await asyncio.sleep(chosen.settling)
        found = {"at rest": await _usage(pid, chosen.seconds)}
        for number in range(chosen.pods):
            node.add(f"pod-{number}")
        found["pods"] = await _usage(pid, chosen.seconds)
        changing = asyncio.create_task(node.change(chosen.rate, chosen.seconds))
        found["changing"] = await _usage(pid, chosen.seconds)
        await changing
    pods = f"with {chosen.pods} pods"
    titles = {"at rest": "at rest", "pods": pods, "changing": f"{pods}, {chosen.rate:g} changes a second"}
    rows = []
    for key, (mib, percent) in found.items():
        rows.append(row(f"resident, {titles[key]}", mib, "MiB", most=MOST_MIB.get(key)))
        rows.append(row(f"of one processor, {titles[key]}", percent, "%", most=MOST_PERCENT.get(key)))
    return Measurement(
        "The agent on its node",
        rows,
        "On a simulated machine of 128 CPUs, with a simulated kubelet.",
    )


main = program(
    "agent",
    __doc__,
    measure,
    pods=(110, 4, "pods on the node"),
    rate=(10.0, 4.0, "changes of pods per second"),
    seconds=(30.0, 1.0, "duration of each measurement"),
    settling=(5.0, 0.0, "seconds from the start to the measurement at rest"),
)

if __name__ == "__main__":
    sys.exit(main(None))
