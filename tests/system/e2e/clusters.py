"""A cluster with numalign installed."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path

import aiohttp
from cryptography import x509
from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.eventually import eventually
from tools.clusters import fleets, shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import INTENT, Answer, Json, ask, create, gpus, pod, rehearse
from tools.clusters.controlplane.audits import reviews
from tools.clusters.controlplane.planes import Plane
from tools.clusters.fleets import Shape
from tools.clusters.processes import program
from tools.clusters.replicas import PORTS, Replica, Replicas
from tools.clusters.waiting import seconds_until
from tools.clusters.wires import Wire

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{shipped.NAMESPACE}/leases/{shipped.CONTROLLER}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Its parts, and common requests.

    `replicas` are those of the webhook. `uplink` is what the programs come to the API server through.
    """

    plane: Plane
    store: Store
    replicas: Replicas
    controllers: Replicas
    uplink: Wire

    @property
    def api(self) -> ApiClient:
        return self.store.api

    async def classes(self) -> dict[str, str | None]:
        nodes = await self.store.list("v1", "Node")
        return {
            node["metadata"]["name"]: node["metadata"].get("labels", {}).get(shipped.LABEL) for node in nodes
        }

    async def until_labelled(self, *names: str) -> None:
        def labelled(now: Mapping[str, str | None]) -> bool:
            return all(now[name] for name in names)

        await eventually(self.classes, labelled, f"{', '.join(names)} had a class")

    async def until_answered(
        self,
        right: Callable[[Answer], bool],
        *,
        asks: Mapping[str, str],
        namespace: str = "team",
        annotations: Mapping[str, str] = INTENT,
        within: float = 60,
    ) -> float:
        """The seconds until such a pod is answered as it should be."""
        look = partial(rehearse, self.api, asks=asks, namespace=namespace, annotations=annotations)
        return await seconds_until(look, right, what=f"a pod with {asks} was answered so", within=within)

    async def until_all_admit(self, *, asks: Mapping[str, str], within: float) -> None:
        """Wait until each replica admits such a pod without a warning.

        The API server calls one of them for as long as its connection lasts.
        """
        wish = pod("rehearsal", asks=asks, annotations=INTENT)
        for replica in self.replicas.running:
            await eventually(
                partial(replica.validated, wish, namespace="team"),
                lambda seen: seen["allowed"] and not seen.get("warnings"),
                f"{replica.name} admitted a pod with {asks}",
                within=within,
            )

    async def join(self, name: str, shape: Shape) -> None:
        """A node registers and its topology is published, or both are written anew."""
        await self.store.replace(fleets.node(name, shape))
        await self.store.replace(fleets.topology(name, shape))

    @asynccontextmanager
    async def guest(self, name: str, shape: Shape) -> AsyncIterator[None]:
        await self.join(name, shape)
        try:
            yield
        finally:
            await self.leave(name)

    async def leave(self, name: str) -> None:
        await self.store.delete(fleets.node(name, fleets.LARGER))
        await self.store.delete(fleets.topology(name, fleets.LARGER))

    async def shown(self) -> tuple[set[int], set[tuple[int, ...]]]:
        """Serial numbers: of the certificates of replicas, and of the authorities in webhooks' bundles."""
        bundles = [
            b64decode(entry["clientConfig"]["caBundle"])
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
            for configuration in await self.store.list("admissionregistration.k8s.io/v1", kind)
            if configuration["metadata"]["name"] == shipped.CONFIGURATION
            for entry in configuration["webhooks"]
        ]
        trusted = {
            tuple(each.serial_number for each in x509.load_pem_x509_certificates(bundle))
            for bundle in bundles
        }
        return {await each.serial() for each in self.replicas.running}, trusted

    async def leader(self) -> Replica | None:
        return await leader_of(self.api, self.controllers)

    async def until_led(self, *, by_other_than: Replica | None = None) -> Replica:
        """The controller that leads, once a running one does: a lease of 15 s may have to expire."""
        leader = await eventually(
            self.leader, lambda leader: leader is not None and leader is not by_other_than, "one led"
        )
        assert leader
        return leader


async def leader_of(api: ApiClient, controllers: Replicas) -> Replica | None:
    """The holder of the lease: the replica with its identity in its log."""
    lease = (await ask(api, "GET", LEASE)).body
    holder = lease.get("spec", {}).get("holderIdentity")
    own = f'"identity":"{holder}"'
    return next((each for each in controllers.running if own in each.log.read_text()), None)


def command(kubeconfig: Path, name: str = shipped.NAME, **flags: str) -> tuple[str, ...]:
    """A program as it is shipped, on this machine; whoever starts it adds the ports."""
    arguments = shipped.arguments(name) | {
        "kubeconfig": str(kubeconfig),
        "namespace": shipped.NAMESPACE,
        "bind": "127.0.0.1",
        "tls-names": "127.0.0.1,localhost",
        **{flag.replace("_", "-"): value for flag, value in flags.items()},
    }
    return program(name), *(f"--{flag}={value}" for flag, value in arguments.items() if flag not in PORTS)


# So that a test need not wait as long as a cluster should.
IMPATIENT = {"drain_seconds": "2"}


def excluded(answer: Answer) -> frozenset[str]:
    """The classes from which a pod is kept off."""
    affinity = answer.body.get("spec", {}).get("affinity", {}).get("nodeAffinity", {})
    required: Json = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return frozenset(
        value
        for term in required.get("nodeSelectorTerms", [])
        for expression in term["matchExpressions"]
        if (expression["key"], expression["operator"]) == (shipped.LABEL, "NotIn")
        for value in expression["values"]
    )


def admitted(answer: Answer) -> bool:
    return answer.code == HTTPStatus.CREATED and bool(excluded(answer)) and not answer.warnings


def warned(answer: Answer) -> bool:
    """Created and steered, with a warning that it has to wait."""
    return answer.code == HTTPStatus.CREATED and bool(excluded(answer)) and bool(answer.warnings)


def refused(answer: Answer) -> bool:
    message = answer.body.get("message", "")
    return answer.code == HTTPStatus.FORBIDDEN and "denied the request: numalign:" in message


# ---- pods, one after the other, while something happens to the webhook
#
# They are asked for in a namespace that enforces, and only rehearsed. There a review that fails is an error
# that the pod's creator sees; and a pod that was not steered shows that the other review failed, which the
# API server forgives. Both are counted, and so are the failures that the API server itself counted.


LOADED = pod("loaded", asks=gpus(4), annotations=INTENT)
"""A pod that some nodes of the fleet can align, and others cannot."""

WORKERS = 3
PAUSE_SECONDS = 0.01
STARTING = "not yet ready to handle request"
"""What the API server says of every pod while it learns what it needs for admission."""


@dataclass(slots=True)
class Load:
    """What became of the pods so far.

    `right` were answered as they should be; `wrong` holds what was said to the others. `unanswered` is how
    often nobody answered, the API server itself being away or just starting.
    """

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    unanswered: int = 0
    over: bool = False

    async def work(self, api: ApiClient, right: Callable[[Answer], bool]) -> None:
        while not self.over:
            try:
                answer = await create(api, LOADED, namespace="enforced", dryRun="All")
            except (aiohttp.ClientError, OSError):
                self.unanswered += 1
            else:
                output = answer.body.get("message", "the pod was not steered")
                if STARTING in output:
                    self.unanswered += 1
                elif right(answer):
                    self.right += 1
                else:
                    self.wrong.append(f"{answer.code} {output}")
            await asyncio.sleep(PAUSE_SECONDS)


@asynccontextmanager
async def load(api: ApiClient, *, right: Callable[[Answer], bool]) -> AsyncIterator[Load]:
    """Pods are asked for all the time until the end of the block."""
    count = Load()
    async with asyncio.TaskGroup() as workers:
        for _ in range(WORKERS):
            workers.create_task(count.work(api, right))
        yield count
        count.over = True


@asynccontextmanager
async def lossless(api: ApiClient, *, right: Callable[[Answer], bool]) -> AsyncIterator[Load]:
    """Pods are asked for before, while and after; no review of them fails."""
    _, before = await reviews(api)
    async with load(api, right=right) as count:
        await asyncio.sleep(1)
        yield count
        await asyncio.sleep(1)
    _, after = await reviews(api)
    assert (after - before, count.wrong) == (0, [])
    assert count.right > 50
