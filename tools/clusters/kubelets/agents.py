"""The agent next to each kubelet, as a separate process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from numalign.kube.decode.kubelet_reports import MACHINE, PLACEMENTS
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster
from tools.clusters.kubelets.kubelets import RealKubelet
from tools.clusters.processes import Child, Children, answers, free_port, program, until
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.waiting import SELDOM, seconds_until


@dataclass(slots=True)
class Agent:
    """The agent of a node, with the command of its DaemonSet; it can be killed and started again."""

    kubelet: RealKubelet
    children: Children
    kubeconfig: Path
    child: Child | None = None
    port: int = field(default_factory=free_port)

    async def start(self) -> None:
        """Start the process, and return at once."""
        kubelet = self.kubelet
        self.child = await self.children.start(
            *(program("numalign-agent"), "--kubeconfig", str(self.kubeconfig)),
            *("--node-name", kubelet.node.name, "--node-address", kubelet.address),
            *("--kubelet-port", str(kubelet.port), "--podresources-socket", str(kubelet.podresources)),
            *("--kubelet-state", str(kubelet.state), "--sysfs", str(kubelet.sysfs)),
            *("--bind", "127.0.0.1", "--metrics-port", str(self.port)),
            name=f"agent-{kubelet.node.name}",
        )

    async def until_up(self) -> None:
        """Return when the process answers, whether or not it has reported anything."""
        assert self.child
        up = partial(answers, f"http://127.0.0.1:{self.port}/healthz")
        await until(up, what="it answered", child=self.child)

    async def kill(self) -> None:
        assert self.child
        child, self.child = self.child, None
        await child.end()


@asynccontextmanager
async def agents(cluster: RealCluster) -> AsyncIterator[Mapping[str, Agent]]:
    """Run an agent next to each kubelet, by node name; start the block when all have reported."""
    folder = cluster.folder / "agents"
    folder.mkdir(exist_ok=True)
    kubeconfig = cluster.plane.kubeconfig("admin", folder)
    every = {name: Agent(each, cluster.children, kubeconfig) for name, each in cluster.kubelets.items()}
    for agent in every.values():
        await agent.start()
    async with cluster.plane.client("admin") as api:

        async def silent() -> list[str]:
            """Return the nodes whose machine and pods are not reported yet."""
            reports = {name: (await ask(api, "GET", f"{TOPOLOGIES}/{name}")).body for name in every}
            written = {
                name: each.get("metadata", {}).get("annotations", {}) for name, each in reports.items()
            }
            return [name for name, known in written.items() if not {MACHINE, PLACEMENTS} <= {*known}]

        what = f"agents told of {', '.join(every)}"
        await seconds_until(silent, lambda seen: not seen, what=what, within=60, every=SELDOM)
    yield every
    for agent in every.values():
        if agent.child:
            await agent.kill()
