"""Replicas come and go under load, and so does their certificate, and no review fails."""

import asyncio
import signal
from functools import partial
from http import HTTPStatus

import pytest

from tests.system.e2e.clusters import Cluster, admitted, load, lossless
from tests.system.e2e.programs import kubeconfig
from tests.system.eventually import eventually
from tools.clusters import fleets, shipped
from tools.clusters.api_requests import ask
from tools.clusters.processes import program, run

pytestmark = pytest.mark.asyncio(loop_scope="session")


# ---- the webhook


async def test_no_review_fails_when_a_replica_is_ended(cluster: Cluster) -> None:
    async with lossless(cluster.api, right=admitted):
        assert await cluster.replicas.stop(cluster.replicas.running[0]) == 0
        await cluster.replicas.start()


async def test_killed_replica_fails_no_review_after_endpoints(cluster: Cluster) -> None:
    """Calls under way on its connections are lost."""
    async with load(cluster.api, right=admitted) as count:
        await asyncio.sleep(1)
        await cluster.replicas.kill(cluster.replicas.running[0])
        await asyncio.sleep(2)
        lost = len(count.wrong)
        await asyncio.sleep(2)
        await cluster.replicas.start()
    assert len(count.wrong) == lost


# ---- the controller


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_ended_leader_fails_no_review_and_another_labels(cluster: Cluster, how: str) -> None:
    leader = await cluster.until_led()
    async with lossless(cluster.api, right=admitted):
        ending = asyncio.create_task(getattr(cluster.controllers, how)(leader))
        await cluster.until_led(by_other_than=leader)
        async with cluster.guest(f"after-the-{how}", fleets.SHAPES["cpu"]):
            await cluster.until_labelled(f"after-the-{how}")
        assert not await ending
        await cluster.controllers.start()


async def test_frozen_leader_does_not_lead_when_it_wakes(cluster: Cluster) -> None:
    leader = await cluster.until_led()
    leader.child.process.send_signal(signal.SIGSTOP)
    other = await cluster.until_led(by_other_than=leader)
    leader.child.process.send_signal(signal.SIGCONT)
    await asyncio.sleep(3)
    assert await cluster.leader() is other
    assert (await leader.metric("numalign_leader"), await other.metric("numalign_leader")) == (0, 1)


async def test_webhook_gets_ready_without_a_controller(cluster: Cluster) -> None:
    async with lossless(cluster.api, right=admitted):
        for each in tuple(cluster.controllers.running):
            await cluster.controllers.stop(each)
        await cluster.replicas.stop(await cluster.replicas.start())
        for _ in range(2):
            await cluster.controllers.start()


# ---- the certificate that replicas share


# Each step is given as long as two replicas need that look every ten seconds, and some seconds more.
ROTATE = (
    *("rotate", "--namespace", shipped.NAMESPACE, "--secret", shipped.SECRET),
    *("--configuration", shipped.CONFIGURATION, "--settle", "15"),
)


async def test_rotation_replaces_certificate_and_ca_everywhere(cluster: Cluster) -> None:
    before = await cluster.shown()
    async with lossless(cluster.api, right=admitted):
        code, output = await run(
            program("numalign-certs"), *ROTATE, "--kubeconfig", str(kubeconfig(cluster.plane, "admin"))
        )
        assert code == 0, output
    after = await cluster.shown()

    # One certificate before and one after, and bundles of one authority.
    assert [len(each) for both in (before, after) for each in both] == [1] * 4
    assert {len(authorities) for _, trusted in (before, after) for authorities in trusted} == {1}
    assert not before[0] & after[0]
    assert not before[1] & after[1]


async def test_spoilt_secret_is_repaired_without_failed_reviews(cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{shipped.NAMESPACE}/secrets/{shipped.SECRET}"
    secret = (await ask(cluster.api, "GET", path)).body
    served, _ = await cluster.shown()

    async with lossless(cluster.api, right=admitted):
        spoiled = secret | {"data": {"tls.crt": "", "tls.key": ""}}
        assert (await ask(cluster.api, "PUT", path, spoiled)).code == HTTPStatus.OK
        await eventually(
            partial(ask, cluster.api, "GET", path),
            lambda answer: answer.body["data"].get("tls.crt") == secret["data"]["tls.crt"],
            "the certificate was in the Secret again",
        )

    assert (await cluster.shown())[0] == served
