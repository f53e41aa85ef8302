"""
Measure the webhook as an API server sees it: the real process, TLS, and keep-alive connections.

Reviews are sent at a fixed rate, however long the previous answer took. The time in the handler is
that of the webhook's own histogram, as the difference between two scrapes.

The last run is repeated while topologies change, as exporters publish what is free when pods come and go. One
node, the canary, has a device that no other node has. The device is removed and restored, and a pod that
requests it is reviewed repeatedly until the answer shows the change: the staleness is the time from the
change at the API server to that answer. Client and API server share the processors with the webhook.
"""

import asyncio
import base64
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from tools.bench import api_server, cluster
from tools.bench.api_server import CANARY
from tools.bench.calls import Caller, Calls, Json, processor_seconds, review
from tools.bench.site import at_site
from tools.bench.spreads import SHARES, Histogram, millis
from tools.bench.tables import Measurement, program, row
from tools.clusters.programs import MIB, ApiServer, Running, Site

PATHS = ("/mutate", "/validate")
REPEATS = 5
CONNECTIONS = 4
"""Kept alive and used in turn, so that a late answer does not delay all reviews that are due."""
LOOK_SECONDS, PAUSE_SECONDS = 0.02, 0.2
"""Seconds between two reviews of the pod that requests the canary, and from an answer to the next change."""

KEPT_UP = 0.99
"""The least share of the requested rate; a run below it was not sent at that rate."""
MOST_MIB = 256
HANDLER_MS = {"p50": 1, "p99": 5}
FIRST_MS = {"p99": 25}
"""Round trips of reviews that are the first of their template."""
CHANGING_MS = {"p50": 2, "p99": 8}
STALENESS_MS = {"p99": 1000}
CORES = 0.6

Review = tuple[str, Json]
"""A path and the pod to review there."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a paced run: milliseconds by quantile, and the processors that the webhook used."""

    asked: int
    rate: float
    trips: dict[str, float]
    handler: dict[str, float]
    cores: float
    changes: float = 0
    staleness: Sequence[float] = ()


@dataclass(slots=True)
class Bench:
    """A running webhook, its API server, and connections."""

    webhook: Running
    api: ApiServer
    calls: Calls
    callers: Sequence[Caller]
    watcher: Caller
    sent: int = 0

    async def ask(self, kind: str, at: Review, caller: Caller) -> Json:
        """Return the response to a review, with a uid of its own; raise `RuntimeError` if it fails."""
        self.sent += 1
        uid = f"00000000-0000-0000-0000-{self.sent:012}"
        answer = await caller.post(kind, at[0], review(at[1], uid=uid))
        self.calls.check()
        response: Json = answer["response"]
        return response

    async def introduce(self, pods: Sequence[Json]) -> list[Review]:
        """Send each pod through both paths as if new, then again; return the reviews that repeat it.

        The pod that is validated is the one that would be stored, with the patch of the webhook.
        """
        found: list[Review] = []
        for pod in pods:
            mutated = await self.ask("/mutate, first", ("/mutate", pod), self.callers[0])
            stored = {**pod, "spec": {**pod["spec"], **_written(mutated)}}
            await self.ask("/validate, first", ("/validate", stored), self.callers[0])
            both = [("/mutate", pod), ("/validate", stored)]
            for at in both * REPEATS:
                await self.ask(f"{at[0]}, again", at, self.callers[0])
            found += both
        return found

    async def run(self, reviews: Sequence[Review], rate: int, seconds: float, changes: float = 0) -> Run:
        """Send a review at each tick of the clock, while so many topologies change each second.

        Reviews that were not sent in time are not sent at all.
        """
        await api_server.told(self.api, "/pace", changes)
        kind = f"{rate} a second, {changes} changes"
        page, cpu = await self.webhook.metrics(), processor_seconds(self.webhook.child.process.pid)
        before, sent, staleness = await api_server.changed(self.api), 0, list[float]()
        began = time.perf_counter()

        async def send(first: int, caller: Caller) -> None:
            nonlocal sent
            for number in range(first, round(rate * seconds), len(self.callers)):
                due = began + number / rate
                await asyncio.sleep(max(due - time.perf_counter(), 0))
                if time.perf_counter() > began + seconds:
                    break
                await self.ask(kind, reviews[number % len(reviews)], caller)
                sent += 1

        async with asyncio.TaskGroup() as group:
            for first, caller in enumerate(self.callers):
                group.create_task(send(first, caller))
            if changes:
                group.create_task(self._look(began + seconds, staleness))
        took = time.perf_counter() - began
        after = await self.webhook.metrics()
        metric = "numalign_review_seconds"
        handler = Histogram.of(metric, after).since(Histogram.of(metric, page))
        return Run(
            asked=rate,
            rate=sent / took,
            trips=millis([*self.calls.seconds[kind]]),
            handler=handler.millis(),
            cores=(processor_seconds(self.webhook.child.process.pid) - cpu) / took,
            changes=(await api_server.changed(self.api) - before) / took,
            staleness=staleness,
        )

    async def _look(self, until: float, staleness: list[float]) -> None:
        """Take the canary away and give it back until then; note the seconds until answers show it."""
        free = 1
        while time.perf_counter() < until:
            free = 1 - free
            changed = float(await api_server.told(self.api, "/canary", free))
            while True:
                response = await self.ask("canary", ("/validate", _canary_pod()), self.watcher)
                if (response["allowed"] and not response.get("warnings")) == bool(free):
                    break
                await asyncio.sleep(LOOK_SECONDS)
            staleness.append(time.perf_counter() - changed)
            await asyncio.sleep(PAUSE_SECONDS)


def _written(response: Json) -> Json:
    """Return what a patch adds to the spec of a pod; synthetic pods have no affinity of their own."""
    operations = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
    return {operation["path"].rpartition("/")[2]: operation["value"] for operation in operations}


def _canary_pod() -> Json:
    amounts = {"cpu": "1", "memory": "1Gi", CANARY: "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {"name": "canary", "annotations": {cluster.POLICY: "single-numa-node"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


async def measure(chosen: Namespace, here: Site) -> list[Measurement]:
    """Start a webhook, send it every template for the first time, then send at each rate for so long."""
    api = await api_server.started(here, nodes=chosen.nodes, makes=chosen.makes)
    began = time.perf_counter()
    webhook = await here.webhook("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")
    starting, calls = time.perf_counter() - began, Calls()
    watcher, *callers = (calls.caller(webhook.door) for _ in range(CONNECTIONS + 1))
    bench = Bench(webhook, api, calls, callers, watcher)
    reviews = await bench.introduce(list(cluster.templates(chosen.templates)))
    quiet = [await bench.run(reviews, rate, chosen.seconds) for rate in sorted(chosen.rate)]
    changing = await bench.run(reviews, quiet[-1].asked, 2 * chosen.seconds, chosen.changes)
    memory = webhook.memory()
    calls.close()
    what = f"{chosen.nodes:,} nodes of {chosen.makes} makes"
    resident = memory.now / MIB, (memory.most / MIB, "at the peak")
    return [
        Measurement(
            f"Webhook: {what}, {chosen.templates} templates",
            [
                row("from start to ready", starting, "s"),
                *_first(calls),
                *(each for run in quiet for each in _rows(run, fastest=run is quiet[-1])),
                row("resident", resident[0], "MiB", resident[1], most=MOST_MIB),
            ],
            "AdmissionReviews over TLS: half are mutations of new pods, half validations of the same pods."
            " The round trip is from sending the request to the last byte of the answer. The handler's time"
            " is that of its own histogram, from the first byte of the request to the encoded answer.",
        ),
        Measurement(
            f"Webhook: {what}, {chosen.changes} topologies change each second",
            list(_while_changing(changing, quiet[-1])),
            "Reviews over TLS as above, while an API server sends changes over a watch. A pod whose answer"
            " depends on one node, where a device is taken and given back, shows how late the webhook is.",
        ),
    ]


def _first(calls: Calls) -> Iterator[Sequence[float | str | None]]:
    for path in PATHS:
        first, again = (millis([*calls.seconds[f"{path}, {phase}"]]) for phase in ("first", "again"))
        for key in ("p50", "p99"):
            what = f"{path}, first of a template, round trip {key}"
            yield row(what, first[key], "ms", (again[key], "again"), most=FIRST_MS.get(key))


def _rows(run: Run, *, fastest: bool) -> Iterator[Sequence[float | str | None]]:
    at, aims = f"at {run.asked} reviews/s", HANDLER_MS if fastest else {}
    yield row(f"answered {at}", run.rate, "per s", least=KEPT_UP * run.asked if fastest else None)
    for key in ("p50", "p99"):
        yield row(f"round trip {at}, {key}", run.trips[key])
        yield row(f"handler {at}, {key}", run.handler[key], most=aims.get(key))


def _while_changing(run: Run, quiet: Run) -> Iterator[Sequence[float | str | None]]:
    still = "if nothing changes"
    yield row("changes", run.changes, "per s")
    yield row(f"answered of {run.asked} reviews/s", run.rate, "per s", least=KEPT_UP * run.asked)
    for key in SHARES:
        beside = quiet.trips[key], still
        yield row(f"round trip, {key}", run.trips[key], "ms", beside, most=CHANGING_MS.get(key))
    for key in ("p50", "p99"):
        yield row(f"handler, {key}", run.handler[key], "ms", (quiet.handler[key], still))
    for key, late in millis(run.staleness).items():
        yield row(f"from a change to the answer that shows it, {key}", late, most=STALENESS_MS.get(key))
    yield row("processors, webhook", run.cores, "cores", (quiet.cores, still), most=CORES)


main = program(
    "webhook",
    __doc__,
    at_site(measure),
    nodes=(15_000, 24, "nodes of the cluster"),
    makes=(36, 6, "makes of the nodes"),
    templates=(100, 2, "workloads, all different; every eighth fits no node"),
    rate=((100, 250, 500), (10, 20), "reviews per second, one run for each"),
    seconds=(10.0, 0.5, "seconds at each rate; twice as long while topologies change"),
    changes=(250, 40, "topologies that change each second"),
)

if __name__ == "__main__":
    sys.exit(main(None))
