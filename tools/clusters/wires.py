"""A port that leads to another one, which can change or be missing.

A wire acts as a Service for calls of the API server, and as the network for those of numalign: each
connection goes where the wire leads when it is opened, stays there while both ends live, and breaks when the
wire is cut.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

PIECE = 2**16


class Wire:
    """Leads from `port` to `where()`, a port of this machine, or None for no target."""

    def __init__(self) -> None:
        self.port = 0
        self.where: Callable[[], int | None] = _nowhere
        self._whole = True
        self._ends: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        self._whole = False
        for end in tuple(self._ends):
            end.transport.abort()

    def mend(self) -> None:
        self._whole = True

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward a connection, until both ends have closed it or one is gone."""
        with self._kept(writer):
            far = await self._far()
            if far is None:
                writer.transport.abort()
                return
            with self._kept(far[1]):
                await asyncio.gather(_pumped(reader, far[1]), _pumped(far[0], writer))

    async def _far(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        port = self.where() if self._whole else None
        with suppress(OSError):
            return await asyncio.open_connection("127.0.0.1", port) if port else None
        return None

    @contextmanager
    def _kept(self, end: asyncio.StreamWriter) -> Iterator[None]:
        self._ends.add(end)
        try:
            yield
        finally:
            self._ends.discard(end)
            end.close()


async def _pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


def _nowhere() -> None:
    """Return None: there is no target yet."""


@asynccontextmanager
async def wire(address: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Wire]:
    """Open a wire without a target, at an address of this machine; port 0 takes a free port."""
    leading = Wire()
    server = await asyncio.start_server(leading.lead, address, port)
    leading.port = server.sockets[0].getsockname()[1]
    try:
        yield leading
    finally:
        server.close()
        leading.cut()
