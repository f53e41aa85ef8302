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
from tests.system.e2e.guarded import Right, rights_of, until_allowed
from tests.system.eventually import eventually
from tests.unit.deploy import patched
from tools.clusters import processes, shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask, create, patch, pod
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import Scheduler
from tools.clusters.fleets import Shape
from tools.clusters.processes import Child, Children, free_port, until
from tools.generate.manifests import MANIFESTS, PARTS, objects

NODES = ("left", "right")
SHAPE = Shape(zones=2, cpus=16, gib=64, devices={"nvidia.com/gpu": 4})
SECOND = "numalign-scheduler"
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

    async def run(self, name: str, namespace: str = "default") -> Json:
        status = {"phase": "Running", "startTime": f"{utc_now():%Y-%m-%dT%H:%M:%SZ}"}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
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
    await until_allowed(cluster.api, SCHEDULER, {*OF_SCHEDULERS, *rights_of(SECOND, installed)})
    port = port or free_port()
    kubeconfig = cluster.plane.kubeconfig(SCHEDULER, folder)
    # With addresses of this machine; in a pod it would find the API server by itself.
    [stored] = [each for each in SHIPPED if each["kind"] == "ConfigMap"]
    configured: Json = yaml.safe_load(stored["data"]["scheduler.yaml"])
    configured["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}"
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(configured | {"clientConnection": {"kubeconfig": str(kubeconfig)}}))
    running = await schedulers.start(
        children,
        str(binary or cluster.plane.binaries / "kube-scheduler"),
        *arguments(SECOND, but_for=("config", "secure-port")),
        f"--config={file}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        *flags,
        name=SECOND,
    )
    yield Running(running, port, SECOND)
    await running.child.end()
    # The next need not wait until it has grown old.
    await ask(cluster.api, "DELETE", LEASES.format(shipped.NAMESPACE, SECOND))


def arguments(name: str, *, but_for: tuple[str, ...]) -> list[str]:
    [container] = DEPLOYMENTS[name]["spec"]["template"]["spec"]["containers"]
    return [each for each in container["args"] if each.split("=")[0].removeprefix("--") not in but_for]


@asynccontextmanager
async def own_scheduler(
    children: Children, cluster: Cluster, folder: Path, *, configuration: str, ca: Path
) -> AsyncIterator[Running]:
    """The control plane's own, as kubeadm runs it with the patch, and a configuration by its name."""
    port = free_port()

    def moved(word: str) -> str:
        here = word.replace("/etc/kubernetes", str(folder))
        return here.replace("https://10.96.0.53", f"https://127.0.0.1:{port}")

    cluster.plane.kubeconfig(schedulers.USER, folder).rename(folder / "scheduler.conf")
    (folder / "numalign").mkdir()
    (folder / "numalign" / "ca.crt").write_bytes(ca.read_bytes())  # noqa: ASYNC240
    (folder / "numalign" / "scheduler.yaml").write_text(moved(patched.configuration(configuration)))
    [container] = patched.static_pod()["spec"]["containers"]
    program, *flags = map(moved, container["command"])
    command = (str(cluster.plane.binaries / program), *flags)
    running = await schedulers.start(children, *command, name=f"kube-scheduler-{configuration}")
    yield Running(running, port, configuration=configuration)
    await running.child.end()
    await ask(cluster.api, "DELETE", LEASES.format("kube-system", "kube-scheduler"))


# ---- scorers


@dataclass(frozen=True, slots=True)
class Replica:
    child: Child
    port: int
    metrics_port: int

    async def readiness(self) -> tuple[int, str]:
        """Whether it is ready, and what it lacks; 0 if it does not answer."""
        url = f"http://127.0.0.1:{self.metrics_port}/readyz"
        with suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status, await answer.text()
        return 0, ""

    async def ready(self) -> bool:
        return (await self.readiness())[0] == HTTPStatus.OK


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
    return Replica(child, port, metrics_port)


@asynccontextmanager
async def scoring(
    children: Children, kubeconfig: Path, port: int, pair: authority.Files | None = None, **flags: str
) -> AsyncIterator[Replica]:
    """A scorer that is ready during the block, and gives its lease back: the next need not wait for it."""
    flags |= {"drain-seconds": "0"}
    running = await replica(children, kubeconfig, port=port, name="numalign-scorer", pair=pair, **flags)
    await until(running.ready, what="the scorer was ready", child=running.child)
    yield running
    assert await running.child.stop() == 0
