"""The programs that run next to simulated nodes to complete the cluster: a scheduler, and numalign.

kube-scheduler and the controllers of Kubernetes are the real ones. Webhook, controller and scorer of numalign
run on this machine, one replica each, as their service accounts and with the shipped rights. The API server
calls the webhook, and kube-scheduler calls the scorer for every pod.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import extender_at
from tools.clusters.processes import Children, answers, free_port, program
from tools.clusters.waiting import SELDOM, seconds_until

SCORER = "numalign-scorer"
ACCOUNTS = {
    shipped.CONTROLLER: shipped.CONTROLLERS,
    shipped.NAME: shipped.ACCOUNT,
    SCORER: f"system:serviceaccount:{shipped.NAMESPACE}:{SCORER}",
}
"""The user name of each program, in the order in which they start: the controller issues a certificate."""

USERS = {
    **schedulers.USERS,
    **dict.fromkeys(ACCOUNTS.values(), shipped.GROUPS),
}
"""Users that the plane must know, besides an `admin`."""


@asynccontextmanager
async def scheduling(children: Children, plane: Plane, *, numalign: bool) -> AsyncIterator[None]:
    """Run kube-scheduler and the controllers during the block, and numalign, if it is wanted.

    The nodes must exist. The block starts when pods are scheduled and, with numalign, reviewed, too.
    """
    async with AsyncExitStack() as stack:
        extender = await _install(children, plane, stack) if numalign else None
        await stack.enter_async_context(schedulers.scheduler(children, plane, extender=extender))
        await stack.enter_async_context(schedulers.controllers(children, plane))
        yield


async def _install(children: Children, plane: Plane, stack: AsyncExitStack) -> schedulers.Json:
    """Run numalign until the stack is closed; return when every node has its class."""
    ports = {name: free_port() for name in ACCOUNTS}
    store = Store(await stack.enter_async_context(plane.client("admin")))
    scorer_roles = shipped.documents(shipped.MANIFESTS / "scorer" / "rbac.yaml")
    for document in (*shipped.objects(), *scorer_roles):
        # The programs run as processes of this machine.
        if document["kind"] not in {"Deployment", "PodDisruptionBudget"}:
            await store.apply(shipped.by_address(document, ports[shipped.NAME]))
    for name, account in ACCOUNTS.items():
        folder, metrics = plane.folder / name, free_port()
        folder.mkdir()
        flags = {
            **({} if name == SCORER else {**shipped.arguments(name), "tls-names": "127.0.0.1,localhost"}),
            **({"insecure-http": "true", "reserve-at": "bind"} if name == SCORER else {}),
            **({} if name == shipped.CONTROLLER else {"port": ports[name]}),
            "metrics-port": metrics,
            "kubeconfig": plane.kubeconfig(account, folder),
            "namespace": shipped.NAMESPACE,
            "bind": "127.0.0.1",
        }
        command = (program(name), *(f"--{flag}={value}" for flag, value in flags.items()))
        ready = partial(answers, f"http://127.0.0.1:{metrics}/readyz")
        await stack.enter_async_context(children.run(*command, name=name, ready=ready))
    await seconds_until(
        partial(store.list, "v1", "Node"),
        lambda nodes: all(shipped.LABEL in node["metadata"]["labels"] for node in nodes),
        what="every node had a class",
        within=60,
        every=SELDOM,
    )
    return extender_at(f"http://127.0.0.1:{ports[SCORER]}")
