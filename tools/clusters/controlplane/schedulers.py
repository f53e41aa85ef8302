"""The real kube-scheduler, with or without an extender: it decides which verbs it calls, and what fails."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Child, Children, answers, free_port, until

Json = dict[str, Any]

USER = "system:kube-scheduler"
"""The user of a scheduler; the default bindings of RBAC grant it the necessary rights."""

USERS = {USER: ""}
"""Users that the plane must know."""

VERBS = ("filter", "prioritize", "bind", "preempt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """An extender; each verb is a path of the same name. The scheduler accepts any certificate of it."""

    url: str
    verbs: Sequence[str] = VERBS

    def described(self) -> Json:
        return {
            "urlPrefix": self.url,
            **{f"{verb}Verb": verb for verb in self.verbs},
            "weight": 10,
            "nodeCacheCapable": True,
            "enableHTTPS": self.url.startswith("https://"),
            "httpTimeout": "5s",
        }


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A running scheduler; probes and metrics are at its port."""

    child: Child
    port: int


def configuration(kubeconfig: Path, *, extender: Extender | None, name: str = "default-scheduler") -> Json:
    """Return a KubeSchedulerConfiguration; unschedulable pods wait a second, then two."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # With the default of 50 requests a second, tests would measure this limit.
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
        "profiles": [{"schedulerName": name}],
        "extenders": [extender.described()] if extender else [],
    }


async def start(children: Children, *command: str, name: str) -> Scheduler:
    """Start a scheduler on a free port, and return when it knows the cluster."""
    port = free_port()
    child = await children.start(*command, f"--secure-port={port}", name=name)
    ready = partial(answers, f"https://127.0.0.1:{port}/readyz")
    await until(ready, what=f"{name} was ready", child=child)
    return Scheduler(child, port)


@asynccontextmanager
async def scheduler(
    children: Children, plane: Plane, *, extender: Extender | None = None, name: str = "default-scheduler"
) -> AsyncIterator[Scheduler]:
    """Run a scheduler for pods with the scheduler `name` during the block; the plane must know `USERS`."""
    folder = plane.folder / name
    folder.mkdir(exist_ok=True)
    file = folder / "scheduler.yaml"
    described = configuration(plane.kubeconfig(USER, folder), extender=extender, name=name)
    file.write_text(yaml.safe_dump(described, sort_keys=False))
    running = await start(
        children,
        *(str(plane.binaries / "kube-scheduler"), f"--config={file}", "--bind-address=127.0.0.1"),
        *(f"--cert-dir={folder}", "--v=2"),
        name=f"kube-scheduler-{name}",
    )
    try:
        yield running
    finally:
        await running.child.end()
