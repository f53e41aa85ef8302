"""The real kube-controller-manager: what makes pods of workloads, and what takes them away.

Who owns a pod decides what becomes of it when it is refused, deleted or evicted: how soon there is another,
by which name, and when a Job gives up. So controllers are run, not played.

    async with controllers(children, plane):  # among the users of the plane: controllers.USERS
        ...  # create Deployments, Jobs, StatefulSets; PodDisruptionBudgets are kept

Each controller comes to the API server as the service account that it has in every cluster
(`system:serviceaccount:kube-system:replicaset-controller`), with the rights that RBAC gives to that.
"""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp

from harness.controlplane.planes import Plane
from harness.gotools import UnavailableError
from harness.processes import Child, Children, free_port, until

PROGRAM = "kube-controller-manager"

USER = "system:kube-controller-manager"
"""Whom an API server allows what the program needs: RBAC binds this name by itself. A plane must know it."""

USERS = {USER: ""}
"""To be among the users of a plane."""

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
"""What makes pods, counts them for budgets, and removes what nobody owns any more. Nothing looks at nodes:
those of a test become ready, and stay so, as the test says."""

NETWORK = ("endpointslice-controller", "endpoints-controller")
"""What has Services lead to pods that run."""

ACCOUNTS = ("serviceaccount-controller", "root-ca-certificate-publisher-controller")
"""What makes the accounts that pods run as, and brings them the certificate of the API server's authority."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """A kube-controller-manager that runs. `log` is what it writes."""

    child: Child
    port: int
    log: Path

    async def well(self) -> bool:
        """Whether all of its controllers run."""
        url = f"https://127.0.0.1:{self.port}/healthz"
        with suppress(aiohttp.ClientError, ssl.SSLError, TimeoutError):
            async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
                return answer.status == HTTPStatus.OK
        return False


@asynccontextmanager
async def controllers(
    children: Children, plane: Plane, *, names: Sequence[str] = WORKLOADS, flags: Sequence[str] = ()
) -> AsyncIterator[Controllers]:
    """Has these controllers work during the block; the plane must know `USERS`.

    Raises `UnavailableError` where the folder of the plane's programs lacks this one, as that of another's
    test tools does.
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
        # Its own defaults, 20 a second, would be what is measured.
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
