"""A port that leads to another one, which can change or be missing: a Service, or a network that can be cut.

Each connection goes where the wire leads when it is opened, and breaks when the wire is cut.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Wire:
    """Leads from `port` to `where()`, a port of this machine; 0 or None for no target."""

    def __init__(self) -> None:
        self.port = 0
        self.where: Callable[[], int | None] = int
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
        ends = {writer}
        self._ends.add(writer)
        try:
            # Port 0 refuses every connection.
            port = (self._whole and self.where()) or 0
            far_reader, far = await asyncio.open_connection("127.0.0.1", port)
            ends.add(far)
            self._ends.add(far)
            await asyncio.gather(_pumped(reader, far), _pumped(far_reader, writer))
        except OSError:
            for end in ends:
                end.transport.abort()
        finally:
            self._ends -= ends
            for end in ends:
                end.close()


async def _pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(2**16):
        writer.write(piece)
        await writer.drain()
    writer.write_eof()


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
