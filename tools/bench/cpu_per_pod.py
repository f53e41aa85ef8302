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
import time
from argparse import Namespace
from collections.abc import Iterator

from tools.bench import cluster
from tools.bench.calls import Calls, Json, Scheduler, processor_seconds
from tools.bench.site import at_site
from tools.bench.tables import MILLI, Measurement, millis, program, row
from tools.clusters.api_objects import namespace
from tools.clusters.processes import until
from tools.clusters.programs import Site

AT_ONCE = 8
"""Pods that are bound at the same time, at most."""
LONGEST_WAIT = 120.0
NAMESPACE = "team"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


async def measure(chosen: Namespace, here: Site) -> list[Measurement]:
    objects = [namespace(NAMESPACE, {}), *cluster.snapshot(chosen.nodes, chosen.makes)["items"]]
    api = await here.api_server(objects)
    scorer = await here.scorer("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")

    async def knows() -> bool:
        return bool(await scorer.metric("numalign_ledger_nodes") >= chosen.nodes)

    await until(knows, what="it had all nodes in its ledger", child=scorer.child, seconds=LONGEST_WAIT)
    calls, cycle = Calls(), asyncio.Lock()
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    dice = random.Random(37)  # noqa: S311 - it makes input, not secrets
    schedulers = [
        Scheduler(calls.caller(api.door), calls.caller(scorer.door), names, chosen.names, dice, cycle)
        for _ in range(AT_ONCE)
    ]
    pods = cluster.pods(chosen.warm + chosen.pods, NAMESPACE)
    await _schedule(schedulers, pods, chosen.warm, chosen.rate)
    calls.outcomes.clear()
    calls.seconds.clear()
    before, began = processor_seconds(scorer.child.process.pid), time.monotonic()
    await _schedule(schedulers, pods, chosen.pods, chosen.rate)
    took = time.monotonic() - began
    cpu = processor_seconds(scorer.child.process.pid) - before
    calls.close()
    calls.check()
    rows = [row("bound", calls.outcomes["bound"] / took, "pods/s")]
    for verb in ("filter", "prioritize", "bind"):
        trips = millis([*calls.seconds[verb]])
        what = f"/{verb} while pods come and go, round trip"
        rows += (row(f"{what} {key}", trips[key]) for key in ("p50", "p99"))
    cost = cpu * MILLI / calls.outcomes["bound"]
    rows += row("processors, scorer", cpu / took, "cores"), row("processor time of a pod, scorer", cost)
    return [
        Measurement(
            f"Scorer: {chosen.nodes:,} nodes, {chosen.rate} pods bound each second",
            rows,
            f"Each pod is created, filtered among {chosen.names} nodes, ranked, bound and admitted by its"
            " kubelet, and an API server sends all of that over a watch.",
        )
    ]


async def _schedule(schedulers: list[Scheduler], pods: Iterator[Json], number: int, rate: int) -> None:
    """Schedule the next pods at a rate; a pod is late if all schedulers are still binding."""
    began, turns = time.monotonic(), iter(range(number))

    async def work(scheduler: Scheduler) -> None:
        for turn in turns:
            pod = next(pods)
            await asyncio.sleep(max(0.0, began + turn / rate - time.monotonic()))
            await scheduler.schedule(pod, PODS)

    async with asyncio.TaskGroup() as group:
        for each in schedulers:
            group.create_task(work(each))


main = program(
    "cpu_per_pod",
    __doc__,
    at_site(measure),
    nodes=(5000, 20, "nodes of the cluster"),
    makes=(36, 36, "makes of the nodes"),
    names=(500, 10, "node names in a call of /filter"),
    pods=(1000, 4, "measured pods"),
    warm=(200, 2, "pods before the measured ones"),
    rate=(100, 100, "pods per second"),
)

if __name__ == "__main__":
    sys.exit(main(None))
