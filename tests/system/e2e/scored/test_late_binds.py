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
from tests.system.e2e.guarded import binding
from tests.system.e2e.placing import is_bound
from tests.system.e2e.scored.test_outages import until_it_lacks_only_the_lease
from tests.system.e2e.sites import PODS, Site, pod
from tests.system.eventually import eventually
from tools.clusters.api_requests import Json, ask
from tools.clusters.processes import free_port
from tools.clusters.sim.shapes import SimNode
from tools.clusters.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

HELD_SECONDS = 25.0
LATE = "late"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}


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


@asynccontextmanager
async def slow(site: Site, pair: authority.Files) -> AsyncIterator[Slow]:
    """A webhook that reviews binds, for as long as the API server allows that to take."""
    made, port = Slow(), free_port()
    app = web.Application()
    app.add_routes([web.post("/", made.review)])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    bundle = b64encode(pair.ca.read_bytes()).decode()
    entry = {
        "name": "slow.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
        "rules": [RULE],
        "timeoutSeconds": 30,
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
    }
    await site.store.apply({**kind, "webhooks": [entry]})

    async def reviewed() -> int:
        """How many binds were reviewed; the API server is asked to bind a pod that does not exist."""
        answer = await ask(site.api, "POST", f"{PODS}/none/binding", binding("none", "none"))
        assert answer.code == HTTPStatus.NOT_FOUND
        return made.reviewed

    try:
        await eventually(reviewed, bool, "a bind was reviewed")
        yield made
    finally:
        await site.store.delete(kind)
        await runner.cleanup()


async def test_a_bind_that_is_held_up_never_lands_after_its_lead(site: Site, pair: authority.Files) -> None:
    first, other = await site.leader(), await site.scorers.add()
    async with slow(site, pair) as webhook, site.nodes(SimNode("small", "small")) as cluster:
        await until_it_lacks_only_the_lease(other)
        await site.create(pod(LATE, cpu=1))
        await until(lambda: webhook.held)
        first.child.process.send_signal(signal.SIGSTOP)
        try:
            await site.create(pod("next", cpu=1))
            await site.until_run("next", within=60)
            assert other.ready
            # Whatever the first one began would land now.
            await asyncio.sleep(max(0.0, webhook.held[0] + HELD_SECONDS + 2 - monotonic()))
            assert not is_bound((await site.pods())[LATE])
        finally:
            first.child.process.send_signal(signal.SIGCONT)
        await asyncio.sleep(3)

        assert not is_bound((await site.pods())[LATE])
        assert cluster.rejections == []
        await site.scorers.stop(first)
