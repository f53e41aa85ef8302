"""A bind that the API server holds up ends before anybody else may bind, though its leader is frozen."""

import asyncio
import signal
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic

import pytest
from aiohttp import web

from certs import authority
from tests.system.bindings import binding
from tests.system.e2e.scored.test_outages import until_it_lacks_only_the_lease
from tests.system.e2e.sites import PODS, Site, is_bound, pod
from tests.system.eventually import eventually
from tools.clusters.api_requests import Json, ask
from tools.clusters.processes import free_port
from tools.clusters.sim.shapes import SimNode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
HELD_SECONDS = 25.0
LATE = "late"


@dataclass
class Slow:
    """Counts and reviews binds, and lets one pod wait for long; `held` are the moments when that began."""

    held: list[float] = field(default_factory=list)
    reviewed: int = 0

    async def review(self, request: web.Request) -> web.Response:
        asked: Json = (await request.json())["request"]
        self.reviewed += 1
        if asked["name"] == LATE:
            self.held.append(monotonic())
            await asyncio.sleep(HELD_SECONDS)
        output = {"uid": asked["uid"], "allowed": True}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": output}
        )

    async def has_one(self) -> bool:
        return bool(self.held)


def configuration(port: int, pair: authority.Files) -> Json:
    """Has every bind reviewed, for as long as the API server allows that to take."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    bundle = b64encode(pair.ca.read_bytes()).decode()
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [
            {
                "name": "slow.example.com",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
                "rules": [rule],
                "timeoutSeconds": 30,
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


@asynccontextmanager
async def slow(site: Site, pair: authority.Files) -> AsyncIterator[Slow]:
    """A webhook that the API server asks about binds during the block."""
    made, port = Slow(), free_port()
    app = web.Application()
    app.add_routes([web.post("/", made.review)])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    answer = await ask(site.api, "POST", CONFIGURATIONS, configuration(port, pair))
    assert answer.code == HTTPStatus.CREATED, answer.body
    try:
        await until_called(site, made)
        yield made
    finally:
        await ask(site.api, "DELETE", f"{CONFIGURATIONS}/slow")
        await runner.cleanup()


async def until_called(site: Site, webhook: Slow) -> None:
    """Returns when the API server has binds reviewed; it is asked to bind a pod that does not exist."""
    wish = binding("none", "none")

    async def reviewed() -> int:
        assert (await ask(site.api, "POST", f"{PODS}/none/binding", wish)).code == HTTPStatus.NOT_FOUND
        return webhook.reviewed

    await eventually(reviewed, bool, "a bind was reviewed")


async def test_a_bind_that_is_held_up_never_lands_after_its_lead(site: Site, pair: authority.Files) -> None:
    first, other = await site.leader(), await site.scorers.add()
    async with slow(site, pair) as webhook, site.nodes(SimNode("small", "small")) as cluster:
        await until_it_lacks_only_the_lease(other)
        await site.create(pod(LATE, cpu=1))
        await eventually(webhook.has_one, lambda seen: seen, "a bind was held up")
        first.child.send(signal.SIGSTOP)
        try:
            await site.create(pod("next", cpu=1))
            await site.until_run("next", within=60)
            assert other.ready
            # Whatever the first one began would land now.
            await asyncio.sleep(max(0.0, webhook.held[0] + HELD_SECONDS + 2 - monotonic()))
            assert not is_bound((await site.pods())[LATE])
        finally:
            first.child.send(signal.SIGCONT)
        await asyncio.sleep(3)

        assert not is_bound((await site.pods())[LATE])
        assert cluster.rejections == []
        await site.scorers.stop(first)
