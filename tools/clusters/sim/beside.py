"""
The programs that run next to simulated nodes to complete the cluster: a scheduler, and numalign.

kube-scheduler and the controllers of Kubernetes are the real ones. Webhook, controller and scorer of numalign
run on this machine, one replica each, as their service accounts and with the shipped rights. The API server
calls the webhook, and kube-scheduler calls the scorer for every pod.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from enum import StrEnum
from functools import partial

from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json
from tools.clusters.controlplane import controllers, schedulers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import Extender
from tools.clusters.processes import Children, program, until
from tools.clusters.replicas import ONLY_METRICS, PORTS, replicas
from tools.clusters.waiting import SELDOM, seconds_until

SCORER = "numalign-scorer"
ACCOUNTS = {**shipped.ACCOUNTS, SCORER: f"system:serviceaccount:{shipped.NAMESPACE}:{SCORER}"}
USERS = {
    **schedulers.USERS,
    **controllers.USERS,
    **dict.fromkeys(ACCOUNTS.values(), shipped.GROUPS),
}
"""Users that the plane must know, besides its administrator."""


class Beside(StrEnum):
    """What to start next to the nodes."""

    SCHEDULER = "scheduler"
    NUMALIGN = "numalign"


@asynccontextmanager
async def scheduling(children: Children, plane: Plane) -> AsyncIterator[None]:
    """Run kube-scheduler and the controllers during the block; the plane must know `USERS`."""
    async with schedulers.scheduler(children, plane), controllers.controllers(children, plane):
        yield


@asynccontextmanager
async def installed(children: Children, plane: Plane) -> AsyncIterator[None]:
    """Run numalign and a scheduler during the block; the plane must know `USERS` and an `admin`.

    The nodes must exist. The block starts when every node has its class, and pods are reviewed and scheduled.
    """
    commands = [_command(plane, name) for name in (shipped.CONTROLLER, shipped.NAME, SCORER)]
    async with (
        plane.client("admin") as api,
        replicas(children, command=commands[0], name="controller", ports=ONLY_METRICS) as leaders,
        replicas(children, command=commands[1], name="webhook") as webhooks,
        replicas(children, command=commands[2], name="scorer", scheme="http") as scorers,
        AsyncExitStack() as stack,
    ):
        store = Store(api)
        for document in (
            *shipped.objects(),
            *shipped.documents(shipped.MANIFESTS / "scorer" / "rbac.yaml"),
        ):
            # The programs run as processes of this machine.
            if document["kind"] not in {"Deployment", "PodDisruptionBudget"}:
                await store.apply(shipped.by_address(document, webhooks.service.port))
        started = [await each.add() for each in (leaders, webhooks, scorers)]
        for replica in started:
            await until(replica.is_ready, what=f"{replica.name} was ready", child=replica.child)
        look = partial(store.list, "v1", "Node")
        await seconds_until(look, _labelled, what="every node had a class", within=60, every=SELDOM)
        extender = Extender(url=started[-1].url)
        await stack.enter_async_context(schedulers.scheduler(children, plane, extender=extender))
        await stack.enter_async_context(controllers.controllers(children, plane))
        yield


BESIDE: Mapping[str, Callable[[Children, Plane], AbstractAsyncContextManager[None]]] = {
    Beside.SCHEDULER: scheduling,
    Beside.NUMALIGN: installed,
}


def _labelled(nodes: list[Json]) -> bool:
    return all(shipped.LABEL in node["metadata"]["labels"] for node in nodes)


def _command(plane: Plane, name: str) -> tuple[str, ...]:
    folder = plane.folder / name
    folder.mkdir()
    if name == SCORER:
        own = {"insecure-http": "true", "reserve-at": "bind"}
    else:
        own = {**shipped.arguments(name), "tls-names": "127.0.0.1,localhost"}
    flags = {
        **own,
        "kubeconfig": str(plane.kubeconfig(ACCOUNTS[name], folder)),
        "namespace": shipped.NAMESPACE,
        "bind": "127.0.0.1",
    }
    return program(name), *(f"--{flag}={value}" for flag, value in flags.items() if flag not in PORTS)
