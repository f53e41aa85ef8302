"""The programs that tests run beside control planes, and what the chart gives them there."""

import sys
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from tests.worlds.opt_in import PACKAGING
from tools.clusters import agents, builds, shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json
from tools.clusters.controlplane.planes import Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Child, Children, answers, free_port, program, until
from tools.clusters.replicas import ONLY_METRICS, Replicas, replicas
from tools.generate.manifests import made

OwnPlane = Callable[..., AbstractAsyncContextManager[Plane]]


def kubeconfig(plane: Plane, user: str, *, port: int | None = None) -> Path:
    """For a program that comes to an API server as this user, perhaps through a port that leads there."""
    folder = plane.folder / user.rpartition(":")[2]
    folder.mkdir(exist_ok=True)
    return plane.kubeconfig(user, folder, port=port)


async def need_managers() -> None:
    try:
        await builds.managers()
    except UnavailableError as error:
        pytest.skip(f"NO SIMULATED NODES WERE TESTED: {error}")


async def stocked(api: ApiClient, documents: Iterable[Json] = ()) -> Store:
    """The objects of a new API server: the kind of topologies, numalign's namespace, and some documents."""
    store = Store(api)
    await agents.define(store)
    for document in (*shipped.documents(shipped.MANIFESTS / "namespace.yaml"), *documents):
        await store.apply(document)
    return store


async def charted_rights(values: str, *names: str) -> list[Json]:
    """The roles and policies of these names in the chart with these values; of the controller by default."""
    with PACKAGING.or_skipped():
        helm = await builds.helm()
    return [
        document
        for (kind, name), document in (await made(helm, values)).items()
        if name in (names or (shipped.CONTROLLER,))
        and ("Role" in kind or "Policy" in kind)
        and kind != "NetworkPolicy"
    ]


def controllers_of(children: Children, plane: Plane, *flags: str) -> AbstractAsyncContextManager[Replicas]:
    """Controllers with their service account, none of them started."""
    command = (
        *(sys.executable, "-m", "controller", f"--namespace={shipped.NAMESPACE}", "--bind=127.0.0.1"),
        *(f"--kubeconfig={plane.kubeconfig(shipped.CONTROLLERS, plane.folder)}", "--drain-seconds=1"),
    )
    return replicas(
        children, command=(*command, *flags), name="controller", scheme="http", ports=ONLY_METRICS
    )


class Webhook:
    """The program; it can be ended, and started again at the same address."""

    def __init__(self, children: Children, pair: authority.Files, *flags: str, name: str = "") -> None:
        self.port, metrics_port = free_port(), free_port()
        self.metrics_url = f"http://127.0.0.1:{metrics_port}"
        self._start = partial(
            children.start,
            program("numalign-webhook"),
            *("--bind=127.0.0.1", f"--port={self.port}", f"--metrics-port={metrics_port}"),
            *(f"--tls-cert={pair.cert}", f"--tls-key={pair.key}", *flags),
            name=name,
        )

    async def start(self) -> None:
        self.child: Child = await self._start()
        ready = partial(answers, f"{self.metrics_url}/readyz")
        await until(ready, what="the webhook was ready", child=self.child)

    def configurations(self, ca: Path) -> list[Json]:
        """The shipped configurations, which call it by address: no Service leads here."""
        found = [shipped.by_address(document, self.port) for document in shipped.webhooks()]
        for entry in (entry for document in found for entry in document["webhooks"]):
            entry["clientConfig"]["caBundle"] = base64(ca)
        return found


def base64(file: Path) -> str:
    return b64encode(file.read_bytes()).decode()
