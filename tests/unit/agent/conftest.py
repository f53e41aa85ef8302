"""An API server with one node, and connections to it that end with their test."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import pytest_asyncio

from agent.https import ApiServer
from numalign.kube.access import Access
from tools.clusters.fake_api import FakeApi

Connect = Callable[[Access], ApiServer]


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
        yield server


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as stack:
        yield lambda access: stack.enter_context(closing(ApiServer(access)))


@pytest.fixture
def api(fake: FakeApi, connect: Connect) -> ApiServer:
    return connect(Access(fake.url))
