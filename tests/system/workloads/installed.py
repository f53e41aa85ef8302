"""Webhook and controller as the chart installs them for gates and healing, as processes of their own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from tests.system.e2e.clusters import leader_of
from tests.system.e2e.programs import kubeconfig
from tests.system.eventually import eventually
from tests.system.workloads.stages import Stage
from tests.system.workloads.workloads import WIDE
from tools.clusters import builds, shipped
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import INTENT, pod, rehearse
from tools.clusters.controlplane.planes import Plane
from tools.clusters.ecosystem import Operator
from tools.clusters.processes import program, until
from tools.clusters.replicas import ONLY_METRICS, PORTS, Replica, Replicas, replicas
from tools.generate.manifests import Installation, made, of_test

HELM = pytest.StashKey[Path]()

VALUES = "gates.enabled=true heal.enabled=true"
"""Of the chart."""

GATE, HEAL = "numalign.io/gate", "numalign.io/heal"
"""Labels of namespaces."""

KEPT = 1
"""Refused pods of an owner that are kept: fewer than by default, so that fewer have to be seen."""

IMPATIENT = {"bind": "127.0.0.1", "tls-names": "127.0.0.1,localhost", "drain-seconds": "0"}
SOON = {"heal-per-minute": "60", "heal-owner-seconds": "1", "heal-node-seconds": "1"}
OWN: Mapping[str, Mapping[str, str]] = {
    shipped.NAME: IMPATIENT,
    shipped.CONTROLLER: {**IMPATIENT, **SOON, "keep-refused": str(KEPT)},
}
"""What is different on this machine."""


async def programs(*beside: Operator) -> Path:
    """Have everything built before the time of any test runs; the path of helm."""
    await builds.kubelet()
    await builds.control_plane(builds.USUAL)
    for operator in beside:
        await operator.find()
    return await builds.helm()


@dataclass(frozen=True, slots=True)
class Numalign:
    stage: Stage
    installation: Installation
    webhooks: Replicas
    controllers: Replicas

    @asynccontextmanager
    async def home(self, name: str, labels: Mapping[str, str]) -> AsyncIterator[str]:
        """A namespace with these labels during the block; all of the webhook's replicas know of its gate."""
        async with self.stage.home(name, labels) as home:
            await self.until_gated(home, gated=labels.get(GATE) == "enabled")
            yield home

    async def label(self, home: str, labels: Mapping[str, str]) -> None:
        """Have these labels on a namespace, and all of the webhook's replicas know of its gate."""
        await self.stage.store.apply(namespace(home, labels))
        await self.until_gated(home, gated=labels.get(GATE) == "enabled")

    async def until_gated(self, home: str, *, gated: bool = True) -> None:
        """Return when pods with an intent are held in a namespace, or are not.

        Each replica is asked by itself: the API server calls one of them for as long as its connection lasts.
        """
        wish = pod("rehearsal", asks={"cpu": str(WIDE), "memory": "64Mi"}, annotations=INTENT)

        async def held() -> set[bool]:
            try:
                changes = [await replica.mutated(wish, namespace=home) for replica in self.webhooks.running]
            except (aiohttp.ClientError, TimeoutError):
                return set()
            return {
                any(each["path"].startswith("/spec/schedulingGates") for each in some) for some in changes
            }

        await eventually(held, lambda seen: seen == {gated}, f"pods of {home} were held, {gated=}")

    async def until_led(self, *, within: float = 45, by_other_than: Replica | None = None) -> Replica:
        """The controller that leads, once a running one does."""
        leader = await eventually(
            partial(leader_of, self.stage.api, self.controllers),
            lambda leader: leader is not None and leader is not by_other_than,
            "one led",
            within=within,
        )
        assert leader
        return leader


@asynccontextmanager
async def numalign(stage: Stage, helm: Path, values: str = VALUES) -> AsyncIterator[Numalign]:
    """Everything of ours during the block, with every node labelled and one controller leading."""
    installation = await made(helm, values)
    plane, children = stage.cluster.plane, stage.cluster.children
    commands = [command(installation, name, plane) for name in shipped.ACCOUNTS]
    async with (
        replicas(children, command=commands[0], name="webhook") as webhooks,
        replicas(children, command=commands[1], name="controller", ports=ONLY_METRICS) as controllers,
    ):
        await stage.store.apply(namespace(shipped.NAMESPACE, {}))
        for document in installation.values():
            # Pods of a Deployment, and of `helm test`, would take room on nodes.
            if document["kind"] != "Deployment" and not of_test(document):
                await stage.store.apply(shipped.by_address(document, webhooks.service.port))
        for _ in range(2):
            await controllers.start()
            await webhooks.add()
        for each in webhooks.running:
            await until(each.is_ready, what=f"{each.name} was ready", child=each.child)
        running = Numalign(stage, installation, webhooks, controllers)
        await running.until_led()
        await eventually(
            partial(stage.store.list, "v1", "Node"),
            lambda nodes: all(shipped.LABEL in node["metadata"]["labels"] for node in nodes),
            "every node had a class",
        )
        # The API server has learned whom to ask of a pod.
        await eventually(
            partial(rehearse, stage.api, asks={"cpu": "1000", "memory": "1Gi"}, namespace="default"),
            lambda answer: "numalign:" in answer.body.get("message", ""),
            "the webhook was asked",
        )
        yield running


def command(installation: Installation, name: str, plane: Plane) -> tuple[str, ...]:
    """A program as its Deployment starts it, but for where things are, and its ports."""
    arguments: list[str] = installation.container(name)["args"]
    flags: Mapping[str, str] = {
        **dict(argument.removeprefix("--").split("=", 1) for argument in arguments),
        "kubeconfig": str(kubeconfig(plane, shipped.ACCOUNTS[name])),
        "namespace": shipped.NAMESPACE,
        **OWN[name],
    }
    return program(name), *(f"--{flag}={value}" for flag, value in flags.items() if flag not in PORTS)
