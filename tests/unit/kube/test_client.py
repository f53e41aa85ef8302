"""Who asks, and what comes back: the parts of a connection that neither lists nor watches show."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
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
from numalign.kube import client as kube_client
from numalign.kube.client import Patch, connected
from numalign.kube.connection import Connection
from numalign.kube.errors import (
    Conflict,
    Forbidden,
    InvalidObject,
    NotFound,
    Unauthorized,
    Unconfigured,
    Unreachable,
)
from tests.worlds.notation import table
from tools.clusters.fake_api import FakeApi

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a pod has mounted, and the environment that it has."""
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


async def test_inside_a_pod_its_own_account_is_used(account: Path) -> None:
    async with connected(account=account) as found:
        assert (found.host, found.namespace) == ("https://10.0.0.1:443", "numalign-system")


async def test_a_kubeconfig_wins_over_the_account_of_the_pod(account: Path, tmp_path: Path) -> None:
    async with FakeApi() as server:
        path = server.kubeconfig(tmp_path / "kubeconfig", namespace="mine")
        async with connected(Connection(str(path)), account=account) as found:
            assert (found.host, found.namespace) == (server.url, "mine")


@pytest.mark.parametrize("missing", ["token", "ca.crt", "namespace"])
async def test_an_account_that_is_not_mounted_as_a_whole_is_told(account: Path, missing: str) -> None:
    (account / missing).unlink()

    with pytest.raises(Unconfigured, match=r"service account of this pod cannot be used.*automountServ"):
        async with connected(account=account):
            pass


async def test_a_token_that_is_emptied_is_a_refusal(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes_asyncio.config.incluster_config.TOKEN_REFRESH_PERIOD", timedelta(0))
    async with connected(account=account) as found:
        (account / "token").write_text("")
        with pytest.raises(
            Unauthorized, match=r"credentials for https://10\.0\.0\.1:443 cannot be read again"
        ):
            await found.get(NODES, what="nodes")


# What the environment says of a way to the API server.


@pytest.fixture
async def listener(aiohttp_server: AiohttpServer) -> TestServer:
    """Answers every call with the address that was asked for, and who asked."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"url": str(request.url), "as": request.headers.get("Authorization")})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return await aiohttp_server(app)


def leading_to(url: str, folder: Path, more: Mapping[str, str] = MappingProxyType({})) -> Path:
    """A kubeconfig for the API server at this address, with a token, and `more` that it says of it."""
    path = FakeApi(url=url, token="let-me-in").kubeconfig(folder / "kubeconfig")  # noqa: S106  of no server
    content = orjson.loads(path.read_bytes())
    content["clusters"][0]["cluster"] |= more
    path.write_bytes(orjson.dumps(content))
    return path


async def test_a_password_in_netrc_does_not_take_the_place_of_the_token(
    listener: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))

    url = str(listener.make_url(""))
    async with connected(Connection(str(leading_to(url, tmp_path)))) as found:
        said = await found.get(NODES, what="nodes")
    assert said == {"url": f"{url.rstrip('/')}{NODES}", "as": "Bearer let-me-in"}


async def test_a_proxy_that_the_environment_names_is_asked(
    listener: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", str(listener.make_url("")))
    monkeypatch.delenv("no_proxy", raising=False)

    far = leading_to("http://far.example", tmp_path)
    async with connected(Connection(str(far))) as found:
        said = await found.get(NODES, what="nodes")
    assert said == {"url": f"http://far.example{NODES}", "as": "Bearer let-me-in"}


async def test_a_proxy_that_a_kubeconfig_names_is_asked(listener: TestServer, tmp_path: Path) -> None:
    path = leading_to("http://far.example", tmp_path, {"proxy-url": str(listener.make_url(""))})
    async with connected(Connection(str(path))) as found:
        said = await found.get(NODES, [("limit", "1")], what="nodes")
    assert said == {"url": f"http://far.example{NODES}?limit=1", "as": "Bearer let-me-in"}


async def test_a_server_may_show_another_name_that_a_kubeconfig_knows(
    aiohttp_server: AiohttpServer, tmp_path: Path
) -> None:
    files = authority.write(authority.issue(names=["api.example"], days=1, now=datetime.now(UTC)), tmp_path)
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(files.cert, files.key)
    serving = await aiohttp_server(web.Application(), ssl=shown)

    told = {"certificate-authority": str(files.ca), "tls-server-name": "api.example"}
    path = leading_to(str(serving.make_url("")).rstrip("/"), tmp_path, told)
    async with connected(Connection(str(path))) as found:
        with pytest.raises(NotFound):
            await found.get(NODES, what="nodes")


# What somebody says in place of the kubeconfig's words.


@pytest.fixture
async def mirror(aiohttp_server: AiohttpServer) -> TestServer:
    """Answers every call with what says who asked."""

    async def answer(request: web.Request) -> web.Response:
        shown = {
            name: request.headers.getall(name, [])
            for name in ("Authorization", "Impersonate-User", "Impersonate-Group")
        }
        return web.json_response({**shown, "path": request.path})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return await aiohttp_server(app)


async def test_somebody_else_is_asked_as_with_all_groups(mirror: TestServer, tmp_path: Path) -> None:
    kubeconfig = str(leading_to(str(mirror.make_url("")), tmp_path))
    async with connected(Connection(kubeconfig, user="jane", groups=("dev", "ops"))) as found:
        said = await found.get(NODES, what="nodes")

    assert said == {
        "Authorization": ["Bearer let-me-in"],
        "Impersonate-User": ["jane"],
        "Impersonate-Group": ["dev", "ops"],
        "path": NODES,
    }


async def test_a_token_and_a_server_count_before_the_kubeconfig(mirror: TestServer, tmp_path: Path) -> None:
    kubeconfig = str(leading_to("http://far.example", tmp_path))
    address = str(mirror.make_url("/prefix/"))
    async with connected(Connection(kubeconfig, server=address, token="mine")) as found:  # noqa: S106 - of no server
        said: Any = await found.get(NODES, what="nodes")

    assert (said["Authorization"], said["path"]) == (["Bearer mine"], f"/prefix{NODES}")


async def test_with_a_server_no_kubeconfig_is_needed(
    mirror: TestServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    async with connected(Connection(server=str(mirror.make_url("")), token="mine")) as found:  # noqa: S106 - of no server
        said: Any = await found.get(NODES, what="nodes")

    assert said["Authorization"] == ["Bearer mine"]
    assert found.namespace == "default"


async def test_a_kubeconfig_that_is_named_has_to_be_there_beside_a_server(tmp_path: Path) -> None:
    with pytest.raises(Unconfigured, match="there is no kubeconfig at"):
        async with connected(Connection(str(tmp_path / "none"), server="https://api.example")):
            pass


async def test_a_token_takes_the_place_of_a_certificate(tmp_path: Path) -> None:
    pair = authority.write(authority.issue(names=["jane"], days=1, now=datetime.now(UTC)), tmp_path)
    path = leading_to("https://far.example", tmp_path)
    content = orjson.loads(path.read_bytes())
    content["users"][0]["user"] = {"client-certificate": str(pair.cert), "client-key": str(pair.key)}
    path.write_bytes(orjson.dumps(content))

    of_file = await kube_client.access(Connection(str(path)))
    by_token = await kube_client.access(Connection(str(path), token="mine"))  # noqa: S106 - of no server

    assert (of_file.certificate, of_file.key, of_file.token) == (str(pair.cert), str(pair.key), None)
    assert (by_token.certificate, by_token.key, by_token.token) == (None, None, "mine")


TRUSTED = [
    # what it shows                              what is said of certificates          whether it is asked
    ("nobody is trusted",                        {},                                   False),
    ("whoever signed it is",                     {"certificate_authority": "ca.crt"},  True),
    ("everybody is",                             {"insecure": True},                   True),
]  # fmt: skip


@pytest.mark.parametrize(("said", "trusted"), table(TRUSTED))
async def test_whom_to_trust_can_be_said(
    aiohttp_server: AiohttpServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, Any],
    trusted: bool,  # noqa: FBT001 - a column of the table
) -> None:
    pair = authority.write(authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC)), tmp_path)
    assert pair.ca.name == "ca.crt"
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(pair.cert, pair.key)
    serving = await aiohttp_server(web.Application(), ssl=shown)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "none")

    async with connected(Connection(server=str(serving.make_url("")), **said)) as found:
        with pytest.raises(NotFound if trusted else Unreachable):
            await found.get(NODES, what="nodes")


async def test_an_authority_that_is_not_there_is_told(tmp_path: Path) -> None:
    kubeconfig = str(leading_to("https://far.example", tmp_path))
    with pytest.raises(Unconfigured, match="--certificate-authority: there is no file /nowhere"):
        async with connected(Connection(kubeconfig, certificate_authority="/nowhere")):
            pass


async def test_a_call_may_take_no_longer_than_is_said(aiohttp_server: AiohttpServer, tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def never(_request: web.Request) -> web.Response:
        asked.set()
        await asyncio.sleep(60)
        return web.Response()

    app = web.Application()
    app.router.add_get(NODES, never)
    serving = await aiohttp_server(app)
    kubeconfig = str(leading_to(str(serving.make_url("")), tmp_path))
    async with connected(Connection(kubeconfig, request_timeout=0.05)) as found:
        with pytest.raises(Unreachable, match="does not answer within 50 ms"):
            await found.get(NODES, what="nodes")
    assert asked.is_set()


# What is asked, and what comes back.


async def test_what_is_written_comes_back_as_it_is_stored() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    async with FakeApi() as server, server.client() as client:
        made: Any = await client.create(NODES, node, what="node a")
        body = {"metadata": {"labels": {"x": "y"}}}
        patched: Any = await client.patch(f"{NODES}/a", body, how=Patch.MERGE, what="node a")
        replaced: Any = await client.replace(f"{NODES}/a", patched, what="node a")

    assert made["metadata"]["name"] == "a"
    assert patched["metadata"]["labels"] == replaced["metadata"]["labels"] == {"x": "y"}


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        (HTTPStatus.UNAUTHORIZED, Unauthorized, "does not accept your credentials"),
        (HTTPStatus.FORBIDDEN, Forbidden, "not allowed to patch node a .*a role must allow it"),
        (HTTPStatus.NOT_FOUND, NotFound, "node a does not exist"),
        (HTTPStatus.CONFLICT, Conflict, "node a was created or changed by another client"),
        (HTTPStatus.UNPROCESSABLE_ENTITY, InvalidObject, "node a is not valid"),
        (HTTPStatus.INTERNAL_SERVER_ERROR, Unreachable, "answered 500 for node a"),
    ],
)
async def test_a_write_that_is_not_done_says_why(
    status: HTTPStatus, error: type[Exception], sentence: str
) -> None:
    async with FakeApi(failures={("PATCH", f"{NODES}/a"): status}) as server, server.client() as client:
        with pytest.raises(error, match=sentence):
            await client.patch(f"{NODES}/a", {}, how=Patch.MERGE, what="node a")


async def test_what_is_deleted_is_what_was_read_or_nothing() -> None:
    async with FakeApi() as server, server.client() as client:
        made: Any = await client.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}, what="node a"
        )
        of = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
        for wrong in ("uid", "resourceVersion"):
            with pytest.raises(Conflict, match="node a was created or changed by another client"):
                await client.delete(f"{NODES}/a", {"preconditions": {**of, wrong: "x"}}, what="node a")
        await client.delete(f"{NODES}/a", {"preconditions": of}, what="node a")

        with pytest.raises(NotFound):
            await client.delete(f"{NODES}/a", {"preconditions": of}, what="node a")


async def test_an_answer_that_is_longer_than_makes_sense_is_not_read() -> None:
    async with FakeApi(oddities={NODES: b"x" * 2000}) as server, server.client() as client:
        with pytest.raises(Unreachable, match="longer than 1000 bytes"):
            await client.get(NODES, what="nodes", most=1000)


async def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "LONGEST_LINE", 1000)
    async with FakeApi(oddities={NODES: b"x" * 2000}) as server, server.client() as client:
        with pytest.raises(Unreachable, match="an event is longer than 1000 bytes"):
            async for _ in client.lines(NODES, [], what="nodes", silence=5):
                pass


@pytest.fixture
async def trickle(aiohttp_server: AiohttpServer, tmp_path: Path) -> Path:
    """The kubeconfig of a server that never stops to answer, byte by byte."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=500 if request.path == PODS else 200)
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.005)
        return response

    app = web.Application()
    app.add_routes([web.get(NODES, answer), web.get(PODS, answer)])
    serving = await aiohttp_server(app)
    return leading_to(str(serving.make_url("")), tmp_path)


async def test_a_watch_whose_refusal_trickles_is_given_up(
    trickle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_client, "LEAST_SECONDS", 0.05)
    async with connected(Connection(str(trickle))) as client:
        with pytest.raises(Unreachable, match=r"pods: only \d+ bytes came in 0 s"):
            async for _ in client.lines(PODS, [], what="pods", silence=5):
                pass


async def test_an_answer_that_trickles_is_given_up(trickle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "LEAST_SECONDS", 0.05)
    async with connected(Connection(str(trickle))) as client:
        with pytest.raises(Unreachable, match=r"nodes: only \d+ bytes came in 0 s"):
            await client.get(NODES, what="nodes")


async def test_a_watch_whose_event_trickles_is_given_up(trickle: Path) -> None:
    async with connected(Connection(str(trickle))) as client:
        with pytest.raises(Unreachable, match="nodes: no whole event came"):
            async for _ in client.lines(NODES, [], what="nodes", silence=0.05):
                pass


async def test_a_call_that_is_cancelled_leaves_no_connection_open(
    aiohttp_server: AiohttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, ended = asyncio.Event(), asyncio.Event()
    read = kube_client._read  # noqa: SLF001  no other place says that the head of the answer came

    async def reads(answer: aiohttp.ClientResponse, most: int | None, *, what: str) -> bytes:
        reading.set()
        return await read(answer, most, what=what)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.005)
        finally:
            ended.set()

    monkeypatch.setattr(kube_client, "_read", reads)
    app = web.Application()
    app.add_routes([web.get(NODES, answer)])
    serving = await aiohttp_server(app)
    async with connected(Connection(str(leading_to(str(serving.make_url("")), tmp_path)))) as client:
        call = asyncio.create_task(client.get(NODES, what="nodes"))
        await reading.wait()
        call.cancel()
        # What is known of the call is kept meanwhile, as whoever logs its end does.
        with pytest.raises(asyncio.CancelledError) as kept:
            await call

        await asyncio.wait_for(ended.wait(), 30)
        assert str(kept.value) == ""
