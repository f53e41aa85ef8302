"""A cluster whose pods are placed by a scheduler with what is shipped.

Configurations are used as they are shipped, but for paths and addresses: this machine has no /etc/kubernetes,
no account is mounted, and no Service leads anywhere here.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import aiohttp
import yaml
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from numalign.kube.client import Patch
from numalign.runtime.clock import utc_now
from tests.system.e2e.granted import Right, rights_of, until_allowed
from tests.system.e2e.own_planes import OwnPlane
from tests.system.eventually import eventually
from tests.unit.deploy import patched
from tools.clusters import fleets, processes, shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask, create, patch, pod
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import Scheduler
from tools.clusters.fleets import Shape
from tools.clusters.processes import Child, Children, free_port
from tools.generate.manifests import MANIFESTS, PARTS, objects

NODES = ("left", "right")
SHAPE = Shape(zones=2, cpus=16, gib=64, devices={"nvidia.com/gpu": 4})
SCHEDULER = f"system:serviceaccount:{shipped.NAMESPACE}:numalign-scheduler"
SCORER = f"system:serviceaccount:{shipped.NAMESPACE}:numalign-scorer"
ACCOUNTS = f"system:serviceaccounts,system:serviceaccounts:{shipped.NAMESPACE}"
STANDBY = f"{SCORER}-standby"
"""A scorer with the same roles and a name of its own, so that the audit log tells the two apart."""
USERS = {
    "admin": "system:masters",
    **dict.fromkeys((SCHEDULER, SCORER, STANDBY), ACCOUNTS),
    **schedulers.USERS,
}
OF_SCHEDULERS: set[Right] = {("", "", "nodes", "list", ""), ("", "", "persistentvolumes", "list", "")}
"""What Kubernetes' own roles for schedulers and for their volumes allow, besides more."""

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"

SHIPPED = [each for part in PARTS for each in objects(MANIFESTS / part)]
"""What is installed beside the webhook."""

DEPLOYMENTS = {each["metadata"]["name"]: each for each in SHIPPED if each["kind"] == "Deployment"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server with two nodes, and what is asked of it again and again."""

    plane: Plane
    store: Store

    @property
    def api(self) -> ApiClient:
        return self.store.api

    async def pod(self, name: str) -> Json:
        return (await ask(self.api, "GET", f"/api/v1/namespaces/default/pods/{name}")).body

    async def create(
        self,
        name: str,
        *,
        scheduler: str,
        asks: Mapping[str, str],
        annotations: Mapping[str, str] | None = None,
        **spec: object,
    ) -> None:
        wish = pod(name, asks={"cpu": "1", "memory": "1Gi", **asks}, annotations=annotations or {})
        wish["spec"] |= {"schedulerName": scheduler, **spec}
        answer = await create(self.api, wish, namespace="default")
        assert answer.code == HTTPStatus.CREATED, answer.body

    async def until_bound(self, name: str, *, within: float = 30) -> Json:
        look = partial(self.pod, name)
        return await eventually(look, is_bound, f"{name} had a node", within=within)

    async def until_running(self, name: str) -> Json:
        """The pod, once it has a node and that has taken it, so that no other has to wait for that."""
        await self.until_bound(name)
        return await self.run(name)

    async def run(self, name: str) -> Json:
        status = {"phase": "Running", "startTime": f"{utc_now():%Y-%m-%dT%H:%M:%SZ}"}
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        answer = await patch(self.api, path, {"status": status}, how=Patch.STRATEGIC)
        assert answer.code == HTTPStatus.OK, answer.body
        return answer.body

    async def until_unplaced(self, name: str, text: str) -> None:
        """Returns when a scheduler wrote this reason why the pod has no node."""
        await eventually(
            partial(self.pod, name), lambda seen: text in why(seen), f"{name} was unplaced: {text}"
        )

    async def clear(self) -> None:
        for left in await self.store.list("v1", "Pod"):
            path = "/api/v1/namespaces/{namespace}/pods/{name}".format_map(left["metadata"])
            await ask(self.api, "DELETE", path, gracePeriodSeconds="0")


def is_bound(seen: Json) -> bool:
    return "nodeName" in seen["spec"]


def why(seen: Json) -> str:
    """The reason that a scheduler wrote why a pod has no node."""
    conditions = {each["type"]: each for each in seen["status"].get("conditions", [])}
    reason: str = conditions.get("PodScheduled", {}).get("message", "")
    return reason


@asynccontextmanager
async def cluster_of(own_plane: OwnPlane, name: str, *flags: str) -> AsyncIterator[Cluster]:
    """A plane that logs the requests of our accounts; its API server may have more `flags`."""
    audited = (SCHEDULER, SCORER, STANDBY)
    async with (
        own_plane(name, users=USERS, needs=["kube-scheduler"], audited=audited, flags=flags) as plane,
        plane.client("admin") as api,
    ):
        store = Store(api)
        for folder in (shipped.MANIFESTS, shipped.MANIFESTS / "agent"):
            for document in shipped.documents(folder / "namespace.yaml"):
                await store.apply(document)
        for node in NODES:
            await store.replace(fleets.node(node, SHAPE))
        yield Cluster(plane, store)


# ---- schedulers


@dataclass(frozen=True, slots=True)
class Running:
    """A scheduler that runs, and where it looks for an extender."""

    scheduler: Scheduler
    port: int
    name: str = "default-scheduler"
    configuration: str = ""


@asynccontextmanager
async def second_scheduler(
    children: Children, cluster: Cluster, folder: Path, *flags: str, port: int = 0, binary: Path | None = None
) -> AsyncIterator[Running]:
    """`numalign-scheduler` with all that is shipped for it, and no more rights than that.

    It looks for the scorer at a `port` of this machine, or at one that is free. It may be another `binary`
    than that of the plane, and be given more `flags`.
    """
    installed = objects(MANIFESTS / "scheduler")
    for document in installed:
        # The process is its Deployment, whose pods would take room on nodes.
        if document["kind"] != "Deployment":
            await cluster.store.apply(document)
    await until_allowed(cluster.api, SCHEDULER, {*OF_SCHEDULERS, *rights_of("numalign-scheduler", installed)})
    port = port or free_port()
    kubeconfig = cluster.plane.kubeconfig(SCHEDULER, folder)
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(_second(kubeconfig, port)))
    running = await schedulers.start(
        children,
        str(binary or cluster.plane.binaries / "kube-scheduler"),
        *arguments("numalign-scheduler", but_for=("config", "secure-port")),
        f"--config={file}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        *flags,
        name="numalign-scheduler",
    )
    yield Running(running, port, "numalign-scheduler")
    await running.child.end()


def _second(kubeconfig: Path, port: int) -> Json:
    """Its configuration, with addresses of this machine; in a pod it would find the API server by itself."""
    [stored] = [each for each in SHIPPED if each["kind"] == "ConfigMap"]
    configured: Json = yaml.safe_load(stored["data"]["scheduler.yaml"])
    [extender] = configured["extenders"]
    extender["urlPrefix"] = f"http://127.0.0.1:{port}"
    return configured | {"clientConnection": {"kubeconfig": str(kubeconfig)}}


def arguments(name: str, *, but_for: tuple[str, ...]) -> list[str]:
    [container] = DEPLOYMENTS[name]["spec"]["template"]["spec"]["containers"]
    return [each for each in container["args"] if each.split("=")[0].removeprefix("--") not in but_for]


@asynccontextmanager
async def own_scheduler(
    children: Children, cluster: Cluster, folder: Path, *, configuration: str, ca: Path
) -> AsyncIterator[Running]:
    """The control plane's own, as kubeadm runs it with the patch, and a configuration by its name."""
    port = free_port()
    cluster.plane.kubeconfig(schedulers.USER, folder).rename(folder / "scheduler.conf")
    program, *flags = _host(folder, port, text=patched.configuration(configuration), ca=ca)
    command = (str(cluster.plane.binaries / program), *flags)
    running = await schedulers.start(children, *command, name=f"kube-scheduler-{configuration}")
    yield Running(running, port, configuration=configuration)
    await running.child.end()
    # The next need not wait until it has grown old.
    await ask(cluster.api, "DELETE", LEASES.format("kube-system", "kube-scheduler"))


def _host(folder: Path, port: int, *, text: str, ca: Path) -> list[str]:
    """Makes a folder what /etc/kubernetes is to be, and gives the command that reads it."""

    def moved(word: str) -> str:
        here = word.replace("/etc/kubernetes", str(folder))
        return here.replace("https://10.96.0.53", f"https://127.0.0.1:{port}")

    (folder / "numalign").mkdir()
    (folder / "numalign" / "ca.crt").write_bytes(ca.read_bytes())
    (folder / "numalign" / "scheduler.yaml").write_text(moved(text))
    [container] = patched.static_pod()["spec"]["containers"]
    return [moved(word) for word in container["command"]]


# ---- scorers


@dataclass(frozen=True, slots=True)
class Replica:
    child: Child
    url: str
    metrics_url: str

    async def readiness(self) -> tuple[int, str]:
        """Whether it is ready, and what it lacks; 0 if it does not answer."""
        with suppress(aiohttp.ClientError):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self.metrics_url}/readyz") as answer,
            ):
                return answer.status, await answer.text()
        return 0, ""

    async def ready(self) -> bool:
        code, _ = await self.readiness()
        return code == HTTPStatus.OK


async def replica(
    children: Children,
    kubeconfig: Path,
    *,
    port: int,
    name: str,
    pair: authority.Files | None = None,
    **flags: str,
) -> Replica:
    """With what is shipped and `flags` besides; with TLS if it has a pair. Returns at once."""
    metrics_port = free_port()
    served = (f"--tls-cert={pair.cert}", f"--tls-key={pair.key}") if pair else ("--insecure-http=true",)
    child = await children.start(
        processes.program("numalign-scorer"),
        *arguments("numalign-scorer", but_for=("port", "metrics-port", "insecure-http", *flags)),
        *(f"--kubeconfig={kubeconfig}", f"--namespace={shipped.NAMESPACE}"),
        *(f"--port={port}", f"--metrics-port={metrics_port}", "--bind=127.0.0.1", *served),
        *(f"--{flag}={value}" for flag, value in flags.items()),
        name=name,
    )
    url = f"http{'s' * bool(pair)}://127.0.0.1:{port}"
    return Replica(child, url, f"http://127.0.0.1:{metrics_port}")
