"""Pods are made when they come, made again when they are refused, and deleted when their time is over."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.configuration import Configuration

from bench.e2e_controller import BACKOFF_SECONDS, PODS, Controller, Fate
from bench.e2e_workload import Task
from harness.fake_api import FakeApi
from harness.waiting import seconds_until

PATIENCE = 7777.0


def task(name: str, *, life: float | None = None, at: float = 0) -> Task:
    return Task(name, at, life, {"cpu": 1}, {}, guaranteed=True)


@asynccontextmanager
async def kubelet(
    api: FakeApi, *, refuses: Sequence[str] = (), ignores: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Decides over every pod at once."""

    async def decide() -> None:
        while True:
            for pod in api.all(PODS):
                name = pod["metadata"]["name"]
                if "status" not in pod and name not in ignores:
                    phase = "Failed" if name in refuses else "Running"
                    api.put(pod | {"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase}})
            await asyncio.sleep(0.001)

    deciding = asyncio.create_task(decide())
    try:
        yield
    finally:
        deciding.cancel()


class Run:
    """A controller that is in a hurry: it sleeps a hundredth of what it should, and remembers.

    Its patience ends when the test says so.
    """

    def __init__(self, client: ApiClient, *tasks: Task) -> None:
        self.slept: list[float] = []
        self.placed: list[str] = []
        self.patience = asyncio.Event()
        self.controller = Controller(client, tasks, placed=self._placed, sleep=self._sleep)

    def _placed(self, fate: Fate) -> None:
        self.placed.append(fate.pod["metadata"]["name"])

    async def _sleep(self, seconds: float) -> None:
        if seconds == PATIENCE:
            await self.patience.wait()
            return
        self.slept.append(seconds)
        await asyncio.sleep(seconds / 100)

    async def until(self, true: Callable[[], bool]) -> None:
        """Run until something is so, and then out of patience."""
        running = asyncio.create_task(self.controller.run(patience=PATIENCE))

        async def look() -> bool:
            return true()

        await seconds_until(look, bool, what="it was so", within=20)
        self.patience.set()
        await running


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as running:
        yield running


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[ApiClient]:
    async with ApiClient(Configuration(host=api.url)) as asking:
        yield asking


def names(api: FakeApi) -> set[str]:
    return {pod["metadata"]["name"] for pod in api.all(PODS)}


async def test_it_ends_when_every_pod_has_run(api: FakeApi, client: ApiClient) -> None:
    run = Run(client, task("a"), task("b"))
    async with kubelet(api):
        await run.controller.run(patience=PATIENCE)
    assert sorted(run.placed) == ["a-0", "b-0"]
    assert not run.controller.waiting


async def test_a_refused_pod_is_made_again_under_another_name_after_a_while(
    api: FakeApi, client: ApiClient
) -> None:
    run = Run(client, task("a"))
    async with kubelet(api, refuses=("a-0", "a-1")):
        await run.controller.run(patience=PATIENCE)
    [fate] = run.controller.fates
    assert run.placed == ["a-2"]
    assert fate.refused == 2
    assert tuple(run.slept[-2:]) == BACKOFF_SECONDS[:2]


async def test_a_pod_that_never_runs_is_not_waited_for_for_ever(api: FakeApi, client: ApiClient) -> None:
    run = Run(client, task("a"), task("b"))
    async with kubelet(api, ignores=("b-0",)):
        await run.until(lambda: run.placed == ["a-0"])
    assert [fate.task.name for fate in run.controller.waiting] == ["b"]


async def test_a_pod_whose_time_is_over_is_deleted(api: FakeApi, client: ApiClient) -> None:
    run = Run(client, task("short", life=0.1), task("waits"))
    async with kubelet(api, ignores=("waits-0",)):
        await run.until(lambda: run.placed == ["short-0"] and names(api) == {"waits-0"})
    assert 0.1 in run.slept


async def test_at_the_end_only_services_that_run_are_left(api: FakeApi, client: ApiClient) -> None:
    run = Run(client, task("service"), task("batch", life=1000), task("waits"))
    async with kubelet(api, ignores=("waits-0",)):
        await run.until(lambda: len(run.placed) == 2 and len(names(api)) == 3)
    await run.controller.end()
    assert names(api) == {"service-0"}


async def test_a_pod_that_cannot_be_created_ends_the_run(api: FakeApi, client: ApiClient) -> None:
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a-0", "namespace": "trace"}})
    with pytest.raises(ExceptionGroup) as ended:
        await Run(client, task("a")).controller.run(patience=PATIENCE)
    assert ended.group_contains(RuntimeError, match="a-0 was not created: 409")
