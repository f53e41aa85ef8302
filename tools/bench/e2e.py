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
from numalign.kube.decode import placements
from numalign.model.intent import DEFAULT, GATE, PLACEMENT, POLICY, SCHEDULER, Gate, Policy
from tools.bench.e2e_pods import GPU, NAMESPACE, Controller, Task, tasks
from tools.bench.site import ADMIN, USERS, Json, account, control_plane, extending, session
from tools.bench.tables import Measurement, one_of, program
from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import rehearse
from tools.clusters.builds import KUBELETS, versions
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import scheduler
from tools.clusters.http_calls import once
from tools.clusters.kubelets.agents import agents, exporters
from tools.clusters.kubelets.clusters import started
from tools.clusters.kubelets.kept import Amounts, kept, taken
from tools.clusters.processes import until
from tools.clusters.programs import Running, Site, site
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.desk import learn
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import SimNode

AGENTS, NEVER = "agents", "-"
PER_POD = frozenset({"pods", "events"})
"""Resources whose writes are counted; topologies and leases are written for each node and second."""
SAMPLE_SECONDS = 0.25

Figures = Sequence[str | float]
"""Those of a run, in the order of `FIGURES`."""


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


FIGURES: Mapping[str, str] = {
    "rejected": "pods that a kubelet rejected, per seed;"
    " with gates, those whose node the controller chose + others",
    "placed": "pods that a kubelet admitted, at once or after they were created again, per seed",
    "until all ran, s": "seconds from the first arrival until every pod had run, per seed;"
    f" {NEVER} if some never ran",
    "writes a pod": "creations, patches and deletions of pods and Events by all programs, per requested pod",
    "largest slot": "the most free GPUs in one zone of any node, on average until all pods ran",
    "whole zones left": "zones of four GPUs without an allocation,"
    " when only the pods that stay until the end are left",
    "unaligned": "pods that requested a single zone and got several, per seed",
    "records wrong": "recorded placements that are not what the kubelet did, of all, per seed:"
    " believed + withdrawn",
}
"""The figures of a run, and what they mean."""


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
    async with site(folder) as here:
        plane = await control_plane(here, audits.flags(folder, users=tuple(USERS)))
        async with (
            plane.client(ADMIN) as client,
            simulated(
                Api(client, namespace="default"),
                machines(chosen.nodes),
                delay=float(delay),
                jitter=float(delay) / 5,
                fingerprint=Fingerprint.ALL,
                seed=seed,
            ) as cluster,
        ):

            def held(pod: Json) -> Amounts:
                name = "{namespace}/{name}".format_map(pod["metadata"])
                return cluster.held(pod["spec"]["nodeName"]).get(name, {})

            def slots(_alive: AbstractSet[str]) -> Iterator[tuple[int, int]]:
                for name, node in cluster.nodes.items():
                    most = node.machine.make.devices.get(GPU, 0)
                    yield from ((zone.get(GPU, 0), most) for zone in cluster.available(name).values())

            yield Cluster(here, plane, client, held, slots)


@asynccontextmanager
async def _real(chosen: Namespace, delay: str, _seed: int, folder: Path) -> AsyncIterator[Cluster]:
    nodes = [machine.real() for machine in machines(chosen.nodes)]
    flags = audits.flags(folder, users=tuple(USERS))
    async with (
        started(nodes, version=chosen.kubelets, others=USERS, flags=flags) as cluster,
        cluster.plane.client(ADMIN) as client,
    ):
        await learn(Api(client, namespace="default"))

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


async def _measured(chosen: Namespace, column: Column, delay: str, seed: int) -> Figures:
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
                scorer, extender = await extending(here, plane, column.reserve_at, "--debug-state", "true")
            second = column.labels.get(SCHEDULER)
            other = scheduler(here.children, plane, name=second, extender=extender) if second else None
            async with (
                scheduler(here.children, plane, extender=None if second else extender),
                other or nullcontext(),
            ):
                return await _watched(cluster, column, arriving, chosen.patience, scorer)


async def _start_webhook(cluster: Cluster, column: Column, nodes: int) -> None:
    """Start the webhook for the API server, and a controller that gives every node a class."""
    here, store = cluster.here, Store(cluster.client)
    gates = ("--gates", "true") if GATE in column.labels else ()
    controller = await here.controller(*account(cluster.plane, shipped.CONTROLLERS), *gates, *column.flags)
    webhook = await here.webhook(*account(cluster.plane, shipped.ACCOUNT), *gates)
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
        calls, _ = await audits.reviews(cluster.client)
        return calls > 0

    await until(labelled, what="every node had a class", child=controller.child)
    await until(reviewed, what="pods were reviewed", child=webhook.child)


async def _watched(
    cluster: Cluster, column: Column, arriving: Sequence[Task], patience: float, scorer: Running | None
) -> Figures:
    right, doubted, slots = dict[str, bool](), set[str](), list[int]()
    unaligned = 0

    def placed(task: Task) -> None:
        nonlocal unaligned
        annotations, held = task.pod["metadata"].get("annotations", {}), cluster.held(task.pod)
        given = {
            tuple(sorted(f"node-{each}" for each in zones)): dict(bag) for zones, bag in held.items() if bag
        }
        if record := annotations.get(PLACEMENT):
            recorded = placements.read(record).items()
            same = {tuple(sorted(zones)): dict(bag) for zones, bag in recorded} == given
            right[f"{NAMESPACE}/{task.name}"] = same
        zones = {zone for zones in given for zone in zones}
        unaligned += annotations.get(POLICY) == Policy.SINGLE_NUMA_NODE and len(zones) > 1

    async def sample() -> None:
        while True:
            slots.append(max(left for left, _ in cluster.slots(controller.alive)))
            if scorer:
                state = (await once(scorer.about, "GET", "/debug/state")).body
                doubted.update(orjson.loads(state)["doubtful"])
            await asyncio.sleep(SAMPLE_SECONDS)

    async with session(cluster.plane) as api:
        controller, before = Controller(api, arriving, placed), _writes(cluster.here.folder)
        sampling = asyncio.create_task(sample())
        try:
            await controller.run(patience=patience)
            if sampling.done():
                # A figure of half a run would be wrong.
                sampling.result()
        finally:
            sampling.cancel()
        writes = _writes(cluster.here.folder) - before
        rejected, pinned = (sum(getattr(each, what) for each in arriving) for what in ("refused", "pinned"))
        await controller.end()
    times = [task.ran for task in arriving if task.ran is not None]
    wrong = {name for name, same in right.items() if not same}
    gated, believed = GATE in column.labels, len(wrong - doubted)
    records = str(len(wrong)) if gated else f"{believed}+{len(wrong) - believed}"
    return (
        f"{pinned}+{rejected - pinned}" if gated else rejected,
        len(times),
        f"{max(times):.0f}" if len(times) == len(arriving) else NEVER,
        writes / len(arriving),
        fmean(slots),
        float(sum(left == most > 1 for left, most in cluster.slots(controller.alive))),
        unaligned,
        f"{records}/{len(right)}" if right else NEVER,
    )


def _writes(folder: Path) -> int:
    """Count the writes of pods and events so far."""
    uses = (use for user in USERS for use in audits.uses(folder, user=user))
    return sum(use.writes and use.resource.partition("/")[0] in PER_POD for use in uses)


def _shown(figures: Figures) -> str:
    """Return figures of several seeds, one by one, or their mean if they are fractions."""
    fractions = [each for each in figures if isinstance(each, float)]
    return f"{fmean(fractions):.1f}" if fractions else " ".join(map(str, figures))


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Measure every delay, run and seed; yield a table for each delay."""
    for name in chosen.runs:
        one_of(name, COLUMNS)
    if chosen.kubelets:
        one_of(chosen.kubelets, versions(KUBELETS))
    elif AGENTS in chosen.delays:
        sys.exit(f"--delays {AGENTS}: agents need real kubelets, see --kubelets")
    made = []
    for delay in chosen.delays:
        rows = []
        for column in map(COLUMNS.__getitem__, chosen.runs):
            cells = []
            for seed in chosen.seeds:
                began = time.monotonic()
                cells.append(asyncio.run(_measured(chosen, column, delay, seed)))
                rejected, placed, *_ = cells[-1]
                sys.stderr.write(
                    f"{column.title}, {delay} late, seed {seed}: {rejected} rejected,"
                    f" {placed} of {chosen.pods} placed ({time.monotonic() - began:.0f} s)\n"
                )
            rows.append((column.title, *map(_shown, zip(*cells, strict=True))))
        source = "by agents" if delay == AGENTS else f"{delay} s late"
        made.append(Measurement(f"Topologies {source}", rows, head=("", *FIGURES)))
    if chosen.markdown:
        pages = ["\n".join((f"{each.name}:", "", *each.markdown())) for each in made]
        legend = "\n".join(f"* {name}: {meaning}" for name, meaning in FIGURES.items())
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
