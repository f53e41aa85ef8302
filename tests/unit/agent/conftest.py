"""API servers as an agent asks them, whose connections end with their test."""

from collections.abc import Callable, Iterator

import pytest

from agent.api_server import ApiServer
from numalign.kube.access import Access

Connect = Callable[[Access], ApiServer]


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[ApiServer] = []

    def connected(access: Access) -> ApiServer:
        made.append(ApiServer(access))
        return made[-1]

    yield connected
    for api in made:
        api.close()
