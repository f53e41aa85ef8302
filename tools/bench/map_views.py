"""
Measure how long the views of the map take in a large cluster, and how long other calls wait meanwhile.

Nodes of twenty models have pods of a few hundred workloads. An agent observes every pod, and one pod in ten
is misaligned. Views are requested one after another, as a browser does, while another task asks for its turn
all the time. The longest processor time between two of its turns is how long any other call would have
waited. Ratios are to the cold view of the fleet.
`python -m tools.bench.map_views` prints a table.
"""

import argparse
import asyncio
import gc
import io
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.files import snapshot
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import PODS_IN_FILES
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.map.pods_on_node import everybody
from numalign.map.state import MapState
from numalign.map.views import FleetQuery
from numalign.map.what_if import MOST_REPLICAS, WhatIf
from numalign.model.intent import Match, Policy
from numalign.model.resources import Resources
from numalign.runtime import logs
from numalign.runtime.server import COLLECTED_AFTER
from numalign.scheduling.scheduler_state import SchedulerState
from tools.bench import cluster, command_line
from tools.bench.figures import ms, table

Raw = dict[str, Any]

TEMPLATES = 200
NAMESPACES = 50
MISALIGNED = 10
"""One pod in so many uses two zones."""

CPUS, MEMORY = 2, 2**32
"""Requests of each pod, so small that several pods fit into any zone."""


@dataclass(frozen=True, slots=True)
class Row:
    """The duration of one view, and the longest wait of any other call meanwhile, in seconds."""

    view: str
    seconds: float
    blocked: float


@dataclass(eq=False, slots=True)
class Site:
    """A cluster with its pods, and its map."""

    state: SchedulerState
    informer: PodInformer
    map_state: MapState
    pods: list[Raw]


def pods(count: int, nodes: int) -> Iterator[Raw]:
    """Yield running pods on the nodes in turn."""
    made = [each.pod for each in cluster.templates(TEMPLATES)]
    amounts = {"cpu": str(CPUS), "memory": str(MEMORY)}
    for at in range(count):
        pod, name = made[at % TEMPLATES], f"pod-{at:06}"
        metadata = {**pod["metadata"], "name": name, "uid": name, "namespace": f"team-{at % NAMESPACES}"}
        container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        spec = {"nodeName": f"node-{at % nodes:05}", "containers": [container]}
        yield {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def observed(count: int, nodes: int) -> Mapping[str, Mapping[str, ObservedPlacement]]:
    """Return what the agents observe that these pods hold, by node and UID."""
    told: dict[str, dict[str, ObservedPlacement]] = {f"node-{number:05}": {} for number in range(nodes)}
    for at in range(count):
        first = at // nodes % cluster.ZONES
        zones = [first, (first + 1) % cluster.ZONES] if at % MISALIGNED == 0 else [first]
        bag = Resources({"cpu": CPUS * 1000 // len(zones), "memory": MEMORY // len(zones)})
        told[f"node-{at % nodes:05}"][f"pod-{at:06}"] = ObservedPlacement(
            {(f"node-{zone}",): bag for zone in zones}, 0
        )
    return told


async def site(nodes: int, count: int) -> Site:
    """Return the cluster with everything in the ledger, before any request."""
    registry, log = CollectorRegistry(), logs.to(io.StringIO(), level="error", form="json")
    keeper = PolicyKeeper(None, log=log, registry=registry)
    state = SchedulerState(
        Reservations(), policy=keeper, match=Match.SATISFIES, clock=time.monotonic, wall=time.time
    )
    informer = PodInformer(state, state.reader, log=log, registry=registry)
    seen = snapshot.of(cluster.snapshot(nodes)["items"])
    every = [PODS_IN_FILES.described(pod) for pod in pods(count, nodes)]
    await state.update_snapshot(replace(seen, placements=observed(count, nodes)))
    for pod in every:
        informer.put(pod)
    return Site(state, informer, MapState(state), every)


async def measured(view: str, ask: Callable[[], Awaitable[object]]) -> Row:
    """Measure one view."""
    latest, ended = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal latest
        while not ended.is_set():
            before = time.thread_time()
            await asyncio.sleep(0)
            latest = max(latest, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    began = time.perf_counter()
    await ask()
    seconds = time.perf_counter() - began
    ended.set()
    await watching
    return Row(view, seconds, latest)


async def rows(nodes: int, count: int) -> list[Row]:
    """Measure all views, one after another."""
    made = await site(nodes, count)
    shown, query = made.map_state, FleetQuery()
    what_if = WhatIf(shown)
    # Keep the garbage collector from scanning the objects of the cluster.
    gc.collect()
    gc.freeze()
    first, second = (_text(each.pod, at) for at, each in enumerate(cluster.templates(2)))

    def moved() -> Awaitable[object]:
        pod = made.pods[0]
        made.informer.put(
            {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2027-01-15T08:00:00Z"}}
        )
        return shown.fleet(query)

    def asked(text: bytes, replicas: int = 1) -> Callable[[], Awaitable[object]]:
        return lambda: what_if.ask(text, visible=everybody, replicas=replicas)

    views: Mapping[str, Callable[[], Awaitable[object]]] = {
        "fleet, cold": lambda: shown.fleet(query),
        "fleet, after one change": moved,
        "fleet, another filter": lambda: shown.fleet(FleetQuery(policy=Policy.SINGLE_NUMA_NODE)),
        "node": lambda: shown.node("node-00001", everybody),
        "pod": lambda: shown.pod("team-1", "pod-000001", everybody),
        "what-if, cold": asked(first),
        "what-if, again": asked(first),
        "what-if, another pod": asked(second),
        f"what-if, {MOST_REPLICAS:,} replicas": asked(second, MOST_REPLICAS),
    }
    return [await measured(view, ask) for view, ask in views.items()]


def _text(pod: Raw, number: int) -> bytes:
    metadata = {**pod["metadata"], "name": f"asked-{number}"}
    return orjson.dumps({**pod, "metadata": metadata})


def main() -> int:
    """Measure once and print a table; return 0."""
    options = arguments().parse_args()
    gc.set_threshold(*COLLECTED_AFTER)
    measures = asyncio.run(rows(options.nodes, options.pods))
    cold = measures[0].seconds
    print(f"{options.nodes:,} nodes, {options.pods:,} pods")
    print(
        table(
            ["view", "ms", "ratio to fleet, cold", "longest wait, ms"],
            [[row.view, ms(row.seconds), f"{row.seconds / cold:.3f}", ms(row.blocked)] for row in measures],
        )
    )
    command_line.write(
        [{"view": row.view, "seconds": row.seconds, "blocked": row.blocked} for row in measures], options.json
    )
    return 0


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    made = command_line.parser("tools.bench.map_views", __doc__)
    made.add_argument(
        "--nodes", type=command_line.number, default=5000, help="nodes of the cluster (default 5000)"
    )
    made.add_argument(
        "--pods", type=command_line.number, default=50_000, help="pods of the cluster (default 50000)"
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
