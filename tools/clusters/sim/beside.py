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
from pathlib import Path

from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json
from tools.clusters.controlplane import controllers, schedulers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import Extender
from tools.clusters.processes import Children, program, until
from tools.clusters.replicas import ONLY_METRICS, PORTS, Replica, replicas
from tools.clusters.waiting import SELDOM, seconds_until

SCORER = "numalign-scorer"
ACCOUNTS = {**shipped.ACCOUNTS, SCORER: f"system:serviceaccount:{shipped.NAMESPACE}:{SCORER}"}
USERS = {
    **schedulers.USERS,
    **controllers.USERS,
    **dict.fromkeys(ACCOUNTS.values(), shipped.GROUPS),
}
"""Users that the plane must know, besides its administrator."""

PROCESSES = frozenset({"Deployment", "PodDisruptionBudget"})
"""Kinds that are not applied, as the programs run as processes of this machine."""

LABEL_SECONDS = 60


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
    async with AsyncExitStack() as stack:
        store = Store(await stack.enter_async_context(plane.client("admin")))
        webhooks = await stack.enter_async_context(
            replicas(children, command=_command(plane, shipped.NAME), name="webhook")
        )
        writing = _command(plane, shipped.CONTROLLER)
        leaders = await stack.enter_async_context(
            replicas(children, command=writing, name="controller", ports=ONLY_METRICS)
        )
        scoring = _scorer_command(plane)
        scorers = await stack.enter_async_context(
            replicas(children, command=scoring, name="scorer", scheme="http")
        )
        for document in _objects():
            await store.apply(shipped.by_address(document, webhooks.service.port))
        started: list[Replica] = [await each.add() for each in (leaders, webhooks, scorers)]
        for replica in started:
            await until(replica.is_ready, what=f"{replica.name} was ready", child=replica.child)
        await _until_labelled(store)
        await stack.enter_async_context(
            schedulers.scheduler(children, plane, extender=Extender(url=started[-1].url))
        )
        await stack.enter_async_context(controllers.controllers(children, plane))
        yield


BESIDE: Mapping[str, Callable[[Children, Plane], AbstractAsyncContextManager[None]]] = {
    Beside.SCHEDULER: scheduling,
    Beside.NUMALIGN: installed,
}


def _objects() -> list[Json]:
    roles = shipped.documents(shipped.MANIFESTS / "scorer" / "rbac.yaml")
    return [document for document in (*shipped.objects(), *roles) if document["kind"] not in PROCESSES]


def _command(plane: Plane, name: str) -> tuple[str, ...]:
    flags = shipped.arguments(name) | {
        "kubeconfig": str(_kubeconfig(plane, name)),
        "namespace": shipped.NAMESPACE,
        "bind": "127.0.0.1",
        "tls-names": "127.0.0.1,localhost",
    }
    return program(name), *(f"--{flag}={value}" for flag, value in flags.items() if flag not in PORTS)


def _scorer_command(plane: Plane) -> tuple[str, ...]:
    return (
        *(program(SCORER), "--namespace", shipped.NAMESPACE, "--bind", "127.0.0.1"),
        *("--kubeconfig", str(_kubeconfig(plane, SCORER)), "--insecure-http", "--reserve-at", "bind"),
    )


def _kubeconfig(plane: Plane, name: str) -> Path:
    folder = plane.folder / name
    folder.mkdir()
    return plane.kubeconfig(ACCOUNTS[name], folder)


async def _until_labelled(store: Store) -> None:
    def labelled(nodes: list[Json]) -> bool:
        return all(shipped.LABEL in node["metadata"]["labels"] for node in nodes)

    look = partial(store.list, "v1", "Node")
    await seconds_until(look, labelled, what="every node had a class", within=LABEL_SECONDS, every=SELDOM)
