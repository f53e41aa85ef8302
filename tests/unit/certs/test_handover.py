"""A rotation under callers that verify certificates: no handshake and no call fails."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from certs import manual_rotation
from certs.reader import SharedCertificate, start_pair
from numalign.runtime import server
from numalign.runtime.clock import utc_now
from numalign.runtime.server_settings import ServerSettings
from tests.unit.certs.conftest import Site
from tests.worlds.pairs import NAMES, PLACE, VALIDATING


@dataclass(frozen=True)
class Replica:
    """A server that listens on a port, and the reader of its certificate."""

    certificate: SharedCertificate
    url: str


Start = Callable[[str], AbstractAsyncContextManager[Replica]]


async def peer(request: web.Request) -> web.Response:
    """Answers with the client's address."""
    assert request.transport is not None
    return web.Response(text=str(request.transport.get_extra_info("peername")))


@pytest.fixture
def replica(site: Site, tmp_path: Path) -> Start:
    @asynccontextmanager
    async def started(name: str) -> AsyncIterator[Replica]:
        made = start_pair(tmp_path / name, names=NAMES, now=utc_now())
        parts: dict[str, Any] = {"log": site.log.log, "registry": CollectorRegistry(), "checks": {}}
        app = server.application([web.get("/", peer)], **parts)
        ports: dict[str, Any] = {"bind": "127.0.0.1", "port": 0, "metrics_port": 0}
        settings = ServerSettings(**ports, tls_cert=made.cert, tls_key=made.key)
        async with server.listening(app, settings) as server_:
            assert server_.keeper is not None
            certificate = site.reader(folder=tmp_path / name, now=utc_now, changed=server_.keeper.reload)
            yield Replica(certificate, f"https://127.0.0.1:{server_.port}/")

    return started


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
    """Clients of all replicas: with new connections that trust the current bundle, and with old ones."""

    site: Site
    replicas: list[Replica]
    open_sessions: list[aiohttp.ClientSession]
    connections: set[str]
    calls: int = 0

    async def call(self, *, also: bytes = b"") -> None:
        """All clients call every replica; `also` is a bundle that some clients still have."""
        for bundle in filter(None, (self.site.bundles(VALIDATING)[0], also)):
            async with session(bundle) as new:
                for each in self.replicas:
                    await called(new, each.url)
                    self.calls += 1
        for each, session_ in zip(self.replicas, self.open_sessions, strict=True):
            self.connections.add(await called(session_, each.url))
            self.calls += 1


async def test_no_call_fails_during_a_rotation(site: Site, replica: Start) -> None:
    controller = site.keeper(now=utc_now)
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(replica(name)) for name in ("a", "b")]
        await controller.check()
        for each in both:
            await each.certificate.check()
        first = site.state().current
        open_sessions = [await stack.enter_async_context(session(first.ca_pem)) for _ in both]
        callers = Callers(site, both, open_sessions, set())
        await callers.call()
        await manual_rotation.begin(site.client, PLACE, settle=60, now=utc_now)
        before = site.bundles(VALIDATING)[0]
        for _ in range(20):
            for look in (controller.check, *(each.certificate.check for each in both)):
                await look()
                # An API server may be behind by the last change of the bundle, not by two looks.
                await callers.call(also=before)
            before = site.bundles(VALIDATING)[0]
            site.clock.advance(10)
        state = site.state()

    assert callers.calls == 4 + 20 * 3 * 6
    assert len(callers.connections) == 2
    assert state.current != first
    assert site.bundles(VALIDATING) == [state.current.ca_pem]


async def test_start_pair_is_trusted_by_no_client(site: Site, replica: Start) -> None:
    await site.keeper(now=utc_now).check()
    async with replica("late") as late, session(site.bundles(VALIDATING)[0]) as new:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await called(new, late.url)
        assert late.certificate.waiting_for() is not None
        await late.certificate.check()
        assert await called(new, late.url)
        assert late.certificate.waiting_for() is None
