"""
Pods that come and go like those of a real cluster, compressed into a minute, and their controller.

Requests and policies are drawn from the trace of `kubectl_numa.demo.openb`. Its machines are larger than
those here, and it runs for weeks, so amounts and times are scaled; all scales are among the numbers below.
The same seed gives the same pods at the same moments, for every scheduler.

Like real controllers, this one creates a pod again if a kubelet refuses it, after a delay that doubles up to
a limit. Like all times, the delay is shorter than in Kubernetes.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import aiohttp

from kubectl_numa.demo import openb
from kubectl_numa.demo.openb.recipe import NAMESPACES
from numalign.model.intent import ENFORCE, PINNED_AT, POLICY
from numalign.model.quantity import millis, units
from tools.bench.site import Json, call, events
from tools.clusters.waiting import SELDOM, seconds_until

NAMESPACE = "trace"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GPU = "nvidia.com/gpu"
MIB = 2**20

CPUS_AND_MEMORY = 2 / 3
"""A zone of the trace's common machine has 48 CPUs and 393 GiB for four GPUs, one here has 32 and 256."""
LARGEST: Mapping[str, int] = {"cpu": 32, "memory": 256 * 1024 * MIB, GPU: 4}
"""The largest zone here. The trace's jobs of eight GPUs, which are for two zones, request half of all."""
MULTI_WEIGHT = 12
"""How often a pod of several GPUs is drawn for each pod of one. They are 1 of 110 in the trace, whose
authors made variants with up to half of all GPUs in such pods; here they are 4 of 10.
"""
SERVICES = 0.15
"""The share of pods that stay until the end; the others run for a random time."""
SHORTEST = 1.0
"""The shortest time that a pod runs, in seconds."""
POLICIES = ("single-numa-node", "restricted", "best-effort")
BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0)
"""Seconds until a refused pod is created again: the first time, the second, and so on; then the last one."""


@dataclass(slots=True)
class Task:
    """A task for one node, which arrives at second `at` and runs for `life` seconds; None is for ever.

    `refused` is how often kubelets refused its pod, `pinned` how often on a node that the controller of
    numalign had chosen, `ran` the second at which it ran, and `pod` the running or else the wanted pod.
    """

    at: float
    life: float | None
    pod: Json
    refused: int = 0
    pinned: int = 0
    ran: float | None = None

    @property
    def name(self) -> str:
        name: str = self.pod["metadata"]["name"]
        return name


def tasks(seed: int, *, pods: int, seconds: float, life: float) -> list[Task]:
    """Return so many tasks that arrive within so many seconds, and run for `life` seconds on average."""
    dice = random.Random(seed)  # noqa: S311 - it makes input, not secrets
    every = list(openb.pods())
    weights = [MULTI_WEIGHT if int(_resources(pod)["requests"].get(GPU, "0")) > 1 else 1 for pod in every]
    drawn = dice.choices(every, weights, k=pods)
    arrivals = sorted(dice.uniform(0, seconds) for _ in range(pods))
    made = []
    for number, (at, pod) in enumerate(zip(arrivals, drawn, strict=True)):
        # Mostly short times, up to twice the mean, so that a run ends.
        service, draw = dice.random() < SERVICES, dice.expovariate(1 / life)
        runs = None if service else min(max(draw, SHORTEST), 2 * life)
        made.append(Task(at, runs, _pod(f"task-{number:04}", pod)))
    return made


def _resources(pod: Json) -> Mapping[str, Mapping[str, str]]:
    resources: Mapping[str, Mapping[str, str]] = pod["spec"]["containers"][0]["resources"]
    return resources


def _pod(name: str, drawn: Json) -> Json:
    """Return a pod like one of the trace, limited like that: in all resources, or only in its GPUs."""
    metadata, resources = drawn["metadata"], _resources(drawn)
    wanted = metadata.get("annotations", {}).get(POLICY, "")
    # The recipe makes mistakes to show them. Namespaces of pods with several GPUs enforce a policy.
    policy = wanted if wanted in POLICIES else NAMESPACES[metadata["namespace"]].get(ENFORCE, "")
    amounts = _amounts(resources["requests"])
    limited = amounts if "cpu" in resources["limits"] else {GPU: amounts[GPU]} if GPU in amounts else {}
    granted = {"requests": amounts, "limits": limited}
    container = {"name": "main", "image": "openb:2023", "resources": granted}
    annotations = {POLICY: policy} if policy else {}
    own = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": {"containers": [container]}}


def _amounts(requests: Mapping[str, str]) -> dict[str, str]:
    """Scale what a pod of the trace requests to whole CPUs, bytes and GPUs; GPUs are not shared here."""
    gpus = int(requests.get(GPU, "0"))
    halves = max(gpus // LARGEST[GPU], 1)
    share = CPUS_AND_MEMORY / halves
    cpus = max(round(millis(requests["cpu"]) / 1000 * share), 1)
    memory = max(round(units(requests.get("memory", "0")) * share / MIB), 1) * MIB
    scaled = {"cpu": cpus, "memory": memory, GPU: gpus // halves}
    return {name: str(min(amount, LARGEST[name])) for name, amount in scaled.items() if amount}


class Controller:
    """Creates the pods of tasks; `placed` is called for each that runs, as soon as that is seen.

    `alive` are the UIDs of all existing pods.
    """

    def __init__(
        self, api: aiohttp.ClientSession, tasks: Sequence[Task], placed: Callable[[Task], None]
    ) -> None:
        self.tasks = tasks
        self.alive: set[str] = set()
        self._api = api
        self._placed = placed
        self._decided: dict[str, asyncio.Future[Json]] = {}
        self._all_ran = asyncio.Event()

    async def run(self, *, patience: float) -> None:
        """Return once every task has run, or `patience` seconds after the last one arrived."""
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            work = (self._watch(), *(self._live(task, began) for task in self.tasks))
            working = [group.create_task(each) for each in work]
            with suppress(TimeoutError):
                async with asyncio.timeout(max(task.at for task in self.tasks) + patience):
                    await self._all_ran.wait()
            for each in working:
                each.cancel()

    async def end(self) -> None:
        """Delete all pods except the services that run, and return once they are gone."""
        stay = {task.name for task in self.tasks if task.life is None and task.ran is not None}
        await asyncio.gather(*map(self._delete, await self._names() - stay))
        await seconds_until(self._names, stay.issuperset, what="pods were gone", within=60, every=SELDOM)

    async def _names(self) -> set[str]:
        listed = [pod["metadata"] for pod in (await call(self._api, "GET", PODS))["items"]]
        self.alive = {each["uid"] for each in listed}
        return {each["name"] for each in listed}

    async def _delete(self, name: str) -> None:
        await call(self._api, "DELETE", f"{PODS}/{name}")

    async def _live(self, task: Task, began: float) -> None:
        await asyncio.sleep(began + task.at - time.monotonic())
        name = task.name
        while (pod := await self._created(task.pod, f"{name}-{task.refused}"))["status"]["phase"] == "Failed":
            wait = BACKOFF_SECONDS[min(task.refused, len(BACKOFF_SECONDS) - 1)]
            task.refused += 1
            task.pinned += PINNED_AT in pod["metadata"].get("annotations", {})
            await asyncio.sleep(wait)
        task.ran, task.pod = time.monotonic() - began, pod
        self._placed(task)
        if all(each.ran is not None for each in self.tasks):
            self._all_ran.set()
        if task.life is not None:
            await asyncio.sleep(task.life)
            await self._delete(task.name)

    async def _created(self, pod: Json, name: str) -> Json:
        """Create a pod under a name; return it once a kubelet has admitted or refused it."""
        decided = self._decided[name] = asyncio.get_running_loop().create_future()
        await call(self._api, "POST", PODS, {**pod, "metadata": {**pod["metadata"], "name": name}})
        found: Json = await decided
        return found

    async def _watch(self) -> None:
        async for event in events(self._api, PODS):
            pod, metadata = event["object"], event["object"]["metadata"]
            (self.alive.discard if event["type"] == "DELETED" else self.alive.add)(metadata["uid"])
            decided = self._decided.get(metadata["name"])
            if decided and not decided.done() and pod.get("status", {}).get("phase") in {"Running", "Failed"}:
                decided.set_result(pod)
