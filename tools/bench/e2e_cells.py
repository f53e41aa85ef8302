"""
One run of one workload, on a control plane of its own.

All programs are real, except the surroundings of the kubelets: etcd, kube-apiserver, kube-scheduler, the
managers of a kubelet for each node, and the programs of numalign that take part in a column. Requests to the
API server are read from its audit log afterwards.
"""

import asyncio
import sys
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean

from numalign.kube.client import Api
from numalign.model.intent import DEFAULT, GATE, SCHEDULER, Gate, Policy
from tools.bench.calls import Json
from tools.bench.e2e_controller import Controller, Fate
from tools.bench.e2e_nodes import Nodes, RealNodes, SimulatedNodes, agrees
from tools.bench.e2e_workload import GPU, NAMESPACE, Task
from tools.bench.site import SCORER, Site, certificate, control_plane
from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import rehearse
from tools.clusters.controlplane import audits, schedulers
from tools.clusters.controlplane.reviews import reviews
from tools.clusters.controlplane.schedulers import Extender, scheduler
from tools.clusters.kubelets.agents import agents
from tools.clusters.kubelets.clusters import started
from tools.clusters.kubelets.exporters import exporters
from tools.clusters.kubelets.kubelets import RealNode
from tools.clusters.processes import program
from tools.clusters.replicas import ONLY_METRICS, Replica, replicas
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import SimNode
from tools.clusters.waiting import SELDOM, seconds_until

CONTROLLER, KUBELETS = "controller", "kubelets"
# Access rights are not measured, but each program has a name: the audit log shows who made a request.
USERS: Mapping[str, str] = {
    **schedulers.USERS,
    **dict.fromkeys((CONTROLLER, KUBELETS, SCORER, *shipped.ACCOUNTS.values()), "system:masters"),
}
PER_POD = frozenset({"pods", "events"})
"""Resources whose writes are counted; topologies and leases are written for each node and second."""
SAMPLE_SECONDS = 0.25
AGENTS = "agents"


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

    @property
    def gates(self) -> bool:
        """Whether pods wait until the controller has chosen their nodes."""
        return GATE in self.labels


# Pods without a policy are placed in the same way, as the placement of the others depends on them.
_EVERY_POD = {DEFAULT: Policy.BEST_EFFORT}
_GATED = {**_EVERY_POD, GATE: Gate.ENABLED}
_SECOND = {**_EVERY_POD, SCHEDULER: "numalign-scheduler"}

COLUMNS: Mapping[str, Column] = {
    "stock": Column("stock scheduler", webhook=False),
    "webhook": Column("+ webhook"),
    "scorer": Column("+ scorer without bind", reserve_at="prioritize"),
    "bind": Column("+ scorer with bind", reserve_at="bind"),
    "gates": Column("+ gates", labels=_GATED),
    # As in clusters where nothing creates nodes.
    "patient": Column("+ gates, no patience limit", labels=_GATED, flags=("--gate-patience-seconds", "0")),
    "second": Column("+ second scheduler", reserve_at="bind", labels=_SECOND),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A run: machines, how late and by what their topologies are published, and the pods.

    `delay` is that of exporters in seconds, or `AGENTS` in their place. `patience` is how long to wait after
    the last arrival. Kubelets are simulated around the real managers, unless `kubelets` is a version of real
    ones.
    """

    machines: Sequence[SimNode]
    tasks: Sequence[Task]
    delay: str
    patience: float
    seed: int = 0
    kubelets: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The results of a run.

    `seconds` is the time until the last of all pods ran, None if some never did. `writes` are those of pods
    and events by all programs. `slot` is the most that one zone had left of the case's resource on average
    until then. `whole` counts the zones of several pieces with all of them left, once only services still
    run. `unaligned` pods requested a single zone and got several. `wrong` are the pods, of those `recorded`,
    whose record is not what their kubelet gave them; `believed` is how many of these the scorer continues to
    believe. `pinned` counts rejections of pods whose node the controller had chosen; None if it chooses none.
    """

    placed: int
    pods: int
    rejected: int
    seconds: float | None
    writes: int
    slot: float
    whole: int
    unaligned: int
    recorded: int
    wrong: int
    believed: int
    pinned: int | None


@dataclass(slots=True)
class Watcher:
    """Observes nodes while pods are placed; `wrong` are the names of pods with a wrong record."""

    nodes: Nodes
    recorded: int = 0
    wrong: set[str] = field(default_factory=set)
    doubted: set[str] = field(default_factory=set)
    unaligned: int = 0
    slots: list[int] = field(default_factory=list)

    def placed(self, fate: Fate) -> None:
        """Compare the record of a running pod with what its kubelet holds for it."""
        held = self.nodes.held(fate.pod)
        found = agrees(fate.pod, held)
        self.recorded += found is not None
        if found is False:
            self.wrong.add(f"{NAMESPACE}/{fate.pod['metadata']['name']}")
        zones = {zone for each, amounts in held.items() if amounts for zone in each}
        self.unaligned += fate.task.policy == "single-numa-node" and len(zones) > 1

    async def sample(self, scorer: Replica | None) -> None:
        """Sample the slots of all zones, and the pods whose record the scorer has withdrawn, forever."""
        while True:
            self.slots.append(max(left for left, _ in self.nodes.slots(GPU)))
            if scorer:
                self.doubted.update((await scorer.state())["doubtful"])
            await asyncio.sleep(SAMPLE_SECONDS)


async def measure(column: Column, case: Case) -> Cell:
    """Run a case in one of `COLUMNS`; raise whatever fails, but nothing for pods that were never placed."""
    with tempfile.TemporaryDirectory(prefix="numalign-bench-") as made:
        place = _real if case.kubelets else _simulated
        async with place(case, Path(made)) as (site, nodes):
            return await _measured(column, case, site, nodes)


@asynccontextmanager
async def _simulated(case: Case, folder: Path) -> AsyncIterator[tuple[Site, Nodes]]:
    flags = audits.flags(folder, users=tuple(USERS))
    async with (
        control_plane(folder, users=USERS, flags=flags, client=CONTROLLER) as site,
        site.plane.client(KUBELETS) as client,
        simulated(
            Api(client, namespace="default"),
            case.machines,
            delay=float(case.delay),
            jitter=float(case.delay) / 5,
            fingerprint=Fingerprint.ALL,
            seed=case.seed,
        ) as cluster,
    ):
        yield site, SimulatedNodes(cluster)


@asynccontextmanager
async def _real(case: Case, folder: Path) -> AsyncIterator[tuple[Site, Nodes]]:
    lines = [(machine.name, machine.line()) for machine in case.machines]
    real = [
        RealNode(name=name, machine=line["machine"], configuration=line["kubeletConfig"])
        for name, line in lines
    ]
    flags, others = audits.flags(folder, users=tuple(USERS)), {**USERS, "admin": "system:masters"}
    async with (
        started(real, version=case.kubelets, others=others, flags=flags) as cluster,
        cluster.plane.client(CONTROLLER) as client,
    ):
        site = Site(cluster.plane, cluster.children, certificate(folder), Store(client))
        for document in shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await site.store.apply(document)
        async with agents(cluster) if case.delay == AGENTS else exporters(cluster, delay=float(case.delay)):
            yield site, RealNodes(cluster, client)


async def _measured(column: Column, case: Case, site: Site, nodes: Nodes) -> Cell:
    for name, labels in ((NAMESPACE, column.labels), (shipped.NAMESPACE, {})):
        await site.store.apply(namespace(name, labels))
    second = column.labels.get(SCHEDULER)
    async with AsyncExitStack() as stack:
        if column.webhook:
            await stack.enter_async_context(_webhook(column, case, site))
        scorer = await stack.enter_async_context(_scorer(column, site)) if column.reserve_at else None
        verbs = tuple(each for each in schedulers.VERBS if each != "bind" or column.reserve_at == "bind")
        extender = Extender(url=scorer.url, verbs=verbs) if scorer else None
        plane = site.children, site.plane
        if second:
            await stack.enter_async_context(scheduler(*plane, name=second, extender=extender))
        await stack.enter_async_context(scheduler(*plane, extender=None if second else extender))
        return await _watched(column, case, nodes, site, scorer)


@asynccontextmanager
async def _webhook(column: Column, case: Case, site: Site) -> AsyncIterator[None]:
    """Run the webhook for the API server, and a controller that gives every node a class."""
    gates = ("--gates", "true") if column.gates else ()
    common = ("--namespace", shipped.NAMESPACE, "--bind", "127.0.0.1", *gates)
    webhook = (
        *(program("numalign-webhook"), *common, "--kubeconfig", str(site.kubeconfig(shipped.ACCOUNT))),
        *("--tls-cert", str(site.pair.cert), "--tls-key", str(site.pair.key)),
    )
    controller = (
        *(program("numalign-controller"), *common, *column.flags),
        *("--kubeconfig", str(site.kubeconfig(shipped.CONTROLLERS))),
    )
    async with (
        replicas(site.children, command=controller, name="controller", ports=ONLY_METRICS) as controllers,
        replicas(site.children, command=webhook, name="webhook") as webhooks,
    ):
        await controllers.start()
        replica = await webhooks.start()
        for document in shipped.webhooks():
            await site.store.apply(_trusting(shipped.by_address(document, replica.port), site.pair.ca))

        def labelled(nodes: list[Json]) -> bool:
            return sum(shipped.LABEL in node["metadata"]["labels"] for node in nodes) == len(case.machines)

        async def reviewed() -> bool:
            await rehearse(site.store.api, asks={}, namespace=NAMESPACE)
            return (await reviews(site.store.api)).asked > 0

        nodes = partial(site.store.list, "v1", "Node")
        await seconds_until(nodes, labelled, what="every node had a class", within=60, every=SELDOM)
        await seconds_until(reviewed, bool, what="pods were reviewed", within=30, every=SELDOM)
        yield


def _trusting(document: Json, ca: Path) -> Json:
    for entry in document["webhooks"]:
        entry["clientConfig"]["caBundle"] = b64encode(ca.read_bytes()).decode()
    return document


@asynccontextmanager
async def _scorer(column: Column, site: Site) -> AsyncIterator[Replica]:
    """Run the scorer with its Lease, so that it is ready and may bind."""
    command = (
        *(sys.executable, "-m", "scorer", "--namespace", shipped.NAMESPACE, "--bind", "127.0.0.1"),
        *("--kubeconfig", str(site.kubeconfig(SCORER)), "--insecure-http"),
        *("--reserve-at", column.reserve_at, "--debug-state", "true"),
    )
    async with replicas(site.children, command=command, name="scorer", scheme="http") as everyone:
        yield await everyone.start()


async def _watched(column: Column, case: Case, nodes: Nodes, site: Site, scorer: Replica | None) -> Cell:
    watcher = Watcher(nodes)
    controller = Controller(site.store.api, case.tasks, watcher.placed)
    nodes.alive = controller.alive
    before = _writes(site.plane.folder)
    sampling = asyncio.create_task(watcher.sample(scorer))
    try:
        await controller.run(patience=case.patience)
    finally:
        sampling.cancel()
    writes = _writes(site.plane.folder) - before
    rejected = sum(fate.refused for fate in controller.fates)
    await controller.end()
    await nodes.idle()
    fates = controller.fates
    times = [fate.at for fate in fates if fate.at is not None]
    return Cell(
        placed=len(times),
        pods=len(fates),
        rejected=rejected,
        seconds=max(times) if len(times) == len(fates) else None,
        writes=writes,
        slot=fmean(watcher.slots),
        whole=sum(left == most > 1 for left, most in nodes.slots(GPU)),
        unaligned=watcher.unaligned,
        recorded=watcher.recorded,
        wrong=len(watcher.wrong),
        believed=len(watcher.wrong - watcher.doubted),
        pinned=sum(fate.pinned for fate in fates) if column.gates else None,
    )


def _writes(folder: Path) -> int:
    """Count the writes of pods and events so far."""
    uses = (use for user in USERS for use in audits.uses(folder, user=user))
    return sum(use.writes and use.resource.partition("/")[0] in PER_POD for use in uses)
