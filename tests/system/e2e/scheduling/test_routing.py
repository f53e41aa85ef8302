"""The labels of namespaces choose the scheduler of pods: the shipped webhook with both schedulers."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import pytest
import pytest_asyncio

from certs import authority
from numalign.model.intent import PLACEMENT, PLACEMENT_GATE
from tests.system.e2e.placing import SECOND, Cluster, Replica, is_bound
from tests.system.e2e.programs import Webhook, kubeconfig
from tests.system.eventually import eventually
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import INTENT, Json, ask, create, gpus, pod
from tools.clusters.controlplane.schedulers import scheduler
from tools.clusters.processes import Children

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

module_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")

DEFAULT = "default-scheduler"
TO_SECOND, AT_GATE = {"numalign.io/scheduler": SECOND}, {"numalign.io/gate": "enabled"}
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "routed": TO_SECOND,
    "gated": AT_GATE,
    "both": {**TO_SECOND, **AT_GATE},
}
GATES = [{"name": PLACEMENT_GATE}]


@dataclass(frozen=True, slots=True)
class Site:
    cluster: Cluster
    webhook: Webhook

    async def made(
        self, where: str, name: str, asks: Mapping[str, str] = INTENT, /, *, dry: bool = False, **spec: object
    ) -> Json:
        wish = pod(name, asks={"cpu": "1", "memory": "1Gi", **gpus(1)}, annotations=asks)
        wish["spec"] |= spec
        answer = await create(self.cluster.api, wish, namespace=where, **({"dryRun": "All"} if dry else {}))
        assert answer.code == HTTPStatus.CREATED, answer.body
        return answer.body

    async def seen(self, where: str, name: str) -> Json:
        return (await ask(self.cluster.api, "GET", f"/api/v1/namespaces/{where}/pods/{name}")).body

    async def bound(self, where: str, name: str) -> Json:
        """The pod, once it has a node, and runs: the scorer waits for pods that were created with others."""
        await eventually(partial(self.seen, where, name), is_bound, f"{name} had a node")
        return await self.cluster.run(name, where)


@module_fixture()
async def site(
    children: Children, cluster: Cluster, scorer: Replica, pair: authority.Files
) -> AsyncIterator[Site]:
    assert scorer.child.running()
    for name, labels in NAMESPACES.items():
        await cluster.store.apply(namespace(name, labels))
    file = kubeconfig(cluster.plane, "admin")
    webhook = Webhook(children, pair, f"--kubeconfig={file}", "--gates=true", name="webhook-routing")
    await webhook.start()
    documents = webhook.configurations(cluster.plane.ca)
    running = Site(cluster, webhook)
    async with scheduler(children, cluster.plane, name=DEFAULT):
        for document in documents:
            await cluster.store.apply(document)
        await eventually(
            partial(running.made, "routed", "tried", dry=True),
            lambda seen: seen["spec"]["schedulerName"] == SECOND,
            "a pod was handed over",
        )
        yield running
        for document in documents:
            await cluster.store.delete(document)
        await cluster.clear()


async def test_intent_routes_to_the_scheduler_of_the_namespace(site: Site) -> None:
    stored = await site.made("routed", "aligned")
    bound = await site.bound("routed", "aligned")
    assert stored["spec"]["schedulerName"] == SECOND
    assert "schedulingGates" not in stored["spec"]
    # Only the scorer writes it, as it binds.
    assert PLACEMENT in bound["metadata"]["annotations"]


async def test_a_pod_that_names_another_scheduler_is_left_to_that(site: Site) -> None:
    stored = await site.made("both", "of-volcano", schedulerName="volcano")
    assert stored["spec"]["schedulerName"] == "volcano"
    assert "schedulingGates" not in stored["spec"]


async def test_pod_without_intent_keeps_its_scheduler(site: Site) -> None:
    for name, asks in (("silent", {}), ("none", {"numalign.io/policy": "none"})):
        stored = await site.made("both", name, asks)
        bound = await site.bound("both", name)
        assert stored["spec"]["schedulerName"] == DEFAULT
        assert PLACEMENT not in bound["metadata"].get("annotations", {})


async def test_a_pod_at_the_gate_is_not_scheduled(site: Site) -> None:
    stored = await site.made("gated", "held")
    assert (stored["spec"]["schedulerName"], stored["spec"]["schedulingGates"]) == (DEFAULT, GATES)
    # What comes after it is placed, and it is not.
    await site.made("plain", "after")
    await site.bound("plain", "after")
    held = await site.seen("gated", "held")
    [condition] = held["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
    assert not is_bound(held)


async def test_without_the_webhook_pods_are_placed_as_ever(site: Site) -> None:
    await site.webhook.child.end()
    for where in ("routed", "gated"):
        stored = await site.made(where, "unseen")
        assert stored["spec"]["schedulerName"] == DEFAULT
        assert "schedulingGates" not in stored["spec"]
        await site.bound(where, "unseen")
