"""
Measure the scorer's processor time per scheduled pod.

An API server in a separate process serves the nodes, and the scorer follows it as in a cluster. This process
plays the scheduler and all kubelets: it creates each pod, calls the scorer over keep-alive connections
(`/filter` with the names of some nodes, `/prioritize` with those that are left), has the pod bound while it
already calls for the next one, and sets the status to Running. So the scorer receives three watch events per
pod.
"""

import asyncio
import random
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from tools.bench import cluster, scheduling_load
from tools.bench.calls import Calls, Json, Scheduler, processor_seconds
from tools.bench.spreads import MILLI, millis
from tools.bench.tables import Measurement, program, row
from tools.clusters import programs
from tools.clusters.api_objects import namespace
from tools.clusters.programs import soon

AT_ONCE = 8
"""Pods that are bound at the same time, at most."""
LONGEST_WAIT = 120.0
PODS = f"/api/v1/namespaces/{scheduling_load.NAMESPACE}/pods"


def pods(number: int) -> Iterator[Json]:
    """Yield so many pods, as long as the pods of an API server."""
    [envelope] = cluster.templates(1)
    container = envelope["spec"]["containers"][0]
    for pod in scheduling_load.pods(number):
        [asked] = pod["spec"]["containers"]
        long = {key: envelope["metadata"][key] for key in ("labels", "ownerReferences", "managedFields")}
        yield {
            **pod,
            "metadata": {**pod["metadata"], **long},
            "spec": {**envelope["spec"], "containers": [{**container, **asked}]},
            "status": {"phase": "Pending", "qosClass": "Guaranteed"},
        }


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Schedule pods; measure what the scorer uses."""
    with tempfile.TemporaryDirectory() as folder:
        yield asyncio.run(_measure(chosen, Path(folder)))


async def _measure(chosen: Namespace, folder: Path) -> Measurement:
    pairs = list(scheduling_load.nodes(chosen.nodes))
    objects = [namespace(scheduling_load.NAMESPACE, {}), *(each for pair in pairs for each in pair)]
    async with programs.site(folder / "site") as here:
        api = await here.api_server(objects)
        scorer = await here.scorer("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")

        async def knows() -> bool:
            return await scorer.metric("numalign_ledger_nodes") >= chosen.nodes

        await soon(knows, what="it had all nodes in its ledger", child=scorer.child, seconds=LONGEST_WAIT)
        calls, cycle = Calls(), asyncio.Lock()
        names = [node["metadata"]["name"] for node, _ in pairs]
        dice = random.Random(37)  # noqa: S311 - it makes input, not secrets
        doors = api.door, scorer.door
        schedulers = [
            Scheduler(*(calls.caller(door) for door in doors), names, chosen.names, dice, cycle)
            for _ in range(AT_ONCE)
        ]
        listed = pods(chosen.warm + chosen.pods)
        await _schedule(schedulers, listed, chosen.warm, chosen.rate)
        calls.clear()
        before, began = processor_seconds(scorer.child.process.pid), time.monotonic()
        await _schedule(schedulers, listed, chosen.pods, chosen.rate)
        took = time.monotonic() - began
        cpu = processor_seconds(scorer.child.process.pid) - before
        calls.close()
    calls.check()
    trips = {verb: millis([*calls.seconds[verb]]) for verb in ("filter", "prioritize", "bind")}
    return Measurement(
        f"Scorer: {chosen.nodes:,} nodes, {chosen.rate} pods bound each second",
        [
            row("bound", calls.outcomes["bound"] / took, "pods/s"),
            *(
                row(f"/{verb} while pods come and go, round trip {key}", each[key])
                for verb, each in trips.items()
                for key in ("p50", "p99")
            ),
            row("processors, scorer", cpu / took, "cores"),
            row("processor time of a pod, scorer", cpu * MILLI / calls.outcomes["bound"]),
        ],
        f"Each pod is created, filtered among {chosen.names} nodes, ranked, bound and admitted by its"
        " kubelet, and an API server sends all of that over a watch.",
    )


async def _schedule(schedulers: list[Scheduler], listed: Iterator[Json], number: int, rate: int) -> None:
    """Schedule the next pods at a rate; a pod is late if all schedulers are still binding."""
    began, turns = time.monotonic(), iter(range(number))

    async def work(scheduler: Scheduler) -> None:
        for turn in turns:
            pod = next(listed)
            await asyncio.sleep(max(0.0, began + turn / rate - time.monotonic()))
            await scheduler.schedule(pod, PODS)

    async with asyncio.TaskGroup() as group:
        for each in schedulers:
            group.create_task(work(each))


main = program(
    "cpu_per_pod",
    __doc__,
    measure,
    nodes=(5000, 20, "nodes of the cluster"),
    names=(500, 10, "node names in a call of /filter"),
    pods=(1000, 4, "measured pods"),
    warm=(200, 2, "pods before the measured ones"),
    rate=(100, 100, "pods per second"),
)

if __name__ == "__main__":
    sys.exit(main(None))
