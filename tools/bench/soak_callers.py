"""
The callers of a soak: an API server with its reviews, and a scheduler with the pods that it binds.

A call counts as failed if its answer is not 200 or 201, or is invalid.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from tools.bench import soak_pods
from tools.bench.soak_pods import Json, Made
from tools.clusters.http_calls import Answer, Connection, Door

PATHS = ("mutate", "validate")
WORKLOADS = "validate-workloads"
EVERY_WORKLOAD = 10
"""Of so many pods, the workload of one is reviewed too."""

LIFE_SECONDS = 5.0
NAMES = 12
"""Nodes in the calls of a scheduler for one pod."""

MOST_TOLD = 15
_MERGE = "application/merge-patch+json"


@dataclass(slots=True)
class Counts:
    """Calls by kind, and outcomes so far; `failed` describes the first failures."""

    calls: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    @property
    def reviews(self) -> int:
        """The number of reviews on all paths."""
        return sum(self.calls[path] for path in (*PATHS, WORKLOADS))

    def fail(self, said: str) -> None:
        """Note a call that failed."""
        self.outcomes["failed"] += 1
        if len(self.failed) < MOST_TOLD:
            self.failed.append(said)


@dataclass(slots=True)
class Caller:
    """A connection that is opened again after it ended, and the counts of its calls."""

    door: Door
    counts: Counts
    _open: Connection | None = None

    async def call(self, kind: str, method: str, path: str, body: bytes, content_type: str) -> Answer | None:
        """Return the answer to a successful call; else note a failure and return None."""
        try:
            if self._open is None:
                self._open = await Connection.open(self.door)
            answer = await self._open.call(method, path, body, content_type)
        except OSError as error:
            self.end()
            self.counts.fail(f"{method} {path}: {error!r}")
            return None
        if answer.closes:
            self.end()
        self.counts.calls[kind] += 1
        if not answer.well:
            self.counts.fail(f"{method} {path}: {answer.status} {answer.body[:200]!r}")
            return None
        return answer

    async def post(self, kind: str, path: str, said: object) -> object:
        """Post JSON and return the answer; None after a failure."""
        body = said if isinstance(said, bytes) else orjson.dumps(said)
        answer = await self.call(kind, "POST", path, body, "application/json")
        return answer and orjson.loads(answer.body)

    def end(self) -> None:
        """Close the connection."""
        if self._open:
            self._open.close()
            self._open = None


@dataclass(slots=True)
class Reviews:
    """The calls of an API server: reviews of new pods, one after another."""

    caller: Caller
    numbers: Iterator[int]

    async def step(self) -> None:
        """Review one pod."""
        number = next(self.numbers)
        pod = soak_pods.made(number)
        for path in (*PATHS, *([] if number % EVERY_WORKLOAD else [WORKLOADS])):
            answer = await self.caller.post(path, f"/{path}", soak_pods.review(path, pod))
            if isinstance(answer, dict):
                self._look(path, pod, answer["response"])

    def _look(self, path: str, pod: Made, response: Json) -> None:
        """Count a decision; validation must deny invalid pods, everything else depends on the nodes."""
        counts, allowed = self.caller.counts, response["allowed"]
        counts.outcomes["allowed" if allowed else "denied"] += 1
        if response["uid"] != pod.pod["metadata"]["uid"]:
            counts.fail(f"/{path}: an answer to another review")
        if path == "validate" and pod.broken and allowed:
            counts.fail(f"/{path}: {pod.pod['metadata']['name']} is invalid and was let in")


@dataclass(slots=True)
class Schedule:
    """A scheduler, with the controller and the kubelet of the pods that it binds."""

    api: Caller
    scorer: Caller
    nodes: list[str]
    numbers: Iterator[int]
    dice: random.Random
    living: deque[tuple[float, str]] = field(default_factory=deque)

    async def step(self) -> None:
        """Take a pod from its creation to its kubelet, and only ask about another one."""
        await self._fit(soak_pods.made(next(self.numbers)).pod)
        pod = soak_pods.made(next(self.numbers)).pod
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        stored = await self.api.post("made", path, pod)
        if isinstance(stored, dict):
            here = f"{path}/{pod['metadata']['name']}"
            self.living.append((time.monotonic() + LIFE_SECONDS, here))
            if node := await self._chosen(stored):
                await self._bound(stored, node, here)
        await self.reap(time.monotonic())

    async def reap(self, now: float) -> None:
        """Delete the pods whose time is over by then."""
        while self.living and self.living[0][0] <= now:
            await self.api.call("gone", "DELETE", self.living.popleft()[1], b"", _MERGE)

    async def _fit(self, pod: Json) -> list[str]:
        names = self.dice.sample(self.nodes, NAMES)
        answer = await self.scorer.post("filter", "/filter", {"Pod": pod, "Nodes": None, "NodeNames": names})
        return answer["NodeNames"] or [] if isinstance(answer, dict) else []

    async def _chosen(self, pod: Json) -> str | None:
        if not (fit := await self._fit(pod)):
            self.scorer.counts.outcomes["fits nowhere"] += 1
            return None
        asked = {"Pod": pod, "Nodes": None, "NodeNames": fit}
        answer = await self.scorer.post("prioritize", "/prioritize", asked)
        scores = answer if isinstance(answer, list) else []
        return max(scores, key=lambda each: each["Score"])["Host"] if scores else None

    async def _bound(self, pod: Json, node: str, path: str) -> None:
        metadata = pod["metadata"]
        names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"]}
        answer = await self.scorer.post("bind", "/bind", {**names, "PodUID": metadata["uid"], "Node": node})
        error = answer["Error"] if isinstance(answer, dict) else "failed"
        self.scorer.counts.outcomes["not bound" if error else "bound"] += 1
        if not error:
            taken = orjson.dumps({"status": {"phase": "Running", "startTime": metadata["creationTimestamp"]}})
            await self.api.call("taken in", "PATCH", path, taken, _MERGE)
