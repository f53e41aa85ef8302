"""One message out, one message back, over a Unix socket."""

import asyncio
import os
from collections.abc import Callable
from errno import ENOENT
from os import strerror
from pathlib import Path
from struct import pack

import grpc
import pytest
from h2.connection import H2Connection

from agent import unary
from agent.podresources_pb2 import ListPodResourcesResponse, PodResources
from numalign.kube.errors import Unreachable
from tests.unit.agent.sockets import framing, listening
from tools.clusters.podresources import FakePodResources

METHOD = "/v1.PodResourcesLister/List"
GOOD = [(":status", "200"), ("content-type", "application/grpc")]
DONE = [("grpc-status", "0")]


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


async def test_a_server_of_the_gRPC_library_answers(socket: Path) -> None:  # noqa: N802  its name
    listed = ListPodResourcesResponse(pod_resources=[PodResources(name="web", namespace="default")])
    async with FakePodResources(listed=listed).serving(socket):
        assert await unary.call(socket, METHOD, b"") == listed.SerializeToString()


async def test_an_answer_of_megabytes_arrives_whole(socket: Path) -> None:
    pods = [PodResources(name=f"pod-{number}", namespace="x" * 1000) for number in range(5000)]
    listed = ListPodResourcesResponse(pod_resources=pods)
    async with FakePodResources(listed=listed).serving(socket):
        assert await unary.call(socket, METHOD, b"") == listed.SerializeToString()


async def test_an_answer_of_more_than_makes_sense_is_not_read(socket: Path) -> None:
    listed = ListPodResourcesResponse(pod_resources=[PodResources(name="x" * 1000)])
    async with FakePodResources(listed=listed).serving(socket):
        with pytest.raises(Unreachable, match="at most 999 are accepted"):
            await unary.call(socket, METHOD, b"", most=999)


@pytest.mark.parametrize("status", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE])
async def test_a_refusal_tells_its_status_and_its_reason(socket: Path, status: grpc.StatusCode) -> None:
    async with FakePodResources(refusals=[(status, "rejected by rate limit: 100 %")]).serving(socket):
        with pytest.raises(unary.CallRefused, match="rejected by rate limit: 100 %") as refused:
            await unary.call(socket, METHOD, b"")
    assert refused.value.status == status.value[0]


async def test_a_method_that_is_not_there_is_unimplemented(socket: Path) -> None:
    async with FakePodResources().serving(socket):
        with pytest.raises(unary.CallRefused) as refused:
            await unary.call(socket, "/v1.PodResourcesLister/Gett", b"")
    assert refused.value.status == unary.UNIMPLEMENTED


async def test_a_kubelet_that_hangs_is_not_waited_for(socket: Path) -> None:
    async with FakePodResources(seconds=5).serving(socket):
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
            await unary.call(socket, METHOD, b"", within=0.1)


async def test_unreachable_socket_is_named(socket: Path) -> None:
    said = f"call to the kubelet's socket {socket} failed: {METHOD}: .*{strerror(ENOENT)}"
    with pytest.raises(Unreachable, match=said):
        await unary.call(socket, METHOD, b"")


async def test_impossible_socket_path_raises(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="path too long"):
        await unary.call(tmp_path / ("x" * 108), METHOD, b"")


def reply(
    body: bytes = b"", headers: list[tuple[str, str]] = GOOD, trailers: list[tuple[str, str]] = DONE
) -> Callable[[H2Connection], None]:
    def send(http: H2Connection) -> None:
        http.send_headers(1, headers)
        http.send_data(1, body)
        http.send_headers(1, trailers, end_stream=True)

    return send


def message(body: bytes) -> bytes:
    return pack(">BI", 0, len(body)) + body


async def test_an_answer_in_frames_is_put_together(socket: Path) -> None:
    async with listening(socket, framing(reply(message(b"body")))):
        assert await unary.call(socket, METHOD, b"") == b"body"


@pytest.mark.parametrize(
    ("send", "said"),
    [
        pytest.param(reply(message(b"")[:4]), "ended before its message", id="no whole prefix"),
        pytest.param(reply(message(b"body")[:-1]), "ended before its message", id="cut off"),
        pytest.param(reply(message(b"body") + b"!"), "more than one message", id="too much"),
        pytest.param(reply(pack(">BI", 1, 4) + b"body"), "compressed", id="compressed"),
        pytest.param(reply(pack(">BI", 0, 2**32 - 1)), "4294967295 bytes is too long", id="endless"),
        pytest.param(reply(headers=[(":status", "502")]), "HTTP status 502", id="bad gateway"),
        pytest.param(reply(trailers=[("other", "0")]), "no gRPC status", id="no grpc-status"),
        pytest.param(reply(trailers=[("grpc-status", "-1")]), "no gRPC status", id="negative status"),
        pytest.param(reply(trailers=[("grpc-status", "0" * 1000)]), "no gRPC status", id="long status"),
        pytest.param(
            lambda http: http.send_headers(1, GOOD, end_stream=True), "no gRPC status", id="only headers"
        ),
        pytest.param(lambda http: http.reset_stream(1, 2), "was reset with error 2", id="reset"),
        pytest.param(lambda http: http.close_connection(2), "was closed with error 2", id="goaway"),
        pytest.param(
            lambda _: None, "onnection lost|connection ended|Broken pipe|reset by peer", id="nothing"
        ),
        pytest.param(
            lambda http: http.send_headers(1, GOOD),
            "onnection lost|connection ended|Broken pipe|reset by peer",
            id="no end",
        ),
    ],
)
async def test_invalid_frames_raise(socket: Path, send: Callable[[H2Connection], None], said: str) -> None:
    async with listening(socket, framing(send)):
        with pytest.raises(Unreachable, match=said):
            await unary.call(socket, METHOD, b"")


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(100), b"\xff" * 2**17])
async def test_invalid_http2_raises_unreachable(socket: Path, garbage: bytes) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)
        await writer.drain()

    async with listening(socket, answer):
        with pytest.raises(Unreachable):
            await unary.call(socket, METHOD, b"")


async def test_pings_without_end_are_not_read_without_end(socket: Path) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        settings, ping = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), bytes([0, 0, 8, 6, 1, 0, 0, 0, 0]) + bytes(8)
        writer.write(settings)
        while True:
            writer.write(ping * 1000)
            await writer.drain()

    async with listening(socket, answer):
        with pytest.raises(Unreachable, match="longer than 10 bytes"):
            await unary.call(socket, METHOD, b"", most=10)


@pytest.mark.parametrize("seed", range(20))
async def test_noise_is_answered_by_an_error(socket: Path, seed: int) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + os.urandom(100 * seed))
        await writer.drain()

    async with listening(socket, answer):
        with pytest.raises(Unreachable):
            await unary.call(socket, METHOD, b"", within=2)
