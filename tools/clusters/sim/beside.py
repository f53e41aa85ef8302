"""
The programs that run next to simulated nodes to complete the cluster: a scheduler, and numalign.

kube-scheduler and the controllers of Kubernetes are the real ones. Webhook, controller and scorer of numalign
run on this machine, one replica each, as their service accounts and with the shipped rights. The API server
calls the webhook, and kube-scheduler calls the scorer for every pod.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from tools.clusters import shipped
from tools.clusters.api_objects import Store
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
"""Users that the plane must know, besides an `admin`."""


@asynccontextmanager
async def scheduling(children: Children, plane: Plane, *, numalign: bool) -> AsyncIterator[None]:
    """Run kube-scheduler and the controllers during the block, and numalign, if it is wanted.

    The nodes must exist. The block starts when pods are scheduled and, with numalign, reviewed, too.
    """
    async with (
        _installed(children, plane) if numalign else nullcontext() as extender,
        schedulers.scheduler(children, plane, extender=extender),
        controllers.controllers(children, plane),
    ):
        yield


@asynccontextmanager
async def _installed(children: Children, plane: Plane) -> AsyncIterator[Extender]:
    """Run numalign during the block, which starts when every node has its class."""
    commands = [_command(plane, name) for name in (shipped.CONTROLLER, shipped.NAME, SCORER)]
    async with (
        plane.client("admin") as api,
        replicas(children, command=commands[0], name="controller", ports=ONLY_METRICS) as leaders,
        replicas(children, command=commands[1], name="webhook") as webhooks,
        replicas(children, command=commands[2], name="scorer", scheme="http") as scorers,
    ):
        store = Store(api)
        scorer_roles = shipped.documents(shipped.MANIFESTS / "scorer" / "rbac.yaml")
        for document in (*shipped.objects(), *scorer_roles):
            # The programs run as processes of this machine.
            if document["kind"] not in {"Deployment", "PodDisruptionBudget"}:
                await store.apply(shipped.by_address(document, webhooks.service.port))
        started = [await each.add() for each in (leaders, webhooks, scorers)]
        for replica in started:
            await until(replica.is_ready, what=f"{replica.name} was ready", child=replica.child)
        await seconds_until(
            partial(store.list, "v1", "Node"),
            lambda nodes: all(shipped.LABEL in node["metadata"]["labels"] for node in nodes),
            what="every node had a class",
            within=60,
            every=SELDOM,
        )
        yield Extender(url=started[-1].url)


def _command(plane: Plane, name: str) -> tuple[str, ...]:
    folder = plane.folder / name
    folder.mkdir()
    flags = {
        **({"insecure-http": "true", "reserve-at": "bind"} if name == SCORER else shipped.arguments(name)),
        **({} if name == SCORER else {"tls-names": "127.0.0.1,localhost"}),
        "kubeconfig": str(plane.kubeconfig(ACCOUNTS[name], folder)),
        "namespace": shipped.NAMESPACE,
        "bind": "127.0.0.1",
    }
    return program(name), *(f"--{flag}={value}" for flag, value in flags.items() if flag not in PORTS)
