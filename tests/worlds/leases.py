"""A Lease behind a wire that carries requests only as a test lets it."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from numalign.kube.errors import Conflict, NotFound, Unreachable

Json = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"
LEASE = f"{LEASES}/numalign-webhook"
TURN = 5
"""Steps: the end of sleep, the way of a request and of its answer, and those of the second request."""


class Store:
    """An API server with one Lease, which gets a new version with each change."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.version = 1

    @property
    def spec(self) -> Json:
        assert self.lease
        spec: Json = self.lease["spec"]
        return spec

    def put(self, **fields: object) -> None:
        self._store({"metadata": {"name": "numalign-webhook"}, "spec": fields})

    async def get(self, path: str, *, what: str) -> object:
        assert path == LEASE
        if self.lease is None:
            raise NotFound(what)
        return copy.deepcopy(self.lease)

    async def create(self, path: str, body: object, *, what: str) -> object:
        assert path == LEASES
        if self.lease is not None:
            raise Conflict(what)
        return self._store(body)

    async def replace(self, path: str, body: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        assert path == LEASE
        if self.lease is None:
            raise NotFound(what)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(what)
        return self._store(body)

    def _store(self, body: Any) -> object:  # noqa: ANN401  JSON
        made = copy.deepcopy(body)
        if self.lease is None or made["spec"] != self.lease["spec"]:
            self.version += 1
            self.lease = made
            made["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)


class Wire:
    """Requests to a store that go out, and answers that come back, only when the test lets them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._opened = False
        self._waiting: asyncio.Future[bool] | None = None

    async def get(self, path: str, *, what: str) -> object:
        return await self._carried(partial(self.store.get, path, what=what))

    async def create(self, path: str, body: object, *, what: str) -> object:
        return await self._carried(partial(self.store.create, path, body, what=what))

    async def replace(self, path: str, body: object, *, what: str) -> object:
        return await self._carried(partial(self.store.replace, path, body, what=what))

    async def sleep(self, _seconds: float) -> None:
        await self._let_through()

    async def step(self, *, arrives: bool = True) -> None:
        """Let what is under way arrive or get lost, and wait until the next thing is under way."""
        await _until(self._is_waiting)
        if self._waiting and self._is_waiting():
            self._waiting.set_result(arrives)
            await _until(self._is_waiting)

    def open(self) -> None:
        """Let everything through from now on."""
        self._opened = True
        if self._waiting and self._is_waiting():
            self._waiting.set_result(True)

    def _is_waiting(self) -> bool:
        return self._waiting is not None and not self._waiting.done()

    async def _carried(self, request: Callable[[], Awaitable[object]]) -> object:
        if not await self._let_through():
            raise Unreachable("the request was lost")
        try:
            return await request()
        finally:
            if not await self._let_through():
                raise Unreachable("the answer was lost")

    async def _let_through(self) -> bool:
        if self._opened:
            return True
        self._waiting = asyncio.get_running_loop().create_future()
        return await self._waiting


async def _until(happened: Callable[[], object]) -> None:
    """Let others run until something has happened, or nothing more will."""
    for _ in range(20):
        if happened():
            return
        await asyncio.sleep(0)
