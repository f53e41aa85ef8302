"""The agent next to each kubelet, as a separate process."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.decode.kubelet_reports import MACHINE, PLACEMENTS
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster
from tools.clusters.kubelets.kubelets import RealKubelet
from tools.clusters.processes import Child, answers, free_port, program, until
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.waiting import SELDOM, seconds_until


@dataclass(slots=True)
class Agent:
    """The agent of a node; it can be killed and started again."""

    kubelet: RealKubelet
    cluster: RealCluster
    kubeconfig: Path
    child: Child | None = None
    port: int = field(default_factory=free_port)

    @property
    def command(self) -> tuple[str, ...]:
        """The command of its DaemonSet, with other paths and addresses."""
        return (
            *(program("numalign-agent"), "--kubeconfig", str(self.kubeconfig)),
            *("--node-name", self.kubelet.node.name, "--node-address", self.kubelet.address),
            *("--kubelet-port", str(self.kubelet.port)),
            *("--podresources-socket", str(self.kubelet.podresources)),
            *("--kubelet-state", str(self.kubelet.state)),
            *("--sysfs", str(self.kubelet.sysfs)),
            *("--bind", "127.0.0.1", "--metrics-port", str(self.port)),
        )

    async def start(self) -> None:
        """Start the process, and return at once."""
        name = f"agent-{self.kubelet.node.name}"
        self.child = await self.cluster.children.start(*self.command, name=name)

    async def until_up(self) -> None:
        """Return when the process answers, whether or not it has reported anything."""
        assert self.child
        up = partial(answers, f"http://127.0.0.1:{self.port}/healthz")
        await until(up, what="it answered", child=self.child)

    async def kill(self) -> None:
        """Kill the process at once, like a crash."""
        assert self.child
        child, self.child = self.child, None
        await child.end()


@asynccontextmanager
async def agents(cluster: RealCluster, *, user: str = "admin") -> AsyncIterator[Mapping[str, Agent]]:
    """Run an agent next to each kubelet, by node name; start the block when all have reported."""
    folder = cluster.folder / "agents"
    folder.mkdir(exist_ok=True)
    kubeconfig = cluster.plane.kubeconfig(user, folder)
    every = {name: Agent(kubelet, cluster, kubeconfig) for name, kubelet in cluster.kubelets.items()}
    for agent in every.values():
        await agent.start()
    async with cluster.plane.client(user) as api:
        await until_told(api, every)
    yield every
    for agent in every.values():
        if agent.child:
            await agent.kill()


async def until_told(api: ApiClient, names: Iterable[str]) -> None:
    """Return when the agents of these nodes have reported machines and pods."""

    async def silent() -> list[str]:
        return [name for name in names if not {MACHINE, PLACEMENTS} <= {*await annotations(api, name)}]

    every = ", ".join(names)
    await seconds_until(
        silent, lambda seen: not seen, what=f"agents told of {every}", within=60, every=SELDOM
    )


async def annotations(api: ApiClient, name: str) -> Mapping[str, str]:
    """Return the annotations of a node's topology; none if there is no topology."""
    topology = (await ask(api, "GET", f"{TOPOLOGIES}/{name}")).body
    found: Mapping[str, str] = topology.get("metadata", {}).get("annotations", {})
    return found
