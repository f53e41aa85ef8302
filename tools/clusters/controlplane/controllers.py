"""The real kube-controller-manager, which creates and deletes the pods of workloads.

The controller of a pod decides how soon a rejected, deleted or evicted one is replaced, under which name, and
when a Job gives up. Each calls the API server as its usual service account, with the rights that RBAC grants.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tools.clusters.controlplane.planes import Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Children, answers, free_port

PROGRAM = "kube-controller-manager"

USER = "system:kube-controller-manager"
USERS = {USER: ""}
"""Users that the plane must know; the default bindings of RBAC grant the necessary rights."""

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


@asynccontextmanager
async def controllers(
    children: Children, plane: Plane, *, names: Sequence[str] = WORKLOADS, flags: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Run these controllers during the block; the plane must know `USERS`.

    Raise `UnavailableError` if the folder of the plane's programs lacks this one, as a folder of Kubernetes'
    own test tools can.
    """
    program = plane.binaries / PROGRAM
    if not program.is_file():
        raise UnavailableError(f"{plane.binaries} has no {PROGRAM}")
    folder, port = plane.folder / PROGRAM, free_port()
    folder.mkdir(exist_ok=True)
    command = (
        *(str(program), f"--kubeconfig={plane.kubeconfig(USER, folder)}", f"--controllers={','.join(names)}"),
        *("--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1"),
        *(f"--secure-port={port}", f"--cert-dir={folder}", "--v=2"),
        # With the default of 20 requests a second, tests would measure this limit.
        *("--kube-api-qps=1000", "--kube-api-burst=2000"),
    )
    well = partial(answers, f"https://127.0.0.1:{port}/healthz")
    async with children.run(*command, *flags, name=PROGRAM, ready=well):
        yield
