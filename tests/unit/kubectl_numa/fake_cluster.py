"""A fake API server on a loop of its own, for a program that has one itself."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.worlds.objects import Json
from tools.clusters.fake_api import FakeApi


@dataclass
class FakeCluster:
    folder: Path
    api: FakeApi = field(default_factory=FakeApi)

    def __post_init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.kubeconfig = self.folder / "kubeconfig"

    def do(self, what: Callable[[], object]) -> Any:  # noqa: ANN401  any value
        """Call a function in the thread of the server."""

        async def call() -> object:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(10)

    def put(self, *objects: Json) -> None:
        self.do(lambda: [self.api.put(each) for each in objects])

    def gates(self, name: str, namespace: str = "team") -> list[str]:
        """Return the scheduling gates of a pod."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return [gate["name"] for gate in self.do(lambda: self.api.get(path))["spec"]["schedulingGates"]]


@contextmanager
def fake_cluster(folder: Path) -> Iterator[FakeCluster]:
    """Serve a cluster; the kubeconfig names the namespace `team`."""
    made = FakeCluster(folder)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(made.loop.run_forever)
        asyncio.run_coroutine_threadsafe(made.api.start(), made.loop).result(10)
        made.api.kubeconfig(made.kubeconfig, namespace="team")
        yield made
        asyncio.run_coroutine_threadsafe(made.api.stop(), made.loop).result(10)
        made.loop.call_soon_threadsafe(made.loop.stop)
    made.loop.close()
