"""Pods, one after the other, while something happens to the webhook.

They are asked for in a namespace that enforces, and only rehearsed. There a review that fails is an error
that the pod's creator sees; and a pod that was not steered shows that the other review failed, which the
API server forgives. Both are counted, and so are the failures that the API server itself counted.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from kubernetes_asyncio.client.api_client import ApiClient

from tools.clusters.api_requests import INTENT, Answer, create, gpus, pod
from tools.clusters.controlplane.reviews import Reviews, reviews

LOADED = pod("loaded", asks=gpus(4), annotations=INTENT)
"""A pod that some nodes of the fleet can align, and others cannot."""

WORKERS = 3
PAUSE_SECONDS = 0.01
STARTING = "not yet ready to handle request"
"""What the API server says of every pod while it learns what it needs for admission."""


@dataclass(slots=True)
class Load:
    """What became of the pods so far.

    `right` were answered as they should be; `wrong` holds what was said to the others. `unanswered` is how
    often nobody answered, the API server itself being away or just starting.
    """

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    unanswered: int = 0
    over: bool = False

    async def work(self, api: ApiClient, right: Callable[[Answer], bool]) -> None:
        while not self.over:
            try:
                answer = await create(api, LOADED, namespace="enforced", dryRun="All")
            except (aiohttp.ClientError, OSError):
                self.unanswered += 1
            else:
                output = answer.body.get("message", "the pod was not steered")
                if STARTING in output:
                    self.unanswered += 1
                elif right(answer):
                    self.right += 1
                else:
                    self.wrong.append(f"{answer.code} {output}")
            await asyncio.sleep(PAUSE_SECONDS)


@asynccontextmanager
async def load(api: ApiClient, *, right: Callable[[Answer], bool]) -> AsyncIterator[Load]:
    """Pods are asked for all the time until the end of the block."""
    count = Load()
    async with asyncio.TaskGroup() as workers:
        for _ in range(WORKERS):
            workers.create_task(count.work(api, right))
        yield count
        count.over = True


@asynccontextmanager
async def lossless(api: ApiClient, *, right: Callable[[Answer], bool]) -> AsyncIterator[Load]:
    """Pods are asked for before, while and after; no review of them fails."""
    before: Reviews = await reviews(api)
    async with load(api, right=right) as count:
        await asyncio.sleep(1)
        yield count
        await asyncio.sleep(1)
    assert ((await reviews(api)).since(before).failed, count.wrong) == (0, [])
    assert count.right > 50
