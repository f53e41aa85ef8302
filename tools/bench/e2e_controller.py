"""
The controller of all pods in a cell, which creates them again when a kubelet refuses them.

Real controllers do no more for a failed pod: they create another one after a delay. Like all times, the delay
is shorter here than in Kubernetes; as there, it doubles up to a limit.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Api
from numalign.model.intent import PINNED_AT
from tools.bench.calls import Json
from tools.bench.e2e_workload import NAMESPACE, Task
from tools.clusters.api_requests import ask

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0)
"""Seconds until a refused pod is created again: the first time, the second, and so on; then the last one."""
SILENCE = 300.0


@dataclass(slots=True)
class Fate:
    """The state of a task: how often kubelets refused it, and the second `at` which a pod of it ran.

    `pinned` is how often it was refused by a node that the controller of numalign had chosen.
    """

    task: Task
    refused: int = 0
    at: float | None = None
    pod: Json = field(default_factory=dict)
    pinned: int = 0


class Controller:
    """Creates the pods of tasks; `placed` is called for each that runs, as soon as that is seen.

    `alive` are the UIDs of all existing pods.
    """

    def __init__(self, client: ApiClient, tasks: Iterable[Task], placed: Callable[[Fate], None]) -> None:
        self.fates = [Fate(task) for task in tasks]
        self.alive: set[str] = set()
        self._client = client
        self._placed = placed
        self._decided: dict[str, asyncio.Future[Json]] = {}
        self._all_run = asyncio.Event()

    async def run(self, *, patience: float) -> None:
        """Return once every task has run, or `patience` seconds after the last one arrived."""
        within = max(fate.task.at for fate in self.fates) + patience
        listed = (await ask(self._client, "GET", PODS)).body
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            working = [group.create_task(self._watch(listed["metadata"]["resourceVersion"]))]
            working += [group.create_task(self._live(fate, began)) for fate in self.fates]
            try:
                async with asyncio.timeout(within):
                    await self._all_run.wait()
            except TimeoutError:
                pass
            finally:
                for each in working:
                    each.cancel()

    async def end(self) -> None:
        """Delete all pods except the services that run."""
        stay = {fate.pod["metadata"]["name"] for fate in self.fates if fate.pod and fate.task.life is None}
        listed = (await ask(self._client, "GET", PODS)).body["items"]
        names = {pod["metadata"]["name"] for pod in listed}
        await asyncio.gather(*(self._delete(name) for name in names - stay))

    async def _live(self, fate: Fate, began: float) -> None:
        await asyncio.sleep(began + fate.task.at - time.monotonic())
        while (pod := await self._made(fate.task.pod(fate.refused)))["status"]["phase"] != "Running":
            wait = BACKOFF_SECONDS[min(fate.refused, len(BACKOFF_SECONDS) - 1)]
            fate.refused += 1
            fate.pinned += PINNED_AT in pod["metadata"].get("annotations", {})
            await asyncio.sleep(wait)
        fate.at, fate.pod = time.monotonic() - began, pod
        self._placed(fate)
        if all(each.at is not None for each in self.fates):
            self._all_run.set()
        if fate.task.life is not None:
            await asyncio.sleep(fate.task.life)
            await self._delete(pod["metadata"]["name"])

    async def _made(self, wish: Json) -> Json:
        """Create a pod; return it once a kubelet has admitted or refused it."""
        decided = self._decided[wish["metadata"]["name"]] = asyncio.get_running_loop().create_future()
        answer = await ask(self._client, "POST", PODS, wish)
        if answer.code != HTTPStatus.CREATED:
            raise RuntimeError(f"{wish['metadata']['name']} was not created: {answer}")
        found: Json = await decided
        return found

    async def _delete(self, name: str) -> None:
        answer = await ask(self._client, "DELETE", f"{PODS}/{name}")
        if answer.code not in {HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND}:
            raise RuntimeError(f"{name} was not deleted: {answer}")

    async def _watch(self, version: str) -> None:
        api = Api(self._client, namespace=NAMESPACE)
        while True:
            query = (("watch", "1"), ("resourceVersion", version))
            async for line in api.lines(PODS, query, what="pods", silence=SILENCE):
                if line:
                    event = orjson.loads(line)
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._note(event["type"], event["object"])

    def _note(self, change: str, pod: Json) -> None:
        note = self.alive.discard if change == "DELETED" else self.alive.add
        note(pod["metadata"]["uid"])
        decided = self._decided.get(pod["metadata"]["name"])
        if decided and not decided.done() and pod.get("status", {}).get("phase") in {"Running", "Failed"}:
            decided.set_result(pod)
