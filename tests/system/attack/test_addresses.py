"""Pods at many addresses, which hold few connections each and make ever more, keep nobody else out."""

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.system.attack import honest, objects
from tests.system.attack.arena import Arena
from tests.system.attack.honest import meanwhile
from tools.clusters import http_calls
from tools.clusters.http_calls import Connection, Door
from tools.clusters.programs import HEALTH

ADDRESSES = 128
HELD = 1100
"""More than any port takes, and few for each address."""

SECONDS = 2.0
CONNECTIONS_MIB = 128


@dataclass
class ManyCallers:
    """An API server in a burst of pods: so many connections, each of which is used twice a second."""

    door: Door
    path: str = "/validate"
    body: bytes = b""
    connections: int = 24
    lost: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        async with meanwhile(*(self._go_on(number) for number in range(self.connections))):
            await asyncio.sleep(1)
            yield

    async def _go_on(self, number: int) -> None:
        await asyncio.sleep(number / self.connections / 2)
        async with AsyncExitStack() as stack:
            used: Connection | None = None
            while True:
                try:
                    async with asyncio.timeout(honest.PATIENCE_SECONDS):
                        # As net/http: a kept connection that was closed is replaced, no call is repeated.
                        if used is None or used.reader.at_eof():
                            used = await stack.enter_async_context(http_calls.connection(self.door))
                        answer = await used.call("POST" if self.body else "GET", self.path, self.body)
                    if not answer.well:
                        self.lost.append(str(answer.status))
                    used = None if answer.closes else used
                except OSError as error:
                    self.lost.append(repr(error))
                    used = None
                await asyncio.sleep(0.5)


@asynccontextmanager
async def crowd(door: Door, sent: bytes = b"") -> AsyncIterator[None]:
    """Connections from many addresses, which are held as long as there is room, and made again and again."""
    addresses = (f"127.0.{1 + at // 64}.{1 + at % 64}" for at in itertools.cycle(range(ADDRESSES)))
    held: deque[socket.socket] = deque()
    loop = asyncio.get_running_loop()

    async def come() -> None:
        for address in addresses:
            made = socket.socket()
            made.settimeout(0)
            held.append(made)
            with suppress(OSError):
                made.bind((address, 0))
                await loop.sock_connect(made, (door.host, door.port))
                await loop.sock_sendall(made, sent)
            await asyncio.sleep(0)
            if len(held) > HELD:
                held.popleft().close()

    async with meanwhile(come()):
        yield
    for made in held:
        made.close()


async def test_many_addresses_cut_no_api_server_or_probe(arena: Arena) -> None:
    webhook = await arena.webhook()
    api_server = ManyCallers(webhook.door, body=objects.review(objects.pod("honest")))
    async with (
        api_server.calling(),
        arena.honest(webhook, most=CONNECTIONS_MIB),
        crowd(Door(webhook.door.port)),
        crowd(webhook.about),
        crowd(webhook.about, http_calls.request("GET", "/metrics")),
    ):
        await asyncio.sleep(SECONDS)
    assert api_server.lost == []


async def test_many_addresses_keep_no_probe_of_an_agent_waiting(arena: Arena) -> None:
    agent = await arena.here.agent()
    probes = ManyCallers(agent.about, HEALTH, connections=4)
    async with probes.calling(), crowd(agent.about, b"GET /"):
        await asyncio.sleep(SECONDS)
    assert probes.lost == []
