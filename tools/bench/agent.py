"""
Measure the agent's memory and CPU time on a node.

The agent runs at rest, then with pods, then while some of them change every second. Memory is the resident
memory and CPU time the processor time of its process alone. Kubelet and API server are played by this
process: pod resources, checkpoints and the machine are as a real kubelet's on 128 CPUs.
"""

import asyncio
import json
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from resource import getpagesize

from agent import podresources_pb2 as pb
from numalign.kube.decode.machines import machine as read_machine
from tools.bench.calls import processor_seconds
from tools.bench.site import at_site
from tools.bench.tables import Measurement, Row, program, row
from tools.clusters.fake_api import FakeApi
from tools.clusters.kubelets import machines
from tools.clusters.podresources import FakePodResources
from tools.clusters.processes import Child
from tools.clusters.processes import program as installed
from tools.clusters.programs import AGENT, MIB, Site
from tools.clusters.sim.shapes import GIB, GPU, Shape, SimNode
from tools.clusters.waiting import until

NODE = SimNode("bench", Shape(zones=2, cpus=63, gib=255, devices={GPU: 4}))
TOPOLOGY = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{NODE.name}"
FREE_CPUS = [cpu for cpu in range(128) if cpu % 64]


@dataclass(slots=True)
class Kubelet:
    """Pods on the node: their UIDs by number, which decides the CPU of each."""

    folder: Path
    api: FakeApi
    resources: FakePodResources
    most: int
    pods: dict[int, str] = field(default_factory=dict)

    def add(self, number: int) -> None:
        amounts = {"cpu": "1", "memory": "64Mi"}
        container = {"name": "main", "image": "a", "resources": {"requests": amounts, "limits": amounts}}
        spec = {"nodeName": NODE.name, "containers": [container]}
        self.pods[number] = self.put("Pod", f"pod-{number}", spec=spec, status={"phase": "Running"})
        self._write()

    def remove(self, number: int) -> None:
        self.api.delete(f"/api/v1/namespaces/default/pods/pod-{number}")
        del self.pods[number]
        self._write()

    def put(self, kind: str, name: str, **parts: object) -> str:
        stored = self.api.put({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **parts})
        return str(stored["metadata"]["uid"])

    def _write(self) -> None:
        """Update the pod resources first, then the checkpoint, in the order of a kubelet."""
        listed, entries = pb.ListPodResourcesResponse(), {}
        for number, uid in self.pods.items():
            cpu = FREE_CPUS[number % self.most]
            pod = listed.pod_resources.add(name=f"pod-{number}", namespace="default")
            pod.containers.add(name="main", cpu_ids=[cpu]).memory.add(memory_type="memory", size=64 * MIB)
            entries[uid] = {"main": str(cpu)}
        self.resources.listed = listed
        new = self.folder / "cpu_manager_state.new"
        new.write_text(json.dumps({"policyName": "static", "entries": entries}))
        new.replace(self.folder / "cpu_manager_state")

    async def change(self, rate: float, seconds: float) -> None:
        """Remove the oldest pod and add one in turn, so often each second."""
        for turn in range(2 * round(rate * seconds / 2)):
            if turn % 2:
                self.add(self.most + turn // 2)
            else:
                self.remove(turn // 2)
            await asyncio.sleep(1 / rate)


async def usage(
    pid: int, seconds: float, at: str, most_mib: float | None = None, most_percent: float | None = None
) -> Sequence[Row]:
    """Return rows for the resident memory and the share of one processor over so many seconds."""
    began, before = time.monotonic(), processor_seconds(pid)
    await asyncio.sleep(seconds)
    percent = 100 * (processor_seconds(pid) - before) / (time.monotonic() - began)
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])  # noqa: ASYNC240  it does not block
    return (
        row(f"resident, {at}", pages * getpagesize() / MIB, "MiB", most=most_mib),
        row(f"of one processor, {at}", percent, "%", most=most_percent),
    )


@asynccontextmanager
async def on_a_node(here: Site, api: FakeApi, most: int) -> AsyncIterator[tuple[Kubelet, Child]]:
    """Run an agent beside a simulated kubelet of at most so many pods, once it has published its node."""
    line, resources, socket = NODE.line(), FakePodResources(), here.folder / "kubelet.sock"
    machines.write(read_machine(line["machine"]), here.folder)
    configured = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    configuration = here.file("kubelet.json", {**configured, **line["kubeletConfig"], "maxPods": 200})
    resources.allocatable.cpu_ids.extend(FREE_CPUS)
    for zone in (0, 1):
        memory = resources.allocatable.memory.add(memory_type="memory", size=255 * GIB)
        memory.topology.nodes.add(ID=zone)
    async with resources.serving(socket):
        kubelet = Kubelet(here.folder, api, resources, most)
        kubelet.put("Node", NODE.name, status={"nodeInfo": {"kubeletVersion": "v1.34.4"}})
        child = await here.children.start(
            *(installed(AGENT), f"--node-name={NODE.name}", "--metrics-port=0"),
            *(f"--podresources-socket={socket}", f"--kubelet-state={here.folder}"),
            *(f"--sysfs={here.folder / 'sys'}", f"--kubelet-config={configuration}"),
            f"--kubeconfig={api.kubeconfig(here.folder / 'kubeconfig')}",
        )
        await until(lambda: api.get(TOPOLOGY))
        yield kubelet, child
        # It must not outlive what it calls.
        await child.end()


async def measure(chosen: Namespace, here: Site) -> list[Measurement]:
    async with FakeApi() as api, on_a_node(here, api, chosen.pods) as (kubelet, child):
        # The start is not part of the figures at rest.
        await asyncio.sleep(chosen.settling)
        used, pods = partial(usage, child.process.pid, chosen.seconds), f"with {chosen.pods} pods"
        rows = [*await used("at rest", most_mib=40, most_percent=0.5)]
        for number in range(chosen.pods):
            kubelet.add(number)
        rows += await used(pods)
        changing = asyncio.create_task(kubelet.change(chosen.rate, chosen.seconds))
        rows += await used(f"{pods}, {chosen.rate:g} changes a second", most_percent=10)
        await changing
    text = "On a simulated machine of 128 CPUs, with a simulated kubelet."
    return [Measurement("The agent on its node", rows, text)]


main = program(
    "agent",
    __doc__,
    at_site(measure),
    pods=(110, 4, "pods on the node"),
    rate=(10.0, 4.0, "changes of pods per second"),
    seconds=(30.0, 1.0, "duration of each measurement"),
    settling=(5.0, 0.0, "seconds from the start to the measurement at rest"),
)

if __name__ == "__main__":
    sys.exit(main(None))
