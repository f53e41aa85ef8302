"""A rotation under callers that verify: not one handshake and not one call fails."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from certs import manual_rotation, secret
from certs.keeper import Certificates
from certs.reader import SharedCertificate, start_pair
from numalign.kube.client import Api
from numalign.runtime import server
from numalign.runtime.clock import utc_now
from numalign.runtime.server_settings import ServerSettings
from tests.unit.certs.conftest import Keeper, Reader
from tests.worlds.log import RecordedLog
from tests.worlds.pairs import NAMES, PLACE, VALIDATING, Time, bundles
from tools.clusters.fake_api import FakeApi


@dataclass(frozen=True)
class Replica:
    """A server that really listens, and what reads its certificate."""

    certificate: SharedCertificate
    url: str


Start = Callable[[str], AbstractAsyncContextManager[Replica]]


async def answer(request: web.Request) -> web.Response:
    """Which connection asks."""
    assert request.transport is not None
    return web.Response(text=str(request.transport.get_extra_info("peername")))


@pytest.fixture
def replica(reader: Reader, told: RecordedLog, tmp_path: Path) -> Start:
    """Starts replicas."""

    @asynccontextmanager
    async def started(name: str) -> AsyncIterator[Replica]:
        made = start_pair(tmp_path / name, names=NAMES, now=utc_now())
        app = server.application(
            [web.get("/", answer)], log=told.log, registry=CollectorRegistry(), checks={}
        )
        settings = ServerSettings(
            bind="127.0.0.1", port=0, metrics_port=0, tls_cert=made.cert, tls_key=made.key
        )
        async with server.listening(app, settings) as place:
            assert place.keeper is not None
            certificate = reader(folder=tmp_path / name, now=utc_now, changed=place.keeper.reload)
            yield Replica(certificate, f"https://127.0.0.1:{place.port}/")

    return started


@pytest.fixture
def controller(keeper: Keeper) -> Certificates:
    """Who makes and changes what they serve."""
    return keeper(now=utc_now)


async def called(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url, server_hostname=NAMES[0]) as response:
        assert response.status == 200
        return await response.text()


def session(bundle: bytes) -> aiohttp.ClientSession:
    """Connections of a caller that trusts a bundle and nothing else, as strictly as clients can."""
    context = ssl.create_default_context(cadata=bundle.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


@dataclass
class Callers:
    """Those who call all replicas: anew with what is trusted now, and on connections that stay."""

    cluster: FakeApi
    replicas: list[Replica]
    staying: list[aiohttp.ClientSession]
    connections: set[str]
    calls: int = 0

    async def call(self, *, also: bytes = b"") -> None:
        """Everybody calls every replica; `also` is a bundle that some still hold."""
        for bundle in filter(None, (bundles(self.cluster, VALIDATING)[0], also)):
            async with session(bundle) as anew:
                for each in self.replicas:
                    await called(anew, each.url)
                    self.calls += 1
        for each, open_ in zip(self.replicas, self.staying, strict=True):
            self.connections.add(await called(open_, each.url))
            self.calls += 1


async def test_not_one_call_fails_from_the_first_step_to_the_last(
    cluster: FakeApi, client: Api, time: Time, replica: Start, controller: Certificates
) -> None:
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(replica(name)) for name in ("a", "b")]
        await controller.check()
        for each in both:
            await each.certificate.check()
        first = secret.parse(cluster.get(PLACE.path)).current
        staying = [await stack.enter_async_context(session(first.ca_pem)) for _ in both]
        callers = Callers(cluster, both, staying, set())
        await callers.call()
        await manual_rotation.begin(client, PLACE, settle=60, now=utc_now)
        before = bundles(cluster, VALIDATING)[0]
        for _ in range(20):
            for look in (controller.check, *(each.certificate.check for each in both)):
                await look()
                # An API server may be behind by the last change of the bundle, not by two looks.
                await callers.call(also=before)
            before = bundles(cluster, VALIDATING)[0]
            time.passes(10)
        held = secret.parse(cluster.get(PLACE.path))

    assert callers.calls == 4 + 20 * 3 * 6
    assert len(callers.connections) == 2
    assert held.current != first
    assert bundles(cluster, VALIDATING) == [held.current.ca_pem]


async def test_nobody_trusts_a_replica_that_has_only_its_start_pair(
    cluster: FakeApi, replica: Start, controller: Certificates
) -> None:
    async with AsyncExitStack() as stack:
        one, late = [await stack.enter_async_context(replica(name)) for name in ("a", "late")]
        await controller.check()
        await one.certificate.check()
        async with session(bundles(cluster, VALIDATING)[0]) as anew:
            assert await called(anew, one.url)
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await called(anew, late.url)
            assert late.certificate.waiting_for() is not None
            await late.certificate.check()
            assert await called(anew, late.url)
            assert late.certificate.waiting_for() is None
