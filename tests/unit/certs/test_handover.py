"""A rotation under callers that verify certificates: no handshake and no call fails."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from certs import rotator
from certs.reader import SharedCertificate, start_pair
from numalign.runtime import server
from numalign.runtime.clock import utc_now
from numalign.runtime.server_settings import ServerSettings
from tests.unit.certs.conftest import Site
from tests.worlds.pairs import NAMES, PLACE, VALIDATING

Start = Callable[[str], AbstractAsyncContextManager[tuple[SharedCertificate, str]]]


async def peer(request: web.Request) -> web.Response:
    """Answers with the client's address."""
    assert request.transport is not None
    return web.Response(text=str(request.transport.get_extra_info("peername")))


@pytest.fixture
def replica(site: Site, tmp_path: Path) -> Start:
    """A server that listens on a port: the reader of its certificate, and its URL."""

    @asynccontextmanager
    async def started(name: str) -> AsyncIterator[tuple[SharedCertificate, str]]:
        made = start_pair(tmp_path / name, names=NAMES, now=utc_now())
        parts: dict[str, Any] = {"log": site.log.log, "registry": CollectorRegistry(), "checks": {}}
        app = server.application([web.get("/", peer)], **parts)
        ports: dict[str, Any] = {"bind": "127.0.0.1", "port": 0, "metrics_port": 0}
        settings = ServerSettings(**ports, tls_cert=made.cert, tls_key=made.key)
        async with server.listening(app, settings) as server_:
            assert server_.keeper is not None
            certificate = site.reader(folder=tmp_path / name, now=utc_now, changed=server_.keeper.reload)
            yield certificate, f"https://127.0.0.1:{server_.port}/"

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


@pytest.mark.full
async def test_no_call_fails_during_a_rotation(site: Site, replica: Start) -> None:
    controller, connections, calls = site.keeper(now=utc_now), set[str](), 0
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(replica(name)) for name in ("a", "b")]
        checks = (controller.check, *(certificate.check for certificate, _ in both))
        for check in checks:
            await check()
        first = site.state().current
        old = [(await stack.enter_async_context(session(first.ca_pem)), url) for _, url in both]
        await rotator.begin(site.client, PLACE, settle=60, now=utc_now)
        before = site.bundles(VALIDATING)[0]
        for _ in range(10):
            for check in checks:
                await check()
                # An API server may be behind by the last change of the bundle, not by two checks.
                for bundle in (site.bundles(VALIDATING)[0], before):
                    async with session(bundle) as new:
                        calls += len([await called(new, url) for _, url in both])
                connections |= {await called(each, url) for each, url in old}
            before = site.bundles(VALIDATING)[0]
            site.clock.advance(20)
        state = site.state()

    assert (calls, len(connections)) == (10 * 3 * 4, 2)
    assert state.current != first
    assert site.bundles(VALIDATING) == [state.current.ca_pem]


async def test_start_pair_is_trusted_by_no_client(site: Site, replica: Start) -> None:
    await site.keeper(now=utc_now).check()
    async with replica("late") as (late, url), session(site.bundles(VALIDATING)[0]) as new:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await called(new, url)
        assert late.waiting_for() is not None
        await late.check()
        assert await called(new, url)
        assert late.waiting_for() is None
