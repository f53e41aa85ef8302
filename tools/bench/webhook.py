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
import math
import re
import sys
import time
import uuid
from argparse import Namespace
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from numalign.model.intent import Policy
from tools.bench import api_server, cluster
from tools.bench.api_server import CANARY, TOPOLOGIES, canary
from tools.bench.calls import Caller, Calls, Json, processor_seconds
from tools.bench.fleets import Case, topology
from tools.bench.site import at_site
from tools.bench.tables import MILLI, Measurement, Row, millis, program, row
from tools.clusters.http_calls import Door, review
from tools.clusters.programs import MIB, Running, Site

REPEATS = 5
CONNECTIONS = 4
"""Kept alive and used in turn, so that a late answer does not delay all reviews that are due."""
LOOK_SECONDS, PAUSE_SECONDS = 0.02, 0.2
"""Seconds between two reviews of the pod that requests the canary, and from an answer to the next change."""

KEPT_UP = 0.99
"""The least share of the requested rate; a run below it was not sent at that rate."""
MOST_MIB = 256
FIRST_P99_MS = 25
"""Round trips of reviews that are the first of their template."""
QUIET = {"handler, p50": 1, "handler, p99": 5}
BUSY = {"round trip, p50": 2, "round trip, p99": 8, "change to answer, p99": 1000, "processors": 0.6}
UNITS = {"answered": "per s", "changes": "per s", "processors": "cores"}

BUCKET = r'^numalign_%s_seconds_bucket\{(?:.*,)?le="([^"]+)"[^}]*\} (\S+)$'

Review = tuple[str, Json]  # a path, and the pod to review there
Run = Mapping[str, float]  # figures by their names


@dataclass(slots=True)
class Bench:
    """A running webhook, its connections, the address of its API server, and the reviews that are sent."""

    webhook: Running
    callers: Sequence[Caller]
    api: Door
    reviews: Sequence[Review]

    async def run(self, rate: int, seconds: float, changes: Sequence[bytes] = ()) -> Run:
        """Send so many reviews a second, while topologies change at an even pace."""
        kind, pid, step = f"at {rate}, {len(changes)} changes", self.webhook.child.process.pid, CONNECTIONS
        calls = self.callers[0].calls
        api, other, watcher = map(calls.caller, (self.api, self.api, self.webhook.door))

        async def send(number: int) -> None:
            await ask(kind, self.reviews[number % len(self.reviews)], self.callers[number % step])

        async def change(number: int) -> None:
            await api.call("change", "PUT", TOPOLOGIES, changes[number])

        page, cpu, began = await self.webhook.metrics(), processor_seconds(pid), time.perf_counter()
        until, of_one = began + seconds, [range(at, round(rate * seconds), step) for at in range(step)]
        async with asyncio.TaskGroup() as group:
            for numbers in of_one:
                group.create_task(paced(send, numbers, rate, until))
            group.create_task(paced(change, range(len(changes)), len(changes) / seconds, until))
            looking = group.create_task(staleness(other, watcher, until if changes else 0))
        took = time.perf_counter() - began
        late = {f"change to answer, {key}": found for key, found in millis(looking.result()).items()}
        return {
            "answered": calls.counts[kind] / took,
            "processors": (processor_seconds(pid) - cpu) / took,
            **{f"round trip, {key}": found for key, found in millis(calls.seconds[kind]).items()},
            **of_histogram("review", "handler", page, after := await self.webhook.metrics()),
            **of_histogram("event_loop_lag", "lag of the event loop", page, after),
            **({"changes": calls.counts["change"] / took, **late} if changes else {}),
        }


async def ask(kind: str, at: Review, caller: Caller) -> Json:
    """Return the response to a review; raise `RuntimeError` if any call failed."""
    answer = await caller.post(kind, at[0], review(at[1], uid=str(uuid.uuid4())))
    caller.calls.check()
    response: Json = answer["response"]
    return response


async def staleness(api: Caller, watcher: Caller, until: float) -> list[float]:
    """Take the canary away and give it back until then; return the seconds until answers show it."""
    amounts = {"cpu": "1", "memory": "1Gi", CANARY: "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    annotations = {cluster.POLICY: "single-numa-node"}
    # The API server has this namespace; an unknown one would be looked up for each review.
    metadata = {"name": "canary", "namespace": "team", "annotations": annotations}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    seconds, free = list[float](), True
    while (began := time.perf_counter()) < until:
        free = not free
        await api.call("canary", "PUT", TOPOLOGIES, topology(canary(int(free))))
        while True:
            response = await ask("canary", ("/validate", pod), watcher)
            if (response["allowed"] and not response.get("warnings")) == free:
                break
            await asyncio.sleep(LOOK_SECONDS)
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    return seconds


async def paced(do: Callable[[int], Awaitable[None]], numbers: range, rate: float, until: float) -> None:
    """Do something for each number, of which so many are due each second; what is late is not done at all."""
    began = time.perf_counter()
    for number in numbers:
        await asyncio.sleep(max(began + number / rate - time.perf_counter(), 0))
        if time.perf_counter() > until:
            break
        await do(number)


def of_histogram(metric: str, name: str, before: str, after: str) -> Run:
    """Return quantiles of what came between two pages of metrics, interpolated linearly in a bucket."""
    counts, bucket = Counter[float](), re.compile(BUCKET % metric, re.MULTILINE)
    for page, sign in ((before, -1), (after, 1)):
        for bound, count in bucket.findall(page):
            counts[float(bound)] += sign * round(float(count))
    bounds = [0.0, *sorted(filter(math.isfinite, counts))]
    below, total = [counts[bound] for bound in bounds], counts[math.inf]
    shares = {f"{name}, p50": 0.5, f"{name}, p99": 0.99}
    return {key: MILLI * float(np.interp(share * total, below, bounds)) for key, share in shares.items()}


async def measure(chosen: Namespace, here: Site) -> list[Measurement]:
    """Start a webhook, send it every template for the first time, then send at each rate for so long."""
    api = await api_server.started(here, nodes=chosen.nodes, makes=chosen.makes)
    began = time.perf_counter()
    webhook = await here.webhook("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")
    first, calls = [row("from start to ready", time.perf_counter() - began, "s")], Calls()
    callers = [calls.caller(webhook.door) for _ in range(CONNECTIONS)]
    pods, paths = cluster.templates(chosen.templates), ("/mutate", "/validate")
    reviews = [(path, pod) for pod in pods for path in paths]
    bench = Bench(webhook, callers, api.door, reviews)
    for turn in ("first", *["again"] * REPEATS):
        for at in reviews:
            await ask(f"{turn} {at[0]}", at, callers[0])
    for path in paths:
        new, again = (millis(calls.seconds[f"{turn} {path}"]) for turn in ("first", "again"))
        what = f"{path}, first of a template, round trip"
        first.append(row(f"{what}, p50", new["p50"], "ms", (again["p50"], "again")))
        first.append(row(f"{what}, p99", new["p99"], "ms", (again["p99"], "again"), most=FIRST_P99_MS))
    runs = {rate: await bench.run(rate, chosen.seconds) for rate in sorted(chosen.rate)}
    rate, quiet = max(runs.items())
    case, seconds = Case.mixed(chosen.nodes, chosen.makes, Policy.NONE), 2 * chosen.seconds
    nodes, turns = case.members(), range(round(chosen.changes * seconds))
    changes = [orjson.dumps(topology(each)) for turn in turns for each in case.changed(nodes, 0, turn)]
    busy = await bench.run(rate, seconds, changes)
    memory = webhook.memory()
    calls.close()
    rows = [each for at in runs for each in _rows(at, runs[at], QUIET if at == rate else {})]
    rows.append(row("resident", memory.now / MIB, "MiB", (memory.most / MIB, "at the peak"), most=MOST_MIB))
    what = f"{chosen.nodes:,} nodes of {chosen.makes} makes"
    return [
        Measurement(
            f"Webhook: {what}, {chosen.templates} templates",
            first + rows,
            "AdmissionReviews over TLS: half are mutations of new pods, half validations of the same pods."
            " The round trip is from sending the request to the last byte of the answer. The handler's time"
            " is that of its own histogram, from the first byte of the request to the encoded answer.",
        ),
        Measurement(
            f"Webhook: {what}, {chosen.changes} topologies change each second",
            list(_rows(rate, busy, BUSY, quiet)),
            "Reviews over TLS as above, while an API server sends changes over a watch. A pod whose answer"
            " depends on one node, where a device is taken and given back, shows how late the webhook is.",
        ),
    ]


def _rows(rate: int, run: Run, aims: Mapping[str, float], quiet: Run | None = None) -> Iterator[Row]:
    for name, found in run.items():
        beside = (quiet[name], "if nothing changes") if quiet and name in quiet else (None, "")
        what, unit = f"{name} at {rate} reviews/s", UNITS.get(name, "ms")
        least = KEPT_UP * rate if name == "answered" and aims else None
        yield row(what, found, unit, beside, most=aims.get(name), least=least)


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
