"""
Measure what users of a cluster see: how many pods kubelets reject, how many wait, and how many run.

A real kube-apiserver, etcd and kube-scheduler, the programs of numalign, nodes with the kubelet's managers,
and pods drawn from a trace that come and go. The same pods arrive in every run (`--runs`), for each delay
with which topologies are published (`--delays`). Time is compressed: what takes days in the trace takes
seconds here. Only the delay of topologies is as long as in a cluster, and so weighs much more.
"""

import asyncio
import sys
import tempfile
import time
from argparse import Namespace
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import orjson
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Api
from numalign.kube.decode import placement_records
from numalign.model.intent import DEFAULT, GATE, PLACEMENT, POLICY, SCHEDULER, Gate, Policy
from tools.bench.e2e_pods import GPU, NAMESPACE, Controller, Task, tasks
from tools.bench.site import ADMIN, SCORER, USERS, Json, control_plane, kubeconfig, session
from tools.bench.tables import CellValue, Measurement, one_of, program
from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import rehearse
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.reviews import reviews
from tools.clusters.controlplane.schedulers import VERBS, Extender, scheduler
from tools.clusters.http_calls import once
from tools.clusters.kubelets.agents import agents
from tools.clusters.kubelets.build import versions
from tools.clusters.kubelets.clusters import started
from tools.clusters.kubelets.exporters import exporters
from tools.clusters.kubelets.kept import Amounts, kept, taken
from tools.clusters.programs import Running, Site, site, soon
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.desk import ApiDesk
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.real import as_real
from tools.clusters.sim.shapes import SimNode

AGENTS, NEVER = "agents", "-"
PER_POD = frozenset({"pods", "events"})
"""Resources whose writes are counted; topologies and leases are written for each node and second."""
SAMPLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Column:
    """The programs of numalign that take part; `reserve_at` is when the scorer reserves, if it runs.

    `labels` are those of the namespace. They decide how the webhook has its pods placed: behind gates by the
    controller, or by a second scheduler, which is then the only one that calls the scorer. `flags` are the
    controller's.
    """

    title: str
    webhook: bool = True
    reserve_at: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


# Pods without a policy are placed in the same way, as the placement of the others depends on them.
_EVERY_POD = {DEFAULT: Policy.BEST_EFFORT}
_GATED = {**_EVERY_POD, GATE: Gate.ENABLED}

COLUMNS: Mapping[str, Column] = {
    "stock": Column("stock scheduler", webhook=False),
    "webhook": Column("+ webhook"),
    "scorer": Column("+ scorer without bind", reserve_at="prioritize"),
    "bind": Column("+ scorer with bind", reserve_at="bind"),
    "gates": Column("+ gates", labels=_GATED),
    # As in clusters where nothing creates nodes.
    "patient": Column("+ gates, no patience limit", labels=_GATED, flags=("--gate-patience-seconds", "0")),
    "second": Column(
        "+ second scheduler", reserve_at="bind", labels={**_EVERY_POD, SCHEDULER: "numalign-scheduler"}
    ),
}


@dataclass(slots=True)
class Cell:
    """The results of a run; `FIGURES` says what they mean.

    `slots` are samples of the largest slot. Of the pods that `recorded` a placement, `wrong` are the names of
    those to which their kubelet gave another one, and `doubted` those whose record the scorer has withdrawn.
    `pinned` is None if the controller chooses no nodes.
    """

    placed: int = 0
    pods: int = 0
    rejected: int = 0
    pinned: int | None = None
    seconds: float | None = None
    writes: int = 0
    slots: list[int] = field(default_factory=list)
    whole: int = 0
    unaligned: int = 0
    recorded: int = 0
    wrong: set[str] = field(default_factory=set)
    doubted: set[str] = field(default_factory=set)

    def observe(self, task: Task, held: Amounts) -> None:
        """Compare the record of a running pod with what its kubelet holds for it."""
        given = {
            tuple(sorted(f"node-{zone}" for zone in zones)): dict(amounts)
            for zones, amounts in held.items()
            if amounts
        }
        annotations = task.pod["metadata"].get("annotations", {})
        if PLACEMENT in annotations:
            self.recorded += 1
            recorded = placement_records.read(annotations[PLACEMENT]).items()
            if {tuple(sorted(zones)): dict(amounts) for zones, amounts in recorded} != given:
                self.wrong.add(f"{NAMESPACE}/{task.name}")
        self.unaligned += annotations.get(POLICY) == Policy.SINGLE_NUMA_NODE and len({*sum(given, ())}) > 1


class Cluster(NamedTuple):
    """Nodes, simulated or real, and their control plane.

    `held` returns what a kubelet gave a pod: CPUs in thousandths, others in units. `slots` yields what each
    zone has left of its GPUs while these pods exist, by UID, and how many it has.
    """

    here: Site
    plane: Plane
    client: ApiClient
    held: Callable[[Json], Amounts]
    slots: Callable[[AbstractSet[str]], Iterator[tuple[int, int]]]


def machines(nodes: int) -> list[SimNode]:
    """Return nodes of eight zones with one GPU each, and of two zones with four GPUs each, in turn."""
    # Both policies reject pods; restricted admits a pod to several zones only if no fewer can hold it.
    policies = ("single-numa-node", "restricted")
    return [
        SimNode(f"two-{number:02}", "two-by-four")
        if number % 2
        else SimNode(f"eight-{number:02}", "eight-zones", policy=policies[number // 2 % 2])
        for number in range(nodes)
    ]


@asynccontextmanager
async def _simulated(chosen: Namespace, delay: str, seed: int, folder: Path) -> AsyncIterator[Cluster]:
    late = float(delay)
    async with site(folder) as here:
        plane = await control_plane(here, audits.flags(folder, users=tuple(USERS)))
        async with (
            plane.client(ADMIN) as client,
            simulated(
                Api(client, namespace="default"),
                machines(chosen.nodes),
                delay=late,
                jitter=late / 5,
                fingerprint=Fingerprint.ALL,
                seed=seed,
            ) as cluster,
        ):

            def held(pod: Json) -> Amounts:
                name = "{namespace}/{name}".format_map(pod["metadata"])
                return cluster.held(pod["spec"]["nodeName"]).get(name, {})

            def slots(_alive: AbstractSet[str]) -> Iterator[tuple[int, int]]:
                for name, node in cluster.nodes.items():
                    most = node.kubelet.machine.make.devices.get(GPU, 0)
                    yield from ((zone.get(GPU, 0), most) for zone in cluster.available(name).values())

            yield Cluster(here, plane, client, held, slots)


@asynccontextmanager
async def _real(chosen: Namespace, delay: str, _seed: int, folder: Path) -> AsyncIterator[Cluster]:
    nodes = [*map(as_real, machines(chosen.nodes))]
    flags = audits.flags(folder, users=tuple(USERS))
    async with (
        started(nodes, version=chosen.kubelets, others=USERS, flags=flags) as cluster,
        cluster.plane.client(ADMIN) as client,
    ):
        await ApiDesk(Api(client, namespace="default")).learn()

        def held(pod: Json) -> Amounts:
            kubelet = cluster.kubelets[pod["spec"]["nodeName"]]
            found = kept(kubelet.state, pod["metadata"]["uid"], kubelet.node.devices)
            return found.total(kubelet.node.machine)

        def slots(alive: AbstractSet[str]) -> Iterator[tuple[int, int]]:
            for kubelet in cluster.kubelets.values():
                devices = kubelet.node.devices
                gone = taken(kubelet.state, GPU, alive, devices)
                most = Counter(zone for each in devices.get(GPU, ()) for zone in each["zones"])
                for zone in kubelet.node.machine["zones"]:
                    yield most[zone["id"]] - gone.get(zone["id"], 0), most[zone["id"]]

        async with agents(cluster) if delay == AGENTS else exporters(cluster, delay=float(delay)):
            yield Cluster(Site(folder, cluster.children), cluster.plane, client, held, slots)


async def _measured(chosen: Namespace, column: Column, delay: str, seed: int) -> Cell:
    """Run one workload; raise whatever fails, but nothing for pods that were never placed."""
    arriving = tasks(seed, pods=chosen.pods, seconds=chosen.seconds, life=chosen.life)
    with tempfile.TemporaryDirectory(prefix="numalign-bench-") as made:
        nodes = (_real if chosen.kubelets else _simulated)(chosen, delay, seed, Path(made))
        async with nodes as cluster:
            here, plane, client, *_ = cluster
            for name, labels in ((NAMESPACE, column.labels), (shipped.NAMESPACE, {})):
                await Store(client).apply(namespace(name, labels))
            if column.webhook:
                await _start_webhook(cluster, column, chosen.nodes)
            scorer = extender = None
            if column.reserve_at:
                flags = ("--reserve-at", column.reserve_at, "--debug-state", "true")
                scorer = await here.scorer(*_common(cluster, SCORER), *flags)
                verbs = [verb for verb in VERBS if verb != "bind" or column.reserve_at == "bind"]
                extender = Extender(url=f"http://127.0.0.1:{scorer.door.port}", verbs=verbs)
            second = column.labels.get(SCHEDULER)
            other = scheduler(here.children, plane, name=second, extender=extender) if second else None
            async with (
                scheduler(here.children, plane, extender=None if second else extender),
                other or nullcontext(),
            ):
                return await _watched(cluster, column, arriving, chosen.patience, scorer)


def _common(cluster: Cluster, user: str) -> tuple[str, ...]:
    return "--namespace", shipped.NAMESPACE, "--kubeconfig", kubeconfig(cluster.here, cluster.plane, user)


async def _start_webhook(cluster: Cluster, column: Column, nodes: int) -> None:
    """Start the webhook for the API server, and a controller that gives every node a class."""
    here, store = cluster.here, Store(cluster.client)
    gates = ("--gates", "true") if GATE in column.labels else ()
    controller = await here.controller(*_common(cluster, shipped.CONTROLLERS), *gates, *column.flags)
    webhook = await here.webhook(*_common(cluster, shipped.ACCOUNT), *gates)
    for document in shipped.webhooks():
        called = shipped.by_address(document, webhook.door.port)
        for entry in called["webhooks"]:
            entry["clientConfig"]["caBundle"] = b64encode(here.pair.ca.read_bytes()).decode()
        await store.apply(called)

    async def labelled() -> bool:
        found = await store.list("v1", "Node")
        return sum(shipped.LABEL in node["metadata"]["labels"] for node in found) == nodes

    async def reviewed() -> bool:
        await rehearse(cluster.client, asks={}, namespace=NAMESPACE)
        return (await reviews(cluster.client)).asked > 0

    await soon(labelled, what="every node had a class", child=controller.child)
    await soon(reviewed, what="pods were reviewed", child=webhook.child)


async def _watched(
    cluster: Cluster, column: Column, arriving: Sequence[Task], patience: float, scorer: Running | None
) -> Cell:
    cell = Cell(pods=len(arriving))

    async def sample() -> None:
        while True:
            cell.slots.append(max(left for left, _ in cluster.slots(controller.alive)))
            if scorer:
                state = (await once(scorer.about, "GET", "/debug/state")).body
                cell.doubted.update(orjson.loads(state)["doubtful"])
            await asyncio.sleep(SAMPLE_SECONDS)

    async with session(cluster.plane) as api:
        controller = Controller(api, arriving, lambda task: cell.observe(task, cluster.held(task.pod)))
        before = _writes(cluster.here.folder)
        sampling = asyncio.create_task(sample())
        try:
            await controller.run(patience=patience)
        finally:
            sampling.cancel()
        cell.writes = _writes(cluster.here.folder) - before
        await controller.end()
    times = [task.ran for task in arriving if task.ran is not None]
    cell.placed = len(times)
    cell.seconds = max(times) if len(times) == len(arriving) else None
    cell.rejected = sum(task.refused for task in arriving)
    cell.pinned = sum(task.pinned for task in arriving) if GATE in column.labels else None
    cell.whole = sum(left == most > 1 for left, most in cluster.slots(controller.alive))
    return cell


def _writes(folder: Path) -> int:
    """Count the writes of pods and events so far."""
    uses = (use for user in USERS for use in audits.uses(folder, user=user))
    return sum(use.writes and use.resource.partition("/")[0] in PER_POD for use in uses)


def _each(of: Callable[[Cell], object]) -> Callable[[Sequence[Cell]], str]:
    return lambda seeds: " ".join(str(of(cell)) for cell in seeds)


def _mean(of: Callable[[Cell], float]) -> Callable[[Sequence[Cell]], str]:
    return lambda seeds: f"{fmean(map(of, seeds)):.1f}"


def _rejected(cell: Cell) -> str:
    return str(cell.rejected) if cell.pinned is None else f"{cell.pinned}+{cell.rejected - cell.pinned}"


def _wrong(cell: Cell) -> str:
    if not cell.recorded:
        return NEVER
    believed, wrong = len(cell.wrong - cell.doubted), len(cell.wrong)
    return f"{f'{believed}+{wrong - believed}' if cell.pinned is None else wrong}/{cell.recorded}"


FIGURES: Mapping[str, tuple[str, Callable[[Sequence[Cell]], str]]] = {
    "rejected": (
        "pods that a kubelet rejected, per seed; with gates, those whose node the controller chose + others",
        _each(_rejected),
    ),
    "placed": (
        "pods that a kubelet admitted, at once or after they were created again, per seed",
        _each(lambda cell: cell.placed),
    ),
    "until all ran, s": (
        f"seconds from the first arrival until every pod had run, per seed; {NEVER} if some never ran",
        _each(lambda cell: NEVER if cell.seconds is None else f"{cell.seconds:.0f}"),
    ),
    "writes a pod": (
        "creations, patches and deletions of pods and Events by all programs, per requested pod",
        _mean(lambda cell: cell.writes / cell.pods),
    ),
    "largest slot": (
        "the most free GPUs in one zone of any node, on average until all pods ran",
        _mean(lambda cell: fmean(cell.slots)),
    ),
    "whole zones left": (
        "zones of four GPUs without an allocation, when only the pods that stay until the end are left",
        _mean(lambda cell: cell.whole),
    ),
    "unaligned": (
        "pods that requested a single zone and got several, per seed",
        _each(lambda cell: cell.unaligned),
    ),
    "records wrong": (
        "recorded placements that are not what the kubelet did, of all, per seed: believed + withdrawn",
        _each(_wrong),
    ),
}
"""The figures of the comparison: their meaning, and how they are shown for all seeds."""


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Measure every delay, run and seed; yield a table for each delay."""
    for name in chosen.runs:
        one_of(name, COLUMNS)
    if chosen.kubelets:
        one_of(chosen.kubelets, versions())
    elif AGENTS in chosen.delays:
        sys.exit(f"--delays {AGENTS}: agents need real kubelets, see --kubelets")
    made = []
    for delay in chosen.delays:
        rows: list[Sequence[CellValue]] = []
        for name in chosen.runs:
            cells = []
            for seed in chosen.seeds:
                began = time.monotonic()
                cells.append(cell := asyncio.run(_measured(chosen, COLUMNS[name], delay, seed)))
                sys.stderr.write(
                    f"{COLUMNS[name].title}, {delay} late, seed {seed}: {cell.rejected} rejected,"
                    f" {cell.placed} of {cell.pods} placed ({time.monotonic() - began:.0f} s)\n"
                )
            rows.append((COLUMNS[name].title, *(show(cells) for _, show in FIGURES.values())))
        source = "by agents" if delay == AGENTS else f"{delay} s late"
        made.append(Measurement(f"Topologies {source}", rows, head=("", *FIGURES)))
    if chosen.markdown:
        pages = ["\n".join((f"{each.name}:", "", *each.markdown())) for each in made]
        legend = "\n".join(f"* {name}: {meaning}" for name, (meaning, _) in FIGURES.items())
        chosen.markdown.write_text("\n\n".join((*pages, legend)) + "\n", encoding="utf-8")
    yield from made


main = program(
    "e2e",
    __doc__,
    measure,
    nodes=(20, 4, "nodes, half with eight zones and half with two"),
    pods=(400, 10, "pods that arrive"),
    seconds=(20.0, 3.0, "seconds in which the pods arrive"),
    life=(10.0, 3.0, "seconds that pods run on average, if they end"),
    patience=(25.0, 15.0, "seconds to wait after the last arrival"),
    delays=(("0", "1", "10"), ("0",), f"delays of exporters in seconds; {AGENTS}: agents publish instead"),
    kubelets=("", "", "use real kubelets of this version, as root, in place of simulated ones"),
    seeds=((1, 2, 3), (1,), "random seeds"),
    runs=(tuple(COLUMNS), ("stock", "bind"), "what to compare"),
    markdown=(None, None, "write the tables here, as Markdown"),
)

if __name__ == "__main__":
    sys.exit(main(None))
