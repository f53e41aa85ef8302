"""A cluster whose pods the real scheduler places by our scorer, on nodes whose kubelets can reject them.

The kubelets' managers are the real ones, so a pod with a wrong reservation is rejected here as anywhere else.
The scorer comes as its service account, with the roles that are shipped.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from typing import Any

import aiohttp
import orjson
from kubernetes_asyncio.client.api_client import ApiClient
from prometheus_client.parser import text_string_to_metric_families

from numalign.kube.client import Api, Patch
from numalign.kube.decode import placements
from numalign.model.intent import PLACEMENT
from tests.system.e2e.placing import is_bound
from tests.system.eventually import eventually
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import INTENT, Json, ask, patch
from tools.clusters.controlplane.planes import Plane
from tools.clusters.replicas import Replica, Replicas
from tools.clusters.sim.cluster import Cluster, simulated
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.sim.shapes import GPU, SimNode
from tools.clusters.waiting import SELDOM, seconds_until

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
TOPOLOGY_NODES = "numalign_topology_nodes"
STIR_SECONDS = 1.0

Amounts = dict[tuple[str, ...], dict[str, int]]
"""What a pod holds, by the names of zones."""


@dataclass(frozen=True, slots=True)
class SimulatedSite:
    plane: Plane
    store: Store

    @property
    def api(self) -> ApiClient:
        return self.store.api

    @property
    def server(self) -> Api:
        return Api(self.api, namespace="default")

    async def create(self, *wishes: Json) -> None:
        for wish in wishes:
            answer = await ask(self.api, "POST", PODS, wish)
            assert answer.code == HTTPStatus.CREATED, answer.body

    async def pods(self) -> dict[str, Json]:
        return {each["metadata"]["name"]: each for each in (await ask(self.api, "GET", PODS)).body["items"]}

    async def events(self, name: str, reason: str) -> list[str]:
        found = await ask(
            self.api, "GET", EVENTS, fieldSelector=f"involvedObject.name={name},reason={reason}"
        )
        return [each["message"] for each in found.body["items"]]

    async def clear(self, machines: Iterable[SimNode]) -> None:
        """Neither these nodes nor any pod or event from now on."""
        await ask(self.api, "DELETE", PODS, gracePeriodSeconds="0")
        await ask(self.api, "DELETE", EVENTS)
        for machine in machines:
            await ask(self.api, "DELETE", f"/api/v1/nodes/{machine.name}")
            await ask(self.api, "DELETE", f"{TOPOLOGIES}/{machine.name}")


async def until_nodes(replica: Replica, number: int) -> None:
    """Returns when a program knows so many nodes, and the topologies of all of them.

    Programs gather changes of nodes for up to a second before they use them.
    """

    async def known() -> Counter[str]:
        families = text_string_to_metric_families(await replica.metrics())
        samples = [each for family in families for each in family.samples if each.name == TOPOLOGY_NODES]
        assert samples, f"{replica.name} has no metric {TOPOLOGY_NODES}"
        return Counter({each.labels["source"]: int(each.value) for each in samples if each.value})

    await seconds_until(
        known,
        lambda seen: seen == Counter(exporter=number),
        what=f"{replica.name} knew {number} nodes and their topologies",
        # After an outage of the API server, its watches may pause for half a minute, more than once.
        within=120,
        every=SELDOM,
    )


@dataclass(frozen=True, slots=True)
class Site(SimulatedSite):
    """A control plane with a scheduler, and the Service that leads it to whichever scorer is ready."""

    scorers: Replicas

    # ---- nodes

    @asynccontextmanager
    async def nodes(self, *machines: SimNode, **knobs: Any) -> AsyncIterator[Cluster]:  # noqa: ANN401  those of `simulated`
        """These nodes during the block, once the scorer knows them; afterwards neither they nor any pod."""
        try:
            async with simulated(self.server, machines, **knobs) as cluster:
                stirring = asyncio.create_task(self._stir(machines[0].name))
                try:
                    await self.until_ranked(machine.name for machine in machines)
                    yield cluster
                finally:
                    stirring.cancel()
                    await asyncio.gather(stirring, return_exceptions=True)
        finally:
            # After the exporters have ended: they would publish the topologies again.
            await self.clear(machines)
            await until_nodes(await self.leader(), 0)

    async def _stir(self, name: str) -> None:
        """Something always happens, as in a cluster at work.

        A scheduler retries a pod that an extender refused when something changes that the scheduler watches;
        topologies are nothing of that, and it may see a pod's end before the extender does.
        """
        for number in count():
            await asyncio.sleep(STIR_SECONDS)
            wish = {"metadata": {"annotations": {"example.com/stirred": str(number)}}}
            with suppress(aiohttp.ClientError, TimeoutError):
                await patch(self.api, f"/api/v1/nodes/{name}", wish, how=Patch.MERGE)

    async def until_ranked(self, names: Iterable[str]) -> None:
        """Returns when the scorer knows the zones of exactly these nodes."""
        wanted = set(names)

        async def known() -> set[str]:
            # Of a node that the API server still has tainted as new, only the taint is given.
            ranked = await self.rank(pod("probe", cpu=1))
            return {each["name"] for each in ranked["nodes"] if each.get("known")}

        await seconds_until(known, lambda seen: seen == wanted, what=f"{wanted} were known", within=30)

    # ---- pods

    async def delete(self, name: str) -> None:
        answer = await ask(self.api, "DELETE", f"{PODS}/{name}")
        assert answer.code == HTTPStatus.OK, answer.body

    async def running(self) -> set[str]:
        return {name for name, each in (await self.pods()).items() if phase(each) == "Running"}

    async def until_run(self, *names: str, within: float = 30) -> None:
        what = f"{', '.join(sorted(names))} ran"
        await eventually(self.running, lambda seen: {*names} <= seen, what, within=within)

    async def until_event(self, name: str, reason: str, text: str) -> None:
        await eventually(
            partial(self.events, name, reason),
            lambda seen: any(each.startswith(text) for each in seen),
            f"an event on {name}: {text}",
        )

    async def since(self, version: str) -> list[Json]:
        """All that pods were, one change after another, after a version of their list."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
        lines = self.server.lines(PODS, [*query.items()], what="pods", silence=10)
        return [orjson.loads(line)["object"] async for line in lines if line]

    # ---- scorers

    async def rank(self, wish: Json) -> Json:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.scorers.url}/v1/rank", json={"pod": wish}) as answer,
        ):
            text = await answer.text()
            assert answer.status == HTTPStatus.OK, text
            found: Json = json.loads(text)
            return found

    async def count(self, name: str, **labels: str) -> float:
        """The sum of a metric of the scorer that is ready, over everything that has these labels."""
        return await counted(await self.leader(), name, **labels)

    async def leader(self, *, within: float = 40) -> Replica:
        async def ready() -> list[Replica]:
            return [each for each in self.scorers.running if each.ready]

        [found] = await eventually(ready, lambda seen: len(seen) == 1, "one was ready", within=within)
        return found


async def counted(replica: Replica, name: str, **labels: str) -> float:
    """The sum of a metric over everything that has these labels."""
    families = text_string_to_metric_families(await replica.metrics())
    found = (sample for family in families for sample in family.samples if sample.name == name)
    return sum(sample.value for sample in found if labels.items() <= sample.labels.items())


# ---- pods


def pod(
    name: str, *, cpu: int, gpu: int = 0, annotations: Mapping[str, str] = INTENT, **spec: object
) -> Json:
    """A guaranteed pod of one container, that wants all of it from one zone."""
    amounts = {"cpu": str(cpu), "memory": f"{cpu}Gi", **({GPU: str(gpu)} if gpu else {})}
    container = {
        "name": "main",
        "image": "registry.example/main",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": dict(annotations)},
        "spec": {"containers": [container], **spec},
    }


def on(node: str) -> Json:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def phase(seen: Json) -> str:
    """What has become of a pod; empty of one without a node."""
    return str(seen["status"]["phase"]) if is_bound(seen) else ""


def recorded(seen: Json) -> Amounts | None:
    text = seen["metadata"].get("annotations", {}).get(PLACEMENT)
    return None if text is None else {zones: dict(of) for zones, of in placements.read(text).items()}


def given(cluster: Cluster, seen: Json) -> Amounts:
    held = cluster.held(seen["spec"]["nodeName"])["{namespace}/{name}".format_map(seen["metadata"])]
    return {tuple(f"node-{zone}" for zone in zones): dict(of) for zones, of in held.items() if of}
