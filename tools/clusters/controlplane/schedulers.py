"""The real kube-scheduler, with or without an extender.

The scheduler decides how it uses an extender: which verbs it calls for which pods, which answers are
failures, and when it tries again. So tests run the real one.
"""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Child, Children, free_port, until

Json = dict[str, Any]

USER = "system:kube-scheduler"
"""The user of a scheduler; the default bindings of RBAC grant it the necessary rights."""

USERS = {USER: ""}
"""Users that the plane must know."""

VERBS = ("filter", "prioritize", "bind", "preempt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """An extender and how to call it; each verb is a path of the same name.

    At an `https` address without a `ca`, the scheduler accepts any certificate. With `managed` resources, the
    extender is called only for pods that request one of them.
    """

    url: str
    verbs: Sequence[str] = VERBS
    weight: int = 10
    ca: Path | None = None
    timeout: str = "5s"
    ignorable: bool = False
    managed: Sequence[str] = ()

    def described(self) -> Json:
        """Return the entry of the extender in a scheduler's configuration."""
        secure = self.url.startswith("https://")
        return {
            "urlPrefix": self.url,
            **{f"{verb}Verb": verb for verb in self.verbs},
            "weight": self.weight,
            "nodeCacheCapable": True,
            "enableHTTPS": secure,
            **({"tlsConfig": {"caFile": str(self.ca)}} if secure and self.ca else {}),
            "httpTimeout": self.timeout,
            "ignorable": self.ignorable,
            "managedResources": [{"name": name, "ignoredByScheduler": False} for name in self.managed],
        }


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A running scheduler. `log` is its output."""

    name: str
    child: Child
    port: int
    log: Path

    async def ready(self) -> bool:
        """Return whether it knows the cluster and schedules."""
        url = f"https://127.0.0.1:{self.port}/readyz"
        with suppress(aiohttp.ClientError, ssl.SSLError, TimeoutError):
            async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
                return answer.status == HTTPStatus.OK
        return False


def configuration(
    kubeconfig: Path,
    *,
    extender: Extender | None,
    name: str = "default-scheduler",
    backoff_seconds: tuple[int, int] = (1, 2),
) -> Json:
    """Return a KubeSchedulerConfiguration; unschedulable pods wait `backoff_seconds`, first and at most."""
    first, most = backoff_seconds
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # With the default of 50 requests a second, tests would measure this limit.
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": first,
        "podMaxBackoffSeconds": most,
        "profiles": [{"schedulerName": name}],
        "extenders": [extender.described()] if extender else [],
    }


async def start(children: Children, *command: str, name: str) -> Scheduler:
    """Start a scheduler on a free port, and return when it is ready."""
    port = free_port()
    child = await children.start(*command, f"--secure-port={port}", name=name)
    running = Scheduler(name, child, port, children.logs / name)
    await until(running.ready, what=f"{name} was ready", child=child)
    return running


@asynccontextmanager
async def scheduler(
    children: Children,
    plane: Plane,
    *,
    extender: Extender | None = None,
    name: str = "default-scheduler",
    backoff_seconds: tuple[int, int] = (1, 2),
) -> AsyncIterator[Scheduler]:
    """Run a scheduler for pods with the scheduler `name` during the block; the plane must know `USERS`."""
    folder = plane.folder / name
    folder.mkdir(exist_ok=True)
    kubeconfig = plane.kubeconfig(USER, folder)
    file = folder / "scheduler.yaml"
    told = configuration(kubeconfig, extender=extender, name=name, backoff_seconds=backoff_seconds)
    file.write_text(yaml.safe_dump(told, sort_keys=False))
    port = free_port()
    child = await children.start(
        str(plane.binaries / "kube-scheduler"),
        f"--config={file}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--v=2",
        name=f"kube-scheduler-{name}",
    )
    running = Scheduler(name, child, port, children.logs / child.name)
    try:
        await until(running.ready, what=f"{name} was ready", child=child)
        yield running
    finally:
        await child.end()
