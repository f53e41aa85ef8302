"""Calls of programs: reviews of an API server, and pods that a scheduler places with the scorer."""

import asyncio
import os
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tools.clusters.http_calls import JSON, Connection, Door

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
TIMED = 100_000
"""How many of the latest durations of each kind of calls are remembered."""
MOST_FAILURES = 15


@dataclass(slots=True)
class Calls:
    """Calls and outcomes so far, durations by kind of calls, and a description of the first failures."""

    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: "defaultdict[str, deque[float]]" = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=TIMED))
    )
    failures: list[str] = field(default_factory=list)
    callers: "list[Caller]" = field(default_factory=list)

    def caller(self, door: Door) -> "Caller":
        self.callers.append(Caller(door, self))
        return self.callers[-1]

    def close(self) -> None:
        for each in self.callers:
            each.close()

    def fail(self, what: str) -> None:
        self.outcomes["failed"] += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(what)

    def check(self) -> None:
        if self.failures:
            raise RuntimeError(f"{self.outcomes['failed']} calls failed: {self.failures[0]}")


@dataclass(slots=True)
class Caller:
    """A connection that is opened again after it ended; a call fails if its answer is not 200 or 201."""

    door: Door
    calls: Calls
    _open: Connection | None = None

    async def call(self, kind: str, method: str, path: str, body: object, content: str = JSON) -> Any:  # noqa: ANN401  JSON
        """Return the content of a successful answer; else note a failure and return None."""
        sent = body if isinstance(body, bytes) else orjson.dumps(body)
        began = time.perf_counter()
        try:
            self._open = self._open or await Connection.open(self.door)
            answer = await self._open.call(method, path, sent, content)
        except OSError as error:
            self.close()
            self.calls.fail(f"{method} {path}: {error!r}")
            return None
        self.calls.seconds[kind].append(time.perf_counter() - began)
        self.calls.counts[kind] += 1
        if answer.closes:
            self.close()
        if not answer.well:
            self.calls.fail(f"{method} {path}: {answer.status} {answer.body[:200]!r}")
            return None
        return orjson.loads(answer.body)

    async def post(self, kind: str, path: str, body: object) -> Any:  # noqa: ANN401  JSON
        return await self.call(kind, "POST", path, body)

    def close(self) -> None:
        if self._open:
            self._open.close()
            self._open = None


@dataclass(slots=True)
class Scheduler:
    """A scheduler with the scorer as its extender, and the kubelet of the pods that it binds.

    Schedulers with the same `cycle` filter and rank one pod at a time, like the threads of kube-scheduler.
    """

    api: Caller
    scorer: Caller
    nodes: Sequence[str]
    names: int
    dice: random.Random
    cycle: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def schedule(self, pod: Json, path: str) -> None:
        """Create a pod at a path, bind it to the best node on which it fits, and play its kubelet."""
        stored = await self.api.post("create", path, pod)
        if not stored:
            return
        outcomes = self.scorer.calls.outcomes
        async with self.cycle:
            fit = await self.fitting(stored)
            ranked = {"Pod": stored, "Nodes": None, "NodeNames": fit}
            scores = (await self.scorer.post("prioritize", "/prioritize", ranked) or []) if fit else []
        if not scores:
            outcomes["fits nowhere"] += not fit
            return
        best = max(each["Score"] for each in scores)
        node = self.dice.choice([each["Host"] for each in scores if each["Score"] == best])
        name, namespace, uid = (stored["metadata"][key] for key in ("name", "namespace", "uid"))
        binding = {"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node}
        answer = await self.scorer.post("bind", "/bind", binding)
        if not answer or answer["Error"]:
            outcomes["not bound"] += 1
            return
        outcomes["bound"] += 1
        running = {"status": {"phase": "Running", "startTime": stored["metadata"]["creationTimestamp"]}}
        await self.api.call("run", "PATCH", f"{path}/{name}", running, MERGE)

    async def fitting(self, pod: Json) -> list[str]:
        """Return those of some random nodes on which a pod fits."""
        names = self.dice.sample(self.nodes, self.names)
        answer = await self.scorer.post("filter", "/filter", {"Pod": pod, "Nodes": None, "NodeNames": names})
        return (answer["NodeNames"] or []) if answer else []


def processor_seconds(pid: int) -> float:
    """Return the user and system time of a process so far, in seconds (proc(5), `stat`)."""
    # The name of the program, in parentheses, may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
