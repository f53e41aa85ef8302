"""A fake podresources socket of a kubelet, served by the usual gRPC library; tests set its answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio

from agent.podresources_pb2 import AllocatableResourcesResponse, ListPodResourcesResponse

SERVICE = "v1.PodResourcesLister"


@dataclass(slots=True)
class FakePodResources:
    """
    The answers of the socket, which can change at any time.

    `refusals` are answered first, one for each call, as status and reason. `calls` counts the calls by
    method, and each takes `seconds`. `garbage` replaces all messages.
    """

    listed: ListPodResourcesResponse = field(default_factory=ListPodResourcesResponse)
    allocatable: AllocatableResourcesResponse = field(default_factory=AllocatableResourcesResponse)
    refusals: list[tuple[grpc.StatusCode, str]] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=lambda: {"List": 0, "GetAllocatableResources": 0})
    seconds: float = 0.0
    garbage: bytes | None = None

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncIterator[None]:
        """Serve on a Unix socket during the block."""
        server = grpc.aio.server()
        handlers = {method: self._handler(method) for method in self.calls}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(grace=None)

    def _handler(self, method: str) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def answer(_: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
            self.calls[method] += 1
            await asyncio.sleep(self.seconds)
            if self.refusals:
                await context.abort(*self.refusals.pop(0))
            if self.garbage is not None:
                return self.garbage
            return (self.listed if method == "List" else self.allocatable).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)
