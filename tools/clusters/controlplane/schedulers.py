"""The real kube-scheduler and kube-controller-manager.

The scheduler decides which verbs of an extender it calls, and what fails. The controller of a pod decides how
soon a rejected, deleted or evicted one is replaced, under which name, and when a Job gives up. Each calls the
API server as its usual service account, with the rights that RBAC grants.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools.clusters.controlplane.planes import Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Child, Children, answers, free_port, until

Json = dict[str, Any]

PROGRAM, MANAGER = "kube-scheduler", "kube-controller-manager"
USER, _CONTROLLERS = f"system:{PROGRAM}", f"system:{MANAGER}"
USERS = {USER: "", _CONTROLLERS: ""}
"""Users that the plane must know; the default bindings of RBAC grant the necessary rights."""

VERBS = ("filter", "prioritize", "bind", "preempt")
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


def extender_at(url: str, verbs: Sequence[str] = VERBS) -> Json:
    """Return an extender; each verb is a path of the same name. Any certificate of it is accepted."""
    return {
        "urlPrefix": url,
        **{f"{verb}Verb": verb for verb in verbs},
        "weight": 10,
        "nodeCacheCapable": True,
        "enableHTTPS": url.startswith("https://"),
        "httpTimeout": "5s",
    }


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A running scheduler; probes and metrics are at its port."""

    child: Child
    port: int


def configuration(kubeconfig: Path, *, extender: Json | None, name: str = "default-scheduler") -> Json:
    """Return a KubeSchedulerConfiguration for a kubeconfig; pods are tried again after a second, then two."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # With the default of 50 requests a second, tests would measure this limit.
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
        "profiles": [{"schedulerName": name}],
        "extenders": [extender] if extender else [],
    }


async def start(children: Children, *command: str, name: str, path: str = "/readyz") -> Scheduler:
    """Start a scheduler on a free port, and return when it knows the cluster."""
    port = free_port()
    child = await children.start(*command, f"--secure-port={port}", name=name)
    await until(partial(answers, f"https://127.0.0.1:{port}{path}"), what="it was ready", child=child)
    return Scheduler(child, port)


@asynccontextmanager
async def scheduler(
    children: Children, plane: Plane, *, extender: Json | None = None, name: str = "default-scheduler"
) -> AsyncIterator[Scheduler]:
    """Run a scheduler for pods with the scheduler `name` during the block; the plane must know `USERS`."""
    folder = plane.folder / name
    folder.mkdir(exist_ok=True)
    file = folder / "scheduler.json"
    described = configuration(plane.kubeconfig(USER, folder), extender=extender, name=name)
    file.write_text(json.dumps(described))
    command = (*_command(plane, PROGRAM, folder), f"--config={file}")
    running = await start(children, *command, name=f"{PROGRAM}-{name}")
    try:
        yield running
    finally:
        await running.child.end()


@asynccontextmanager
async def controllers(
    children: Children, plane: Plane, *, names: Sequence[str] = WORKLOADS, flags: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Run these controllers during the block; the plane must know `USERS`.

    Raise `UnavailableError` if the folder of the plane's programs lacks this one, as a folder of Kubernetes'
    own test tools can.
    """
    if not (plane.binaries / MANAGER).is_file():
        raise UnavailableError(f"{plane.binaries} has no {MANAGER}")
    folder = plane.folder / MANAGER
    folder.mkdir(exist_ok=True)
    command = (
        *_command(plane, MANAGER, folder),
        *(f"--kubeconfig={plane.kubeconfig(_CONTROLLERS, folder)}", f"--controllers={','.join(names)}"),
        *("--use-service-account-credentials=true", "--leader-elect=false"),
        # With the default of 20 requests a second, tests would measure this limit.
        *("--kube-api-qps=1000", "--kube-api-burst=2000", *flags),
    )
    running = await start(children, *command, name=MANAGER, path="/healthz")
    try:
        yield
    finally:
        await running.child.end()


def _command(plane: Plane, program: str, folder: Path) -> tuple[str, ...]:
    return (str(plane.binaries / program), "--bind-address=127.0.0.1", f"--cert-dir={folder}", "--v=2")
