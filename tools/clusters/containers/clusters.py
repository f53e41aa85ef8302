"""A control plane and one node that runs images: everything from `kubectl apply` to a running process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from certs import authority
from tools.clusters.containers import networks, nodes
from tools.clusters.containers.build import Parts
from tools.clusters.controlplane import controllers, schedulers
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.kubelets.clusters import towards_kubelets, trust
from tools.clusters.processes import Children

ADMIN = {"admin": "system:masters"}
_CONTROLLERS = (*controllers.WORKLOADS, *controllers.NETWORK, *controllers.ACCOUNTS)


@dataclass(frozen=True, slots=True)
class ContainerCluster:
    """The control plane, and the node with its images."""

    plane: Plane
    node: nodes.Node


@asynccontextmanager
async def cluster(
    children: Children, folder: Path, *, binaries: Path, parts: Parts, images: nodes.NodeImages
) -> AsyncIterator[ContainerCluster]:
    """
    Run a cluster whose node is ready and has these images; its files are in an empty folder.

    The API server calls pods behind a Service at their own addresses. Pods call it with the service accounts
    that the real controllers create.
    """
    addresses = ["127.0.0.1", networks.API_SERVER, networks.ADDRESS]
    issued = authority.issue(names=addresses, days=1, now=datetime.now(UTC))
    pair = authority.write(issued, folder / "tls")
    plane = Plane(
        children,
        Place(binaries, folder, pair),
        users={**ADMIN, **controllers.USERS, **schedulers.USERS, **nodes.USERS},
        flags=(
            "--enable-aggregator-routing=true",
            f"--advertise-address={networks.ADDRESS}",
            *towards_kubelets(folder / "tls"),
        ),
        without=(),
    )
    managed = controllers.controllers(
        children, plane, names=_CONTROLLERS, flags=(f"--root-ca-file={pair.ca}",)
    )
    async with networks.network(plane.port):
        await plane.start()
        running = nodes.node(children, plane, parts, images=images, trust=trust(folder / "tls"))
        async with managed, schedulers.scheduler(children, plane), running as node:
            yield ContainerCluster(plane, node)
