"""The real kube-controller-manager, which creates and deletes the pods of workloads.

The controller of a pod decides what happens after the pod is rejected, deleted or evicted: how soon it is
replaced, under which name, and when a Job gives up. So tests run the real controllers.

    async with controllers(children, plane):  # the plane knows controllers.USERS
        ...  # create Deployments, Jobs, StatefulSets; PodDisruptionBudgets are respected

Each controller calls the API server as its usual service account
(`system:serviceaccount:kube-system:replicaset-controller`), with the rights that RBAC grants to it.
"""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp

from tools.clusters.controlplane.planes import Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Child, Children, free_port, until

PROGRAM = "kube-controller-manager"

USER = "system:kube-controller-manager"
"""The user of the program; the default bindings of RBAC grant it the necessary rights."""

USERS = {USER: ""}
"""Users that the plane must know."""

WORKLOADS = (
    "replicaset-controller",
    "deployment-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "disruption-controller",
    "pod-garbage-collector-controller",
    "garbage-collector-controller",
    "ttl-after-finished-controller",
    "namespace-controller",
)
"""Controllers that create pods, count them for budgets, and delete what is no longer owned or needed. None
changes nodes: a test decides whether its nodes are ready."""

NETWORK = ("endpointslice-controller", "endpoints-controller")
"""Controllers that direct Services to running pods."""

ACCOUNTS = ("serviceaccount-controller", "root-ca-certificate-publisher-controller")
"""Controllers that create the accounts of pods, and publish the certificate of the API server's authority."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """A running kube-controller-manager. `log` is its output."""

    child: Child
    port: int
    log: Path

    async def well(self) -> bool:
        """Return whether all its controllers are healthy."""
        url = f"https://127.0.0.1:{self.port}/healthz"
        with suppress(aiohttp.ClientError, ssl.SSLError, TimeoutError):
            async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
                return answer.status == HTTPStatus.OK
        return False


@asynccontextmanager
async def controllers(
    children: Children, plane: Plane, *, names: Sequence[str] = WORKLOADS, flags: Sequence[str] = ()
) -> AsyncIterator[Controllers]:
    """Run these controllers during the block; the plane must know `USERS`.

    Raise `UnavailableError` if the folder of the plane's programs lacks this one, as a folder of Kubernetes'
    own test tools can.
    """
    program = plane.binaries / PROGRAM
    if not program.is_file():
        raise UnavailableError(f"{plane.binaries} has no {PROGRAM}")
    folder = plane.folder / PROGRAM
    folder.mkdir(exist_ok=True)
    port = free_port()
    child = await children.start(
        str(program),
        f"--kubeconfig={plane.kubeconfig(USER, folder)}",
        f"--controllers={','.join(names)}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        # With the default of 20 requests a second, tests would measure this limit.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--v=2",
        *flags,
        name=PROGRAM,
    )
    running = Controllers(child, port, children.logs / PROGRAM)
    try:
        await until(running.well, what=f"{PROGRAM} was well", child=child)
        yield running
    finally:
        await child.end()
