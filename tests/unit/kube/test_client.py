"""Connections of a client: credentials, proxies, certificates and limits."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pytest_aiohttp import AiohttpServer

from certs import authority
from numalign.kube import access, errors
from numalign.kube import client as kube_client
from numalign.kube.access import Access
from numalign.kube.client import connected
from numalign.kube.connection import Connection
from numalign.kube.errors import Conflict, NotFound, Unauthorized, Unconfigured, Unreachable
from numalign.kube.refusals import refusal
from tests.worlds.objects import node
from tools.clusters.fake_api import FakeApi

NODES = "/api/v1/nodes"


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def running(aiohttp_server: AiohttpServer, answer: Answer) -> str:
    """The address of a server that answers each request like this."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    serving: TestServer = await aiohttp_server(app)
    return str(serving.make_url("")).rstrip("/")


async def certified(aiohttp_server: AiohttpServer, folder: Path, name: str) -> tuple[str, Path]:
    """The address of a server with a certificate for this name, and the file of its authority."""
    files = authority.write(authority.issue(names=[name], days=1, now=datetime.now(UTC)), folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.cert, files.key)
    serving: TestServer = await aiohttp_server(web.Application(), ssl=context)
    return str(serving.make_url("")).rstrip("/"), files.ca


async def nodes(connection: Connection) -> Any:  # noqa: ANN401  any JSON
    async with connected(connection) as client:
        return await client.get(NODES, what="nodes")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    made = tmp_path / "account"
    made.mkdir()
    issued = authority.issue(names=["10.0.0.1"], days=1, now=datetime.now(UTC))
    (made / "ca.crt").write_bytes(issued.ca_pem)
    (made / "token").write_text("let-me-in")
    (made / "namespace").write_text("numalign-system\n")
    return made


INSIDE = {"KUBERNETES_SERVICE_HOST": "fd00::1"}


def test_access_of_a_pod(account: Path) -> None:
    ca, token = str(account / "ca.crt"), str(account / "token")
    assert access.of_account(account) == Access("https://10.0.0.1:443", ca, token_file=token)
    assert access.of_account(account, INSIDE).host == "https://[fd00::1]:443"
    with pytest.raises(Unconfigured, match="KUBERNETES_SERVICE_HOST is not set"):
        access.of_account(account, {})


def test_a_kubeconfig_comes_before_the_account(account: Path) -> None:
    assert (access.in_a_pod(INSIDE), access.in_a_pod({})) == (True, False)
    (home := account.parent / ".kube").mkdir()
    (home / "config").write_text("{}")
    assert not access.in_a_pod(INSIDE)


async def test_an_empty_token_is_unauthorized(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes_asyncio.config.incluster_config.TOKEN_REFRESH_PERIOD", timedelta(0))
    async with connected(account=account) as client:
        assert (client.host, client.namespace) == ("https://10.0.0.1:443", "numalign-system")
        (account / "token").write_text("")
        with pytest.raises(
            Unauthorized, match=r"credentials for https://10\.0\.0\.1:443 cannot be read again"
        ):
            await client.get(NODES, what="nodes")


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_an_incomplete_account_is_unconfigured(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(Unconfigured, match=f"there is no .*/{missing}; mount its token"):
        access.of_account(account)
    with pytest.raises(Unconfigured, match=r"account of this pod cannot be used: .*; mount its token"):
        async with connected(account=account):
            pass


@pytest.fixture
async def listener(aiohttp_server: AiohttpServer) -> str:
    """Answers every call with the address that was asked for, and who asked."""

    async def answer(request: web.Request) -> web.Response:
        names = [name for name in ("Impersonate-User", "Impersonate-Group") if name in request.headers]
        impersonated = {name: request.headers.getall(name) for name in names}
        sent = {"url": str(request.url), "as": request.headers.get("Authorization")}
        return web.json_response(sent | impersonated)

    return await running(aiohttp_server, answer)


def leading_to(url: str, folder: Path, more: Mapping[str, str] = MappingProxyType({})) -> Connection:
    """A kubeconfig for the API server at this address, with a token, and `more` of its fields."""
    path = FakeApi(url=url, token="let-me-in").kubeconfig(folder / "kubeconfig")  # noqa: S106  of no server
    content = orjson.loads(path.read_bytes())
    content["clusters"][0]["cluster"] |= more
    path.write_bytes(orjson.dumps(content))
    return Connection(str(path))


async def test_token_and_user_are_sent(
    listener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (netrc := tmp_path / "netrc").write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    answer = await nodes(replace(leading_to(listener, tmp_path), user="jane", groups=("dev", "ops")))
    assert answer == {"url": f"{listener}{NODES}", "as": "Bearer let-me-in",
        "Impersonate-User": ["jane"], "Impersonate-Group": ["dev", "ops"]}  # fmt: skip


async def test_http_proxy_is_used(listener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", listener)
    monkeypatch.delenv("no_proxy", raising=False)
    answer = await nodes(leading_to("http://far.example", tmp_path))
    assert answer == {"url": f"http://far.example{NODES}", "as": "Bearer let-me-in"}


async def test_the_tls_server_name_of_a_kubeconfig(aiohttp_server: AiohttpServer, tmp_path: Path) -> None:
    url, ca = await certified(aiohttp_server, tmp_path, "api.example")
    named = {"certificate-authority": str(ca), "tls-server-name": "api.example"}
    with pytest.raises(NotFound):
        await nodes(leading_to(url, tmp_path, named))


async def test_a_server_needs_no_kubeconfig(listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    async with connected(Connection(server=listener, token="mine")) as client:  # noqa: S106 - of no server
        answer: Any = await client.get(NODES, what="nodes")
    assert (answer["as"], client.namespace) == ("Bearer mine", "default")


async def test_a_token_replaces_a_certificate(tmp_path: Path) -> None:
    pair = authority.write(authority.issue(names=["jane"], days=1, now=datetime.now(UTC)), tmp_path)
    of_path = leading_to("https://far.example", tmp_path)
    content = orjson.loads((path := tmp_path / "kubeconfig").read_bytes())
    content["users"][0]["user"] = {"client-certificate": str(pair.cert), "client-key": str(pair.key)}
    path.write_bytes(orjson.dumps(content))
    of_file = await kube_client.access(of_path)
    by_token = await kube_client.access(replace(of_path, token="mine"))  # noqa: S106 - of no server
    assert (of_file.host, of_file.verify) == ("https://far.example", True)
    assert (of_file.certificate, of_file.key, of_file.token) == (str(pair.cert), str(pair.key), None)
    assert (by_token.certificate, by_token.key, by_token.token) == (None, None, "mine")


async def test_certificates_that_are_trusted(
    aiohttp_server: AiohttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, ca = await certified(aiohttp_server, tmp_path, "127.0.0.1")
    monkeypatch.setenv("KUBECONFIG", "none")
    for trusting in (
        Connection(server=url, certificate_authority=str(ca)),
        Connection(server=url, insecure=True),
    ):
        with pytest.raises(NotFound):
            await nodes(trusting)
    with pytest.raises(Unreachable):
        await nodes(Connection(server=url))


async def test_a_request_has_a_timeout(aiohttp_server: AiohttpServer, tmp_path: Path) -> None:
    received = asyncio.Event()

    async def never(_request: web.Request) -> web.Response:
        received.set()
        await asyncio.sleep(60)
        return web.Response()

    connection = leading_to(await running(aiohttp_server, never), tmp_path)
    with pytest.raises(Unreachable, match="does not answer within 50 ms"):
        await nodes(replace(connection, request_timeout=0.05))
    assert received.is_set()


async def test_a_delete_has_preconditions() -> None:
    async with FakeApi() as server, server.client() as client:
        made: Any = await client.create(NODES, node("a"), what="node a")
        of = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
        for wrong in ("uid", "resourceVersion"):
            with pytest.raises(Conflict, match="node a was created or changed by another client"):
                await client.delete(f"{NODES}/a", {"preconditions": {**of, wrong: "x"}}, what="node a")
        await client.delete(f"{NODES}/a", {"preconditions": of}, what="node a")
        with pytest.raises(NotFound):
            await client.delete(f"{NODES}/a", {"preconditions": of}, what="node a")


async def test_a_too_long_line_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "LONGEST_LINE", 1000)
    async with FakeApi(oddities={NODES: b"x" * 2000}) as server, server.client() as client:
        with pytest.raises(Unreachable, match="an event is longer than 1000 bytes"):
            async for _ in client.lines(NODES, [], what="nodes", silence=5):
                pass


Trickle = tuple[Connection, asyncio.Event]


@pytest.fixture
async def trickle(aiohttp_server: AiohttpServer, tmp_path: Path) -> Trickle:
    """A server that never stops to answer, byte by byte, and whether its client has left."""
    left = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.005)
        finally:
            left.set()

    return leading_to(await running(aiohttp_server, answer), tmp_path), left


async def test_a_too_slow_answer_is_given_up(trickle: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "LEAST_SECONDS", 0.05)
    with pytest.raises(Unreachable, match=r"nodes: only \d+ bytes came in 0 s"):
        await nodes(trickle[0])


async def test_a_too_slow_event_is_given_up(trickle: Trickle) -> None:
    async with connected(trickle[0]) as client:
        with pytest.raises(Unreachable, match="nodes: no whole event came"):
            async for _ in client.lines(NODES, [], what="nodes", silence=0.5):
                pass


async def test_a_cancelled_call_disconnects(trickle: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, left = trickle
    reading = asyncio.Event()
    read = kube_client._read  # noqa: SLF001  the head of the answer has come

    async def reads(answer: aiohttp.ClientResponse, most: int | None, *, what: str) -> bytes:
        reading.set()
        return await read(answer, most, what=what)

    monkeypatch.setattr(kube_client, "_read", reads)
    async with connected(connection) as client:
        call = asyncio.create_task(client.get(NODES, what="nodes"))
        await reading.wait()
        call.cancel()
        # Who logs the end of the call has its traceback meanwhile.
        with pytest.raises(asyncio.CancelledError) as raised:
            await call
        await asyncio.wait_for(left.wait(), 30)
        assert str(raised.value) == ""


@pytest.mark.parametrize(("status", "error", "words"), [
    (401, errors.Unauthorized, "log in again"),
    (403, errors.Forbidden, "not allowed to patch node a"),
    (404, errors.NotFound, "node a does not exist"),
    (409, errors.Conflict, "another client"),
    (410, errors.Gone, "no longer available"),
    (422, errors.InvalidObject, "node a is not valid"),
    (429, errors.Throttled, "answered 429 for node a"),
    (500, errors.Failing, "answered 500 for node a"),
    (418, errors.Unreachable, "answered 418 for node a"),
])  # fmt: skip
def test_a_status_has_its_error(status: int, error: type[errors.ClusterError], words: str) -> None:
    raised = refusal(status, b'{"message": "no."}', doing="patch", what="node a")
    assert type(raised) is error
    assert words in str(raised)
    assert "(no.)" in str(raised)


@pytest.mark.parametrize(("body", "shown"), [
    (b"", "no reason given"), (b"404 page not found\n", "404 page not found"), (b"[]", "no reason given"),
    (b"\xff", "\N{REPLACEMENT CHARACTER}"), (b'{"message": "%s"}' % (b"long " * 99), "long..."),
], ids=repr)  # fmt: skip
def test_the_reason_is_one_short_line(body: bytes, shown: str) -> None:
    assert shown in str(refusal(500, body, doing="read", what="node a"))
