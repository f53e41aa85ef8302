"""
Measure the scorer's processor time per scheduled pod, and which parts of the scorer use it.

An API server in a separate process serves the nodes, and the scorer follows it as in a cluster. This process
plays the scheduler and all kubelets. It creates each pod, calls the scorer over a keep-alive connection
(`/filter` with the names of some nodes, `/prioritize` with those that are left), binds the pod to one of the
best nodes while it already calls for the next pod, and sets the status to Running. So the scorer receives
three watch events per pod. Its processor time is measured inside it (`tools.bench.sampled_scorer`), from the
first measured pod to the last.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from tools.bench import cluster, command_line, scheduling_load
from tools.bench.figures import MILLI, Spread, ms, table
from tools.bench.rules import YARDSTICK, yardstick
from tools.clusters import programs
from tools.clusters.api_objects import namespace
from tools.clusters.http_calls import JSON, LOOPBACK, Connection, Door, once
from tools.clusters.processes import Child, free_port
from tools.clusters.programs import Site, answers, samples, soon
from tools.clusters.sim.documents import stamp

Raw = dict[str, Any]

VERBS = ("filter", "prioritize", "bind")
LONGEST_WAIT = 120.0
MICRO = 1e6
_MERGE = "application/merge-patch+json"
_PODS = f"/api/v1/namespaces/{scheduling_load.NAMESPACE}/pods"
_SEED = 37


@dataclass(frozen=True, slots=True)
class Load:
    """The numbers of nodes, of node names in a call, and of pods.

    `warm` pods come before those that are measured; `rate` is pods per second, 0 for one after another.
    """

    nodes: int
    names: int
    pods: int
    warm: int
    rate: float


@dataclass(frozen=True, slots=True)
class Used:
    """Usage of the scorer between two moments: seconds of a processor, and samples of its stack by part.

    `longest` are the longest steps of its event loop: seconds of a processor, and what they called.
    """

    cpu: float
    looks: Mapping[str, int]
    longest: Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures; `round_trips` are seconds by verb, `took` is the seconds from the first pod to the last.

    `yardstick` is the seconds of a loop that is the same everywhere, measured right after.
    """

    load: Load
    used: Used
    took: float
    bound: int
    round_trips: Mapping[str, Sequence[float]]
    yardstick: float

    def per_pod(self) -> dict[str, float]:
        """Return milliseconds of a processor per pod by part, the largest first."""
        looks, each = self.used.looks, self.used.cpu * MILLI / self.bound
        return {part: each * count / sum(looks.values()) for part, count in sorted(looks.items(), key=_count)}

    def document(self) -> Raw:
        """Return the figures for a file."""
        return {
            "load": {name: getattr(self.load, name) for name in self.load.__slots__},
            "bound": self.bound,
            "pods_per_second": self.bound / self.took,
            "cpu_ms_per_pod": self.used.cpu * MILLI / self.bound,
            "cores": self.used.cpu / self.took,
            "yardstick_s": self.yardstick,
            "parts_ms_per_pod": self.per_pod(),
            "round_trips_ms": {verb: Spread.of(trips).millis() for verb, trips in self.round_trips.items()},
            "longest_steps_ms": [[step * MILLI, called] for step, called in self.used.longest],
        }

    def text(self) -> str:
        """Return the tables for a terminal."""
        each = self.used.cpu / self.bound
        rows = [(part, f"{spent:.3f}") for part, spent in self.per_pod().items()]
        trips = [
            (f"/{verb}", *map(ms, (spread.p50, spread.p99, spread.most)))
            for verb, spread in ((verb, Spread.of(trips)) for verb, trips in self.round_trips.items())
        ]
        head = (
            f"{self.bound} pods, {self.load.nodes} nodes, {self.load.names} names in a call:"
            f" {self.bound / self.took:.0f} pods/s, {self.used.cpu / self.took:.2f} cores"
        )
        steps = [(called, ms(step)) for step, called in self.used.longest]
        return "\n".join(
            (
                head,
                "",
                table(("CPU ms per pod", f"{each * MILLI:.2f}"), rows),
                "",
                table(("round trip, ms", "p50", "p99", "most"), trips),
                "",
                table(("longest steps of the event loop", "CPU ms"), steps),
                "",
                f"for comparison: {YARDSTICK} takes {self.yardstick * MICRO:.2f} microseconds here",
            )
        )


def _count(part: tuple[str, int]) -> int:
    return -part[1]


def pods(number: int) -> Iterator[Raw]:
    """Yield so many pods, as long as the pods of an API server."""
    envelope = next(cluster.templates(1)).pod
    container = envelope["spec"]["containers"][0]
    for pod in scheduling_load.pods(number, kind="device"):
        (asked,) = pod["spec"]["containers"]
        yield {
            **pod,
            "metadata": {
                **pod["metadata"],
                **{key: envelope["metadata"][key] for key in ("labels", "ownerReferences", "managedFields")},
            },
            "spec": {**envelope["spec"], "containers": [{**container, **asked}]},
            "status": {"phase": "Pending", "qosClass": "Guaranteed"},
        }


@dataclass(slots=True)
class Scheduler:
    """Creates pods, calls the scorer for one at a time over `asking`, and has them bound."""

    asking: Connection
    binding: "Pool"
    api: "Pool"
    names: Sequence[str]
    round_trips: dict[str, list[float]] = field(default_factory=lambda: {verb: [] for verb in VERBS})
    bound: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(_SEED))  # noqa: S311 - no secrets

    async def schedule(self, load: Load, listed: Iterator[Raw], number: int) -> None:
        """Schedule the next pods at their rate."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for at in range(number):
                if load.rate:
                    await asyncio.sleep(max(0.0, began + at / load.rate - time.monotonic()))
                pod = await self.api.call("POST", _PODS, next(listed))
                if node := await self._chosen(pod, load.names):
                    group.create_task(self._bind(pod, node))

    async def _chosen(self, pod: Raw, names: int) -> str | None:
        first = self.dice.randrange(len(self.names))
        asked = [*self.names, *self.names][first : first + names]
        filtered = await self._asked("filter", {"Pod": pod, "Nodes": None, "NodeNames": asked})
        fit = filtered["NodeNames"]
        if not fit:
            return None
        scores = await self._asked("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": fit})
        best = max(each["Score"] for each in scores)
        chosen: str = self.dice.choice([each["Host"] for each in scores if each["Score"] == best])
        return chosen

    async def _asked(self, verb: str, asked: Raw) -> Any:  # noqa: ANN401  JSON
        body, began = orjson.dumps(asked), time.perf_counter()
        answer = await self.asking.call("POST", f"/{verb}", body)
        self.round_trips[verb].append(time.perf_counter() - began)
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"/{verb} answered {answer.status}: {answer.body[:200]!r}")
        return orjson.loads(answer.body)

    async def _bind(self, pod: Raw, node: str) -> None:
        metadata = pod["metadata"]
        names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"]}
        began = time.perf_counter()
        answer = await self.binding.call("POST", "/bind", {**names, "PodUID": metadata["uid"], "Node": node})
        self.round_trips["bind"].append(time.perf_counter() - began)
        if answer["Error"]:
            return
        self.bound += 1
        running = {"status": {"phase": "Running", "startTime": stamp()}}
        await self.api.call("PATCH", f"{_PODS}/{metadata['name']}", running, _MERGE)


@dataclass(slots=True)
class Pool:
    """Connections that are kept alive, as many as there are concurrent calls."""

    door: Door
    _idle: list[Connection] = field(default_factory=list)

    async def call(self, method: str, path: str, said: Raw, content_type: str = JSON) -> Raw:
        """Return the response; raise `RuntimeError` if it is not a success."""
        connection = self._idle.pop() if self._idle else await Connection.open(self.door)
        answer = await connection.call(method, path, orjson.dumps(said), content_type)
        self._idle.append(connection)
        if not answer.well:
            raise RuntimeError(f"{method} {path} answered {answer.status}: {answer.body[:200]!r}")
        found: Raw = orjson.loads(answer.body)
        return found

    def close(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            connection.close()


@dataclass(frozen=True, slots=True)
class Sampled:
    """A scorer that counts its usage; `about` serves its metrics, `file` receives the counts."""

    child: Child
    door: Door
    about: Door
    file: Path

    def begin(self) -> None:
        """Count from now on."""
        self.child.send(signal.SIGUSR1)

    async def used(self) -> Used:
        """Return the usage since then."""
        self.child.send(signal.SIGUSR2)
        await soon(self._written, what="its usage was written", child=self.child)
        told = orjson.loads(self.file.read_bytes())
        return Used(told["cpu"], told["looks"], told["longest"])

    async def _written(self) -> bool:
        return self.file.exists()

    async def knows(self, nodes: int) -> bool:
        """Return whether the free resources of so many nodes have been worked out."""
        page = (await once(self.about, "GET", "/metrics")).body.decode()
        found = samples(page)
        return sum(value for name, value in found.items() if "ledger_nodes{" in name) >= nodes


@asynccontextmanager
async def _scorer(site: Site, kubeconfig: Path) -> AsyncIterator[Sampled]:
    door, about, file = Door(free_port()), Door(free_port()), site.folder / "used.json"
    child = await site.children.start(
        *(sys.executable, "-m", "tools.bench.sampled_scorer", str(file)),
        *("--bind", LOOPBACK, "--port", str(door.port), "--metrics-port", str(about.port)),
        *("--insecure-http", "--drain-seconds", "0", "--kubeconfig", str(kubeconfig)),
    )
    await soon(partial(answers, about, programs.READY), what="ready", child=child)
    yield Sampled(child, door, about, file)
    await child.stop()


async def measure(load: Load, folder: Path) -> Outcome:
    """Schedule pods; return what the scorer used."""
    objects = [namespace(scheduling_load.NAMESPACE, {})]
    objects += (each for pair in scheduling_load.nodes(load.nodes) for each in pair)
    async with programs.site(folder) as site:
        server = await site.api_server(objects)
        async with _scorer(site, server.kubeconfig) as scorer:
            knows = partial(scorer.knows, load.nodes)
            await soon(knows, what="it had all nodes in its ledger", child=scorer.child, seconds=LONGEST_WAIT)
            return await _scheduled(load, scorer, server.door)


async def _scheduled(load: Load, scorer: Sampled, api: Door) -> Outcome:
    names = [node["metadata"]["name"] for node, _ in scheduling_load.nodes(load.nodes)]
    binding, objects, listed = Pool(scorer.door), Pool(api), pods(load.warm + load.pods)
    scheduler = Scheduler(await Connection.open(scorer.door), binding, objects, names)
    await scheduler.schedule(load, listed, load.warm)
    measured = Scheduler(scheduler.asking, binding, objects, names)
    scorer.begin()
    began = time.monotonic()
    await measured.schedule(load, listed, load.pods)
    took = time.monotonic() - began
    used = await scorer.used()
    scheduler.asking.close()
    binding.close()
    objects.close()
    return Outcome(load, used, took, measured.bound, measured.round_trips, yardstick())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure as the flags say; return 0 however slow it was."""
    chosen = _parser().parse_args(arguments)
    load = Load(chosen.nodes, chosen.names, chosen.pods, chosen.warm, chosen.rate)
    with tempfile.TemporaryDirectory(prefix="numalign-bench-") as folder:
        outcome = asyncio.run(measure(load, Path(folder)))
    print(outcome.text())
    command_line.write(outcome.document(), chosen.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("tools.bench.cpu_per_pod", __doc__)
    numbers = (
        ("nodes", 5000, "nodes of the cluster"),
        ("names", 500, "node names in a call of /filter"),
        ("pods", 1000, "measured pods"),
        ("warm", 200, "pods before the measured ones"),
        ("rate", 0, "pods per second, 0 for one after another"),
    )
    for name, default, said in numbers:
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{said} (default {default})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
