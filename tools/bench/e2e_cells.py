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
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from numalign.kube.client import Api
from numalign.model.intent import DEFAULT, GATE, SCHEDULER, Gate, Policy
from tools.bench.e2e_controller import Controller, Fate
from tools.bench.e2e_nodes import Nodes, RealNodes, SimulatedNodes
from tools.bench.e2e_placements import Agreement, agreement, record, spread
from tools.bench.e2e_workload import GPU, NAMESPACE, Task
from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, rehearse
from tools.clusters.controlplane import audits, schedulers
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.controlplane.reviews import reviews
from tools.clusters.controlplane.schedulers import Extender, scheduler
from tools.clusters.kubelets.agents import agents
from tools.clusters.kubelets.clusters import started
from tools.clusters.kubelets.exporters import exporters
from tools.clusters.kubelets.kubelets import RealNode
from tools.clusters.processes import Children, program
from tools.clusters.replicas import ONLY_METRICS, Replica, replicas
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import SimNode
from tools.clusters.waiting import SELDOM, seconds_until

CONTROLLER, KUBELETS = "controller", "kubelets"
SCORER = f"system:serviceaccount:{shipped.NAMESPACE}:numalign-scorer"
# Access rights are not measured, but each program has a name: the audit log shows who made a request.
USERS: Mapping[str, str] = {
    **schedulers.USERS,
    **dict.fromkeys((CONTROLLER, KUBELETS, SCORER, *shipped.ACCOUNTS.values()), "system:masters"),
}
PER_POD = frozenset({"pods", "events"})
"""Resources whose writes are counted; topologies and leases are written for each node and second."""

SAMPLE_SECONDS = 0.25

AGENTS: Literal["agents"] = "agents"
Delay: TypeAlias = float | Literal["agents"]
"""Seconds by which exporters publish topologies late, or `AGENTS` in their place."""


@dataclass(frozen=True, slots=True)
class Column:
    """The programs of numalign that take part; `reserve_at` is when the scorer reserves, if it runs.

    `labels` are those of the namespace. They decide how the webhook has its pods placed: behind gates by the
    controller, or by a second scheduler, which is then the only one that calls the scorer. `flags` are the
    controller's.
    """

    name: str
    title: str
    webhook: bool = False
    reserve_at: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs with which the scheduler calls the scorer."""
        return tuple(verb for verb in schedulers.VERBS if verb != "bind" or self.reserve_at == "bind")

    @property
    def gates(self) -> bool:
        """Whether pods wait until the controller has chosen their nodes."""
        return GATE in self.labels

    @property
    def second(self) -> str:
        """The name of the second scheduler, if there is one."""
        return self.labels.get(SCHEDULER, "")


# Pods without a policy are placed in the same way, as the placement of the others depends on them.
_EVERY_POD = {DEFAULT: Policy.BEST_EFFORT}
_GATED = {**_EVERY_POD, GATE: Gate.ENABLED}
_FOR_EVER = ("--gate-patience-seconds", "0")

COLUMNS: Mapping[str, Column] = {
    column.name: column
    for column in (
        Column("stock", "stock scheduler"),
        Column("webhook", "+ webhook", webhook=True),
        Column("scorer", "+ scorer without bind", webhook=True, reserve_at="prioritize"),
        Column("bind", "+ scorer with bind", webhook=True, reserve_at="bind"),
        Column("gates", "+ gates", webhook=True, labels=_GATED),
        # As in clusters where nothing creates nodes.
        Column("patient", "+ gates, no patience limit", webhook=True, labels=_GATED, flags=_FOR_EVER),
        Column(
            "second",
            "+ second scheduler",
            webhook=True,
            reserve_at="bind",
            labels={**_EVERY_POD, SCHEDULER: "numalign-scheduler"},
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Case:
    """A run: machines, how late and by what their topologies are published, and the pods.

    `resource` is the one whose slots are sampled; `patience` is how long to wait after the last arrival.
    Kubelets are simulated around the real managers, unless `kubelets` is a version of real ones.
    """

    machines: Sequence[SimNode]
    tasks: Sequence[Task]
    delay: Delay
    patience: float
    seed: int = 0
    resource: str = GPU
    fingerprint: Fingerprint | None = Fingerprint.ALL
    kubelets: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The results of a run.

    `seconds` is the time until the last of all pods ran, None if some never did. `writes` are counted by
    user, verb and resource. `slot` is the most that one zone had left of the case's resource, and `busy` the
    share of it that pods held; both are averages until then. `whole` counts the zones of several pieces with
    all of them left, once only services still run. `agreements` compare records with kubelets. `unaligned`
    pods requested a single zone and got several. `waiting` are the pods that never ran, `astray` those whose
    record is not what their kubelet gave them; `believed` is how many of these the scorer continues to
    believe. `pinned` counts rejections of pods whose node the controller had chosen; None if it chooses none.
    """

    placed: int
    pods: int
    rejections: Mapping[str, int]
    seconds: float | None
    writes: Mapping[str, int]
    slot: float
    busy: float
    whole: int
    agreements: Mapping[str, int]
    unaligned: int
    waiting: Sequence[str]
    astray: Sequence[str]
    believed: int = 0
    pinned: int | None = None

    @property
    def rejected(self) -> int:
        """The number of rejections by kubelets."""
        return sum(self.rejections.values())

    @property
    def recorded(self) -> int:
        """The number of pods with a recorded placement."""
        return self.agreements.get(Agreement.SAME, 0) + self.wrong

    @property
    def wrong(self) -> int:
        """The number of pods whose record is not what their kubelet gave them."""
        return self.agreements.get(Agreement.DIFFERENT, 0)

    @property
    def writes_per_pod(self) -> float:
        """Writes of pods and events by all programs, per requested pod."""
        return sum(self.writes.values()) / self.pods


@dataclass(slots=True)
class Watcher:
    """Observes nodes while pods are placed."""

    nodes: Nodes
    resource: str
    agreements: Counter[str] = field(default_factory=Counter)
    astray: dict[str, str] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)
    unaligned: int = 0
    slots: list[int] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def placed(self, fate: Fate) -> None:
        """Compare the record of a running pod with what its kubelet holds for it."""
        name = f"{NAMESPACE}/{fate.pod['metadata']['name']}"
        node = fate.pod["spec"]["nodeName"]
        held = self.nodes.held(fate.pod)
        found = agreement(fate.pod, held)
        self.agreements[found.value] += 1
        if found is Agreement.DIFFERENT:
            self.astray[name] = f"{fate.task}, on {node}: {record(fate.pod)} against {held}"
        self.unaligned += fate.task.policy == "single-numa-node" and spread(held) > 1

    async def look(self) -> None:
        """Sample the slots of all zones, forever."""
        while True:
            slots = self.nodes.slots(self.resource)
            free = [left for left, _ in slots]
            self.slots.append(max(free))
            self.busy.append(1 - sum(free) / sum(most for _, most in slots))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def ask(self, scorer: Replica) -> None:
        """Note the pods whose record the scorer has withdrawn, forever."""
        while True:
            self.doubted.update((await scorer.state())["doubtful"])
            await asyncio.sleep(SAMPLE_SECONDS)

    def whole(self) -> int:
        """Return the number of zones that have more than one piece, and all of them left."""
        return sum(left == most > 1 for left, most in self.nodes.slots(self.resource))


@dataclass(frozen=True, slots=True)
class Site:
    """The site of a cell: an API server, the programs around it, and a certificate for numalign."""

    plane: Plane
    children: Children
    pair: authority.Files
    store: Store
    audit: Path


async def measure(column: Column, case: Case, *, binaries: Path, keep: Path | None = None) -> Cell:
    """Run a case in one of `COLUMNS`; logs go to the folder `keep`, if it is given.

    Raise whatever fails, but nothing for pods that were never placed.
    """
    with tempfile.TemporaryDirectory(prefix="numalign-bench-") as made:
        logs = keep or Path(made) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        if case.kubelets:
            return await _on_real_kubelets(column, case, Path(made), logs=logs)
        async with _site(Path(made), logs=logs, binaries=binaries) as site, _kubelets(case, site) as nodes:
            return await _measured(column, case, site, nodes)


async def _on_real_kubelets(column: Column, case: Case, folder: Path, *, logs: Path) -> Cell:
    issued = authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC))
    pair = authority.write(issued, folder / "tls")
    real = [_real(machine) for machine in case.machines]
    noted = audits.flags(folder, users=tuple(USERS))
    others = {**USERS, "admin": "system:masters"}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            started(real, version=case.kubelets, others=others, flags=noted, logs=logs)
        )
        client = await stack.enter_async_context(cluster.plane.client(CONTROLLER))
        store = Store(client)
        for document in shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await store.apply(document)
        telling = agents(cluster) if case.delay == AGENTS else exporters(cluster, delay=float(case.delay))
        await stack.enter_async_context(telling)
        site = Site(cluster.plane, cluster.children, pair, store, audit=folder)
        return await _measured(column, case, site, RealNodes(cluster, client))


def _real(machine: SimNode) -> RealNode:
    line = machine.line()
    return RealNode(name=machine.name, machine=line["machine"], configuration=line["kubeletConfig"])


@asynccontextmanager
async def _site(folder: Path, *, logs: Path, binaries: Path) -> AsyncIterator[Site]:
    issued = authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC))
    pair = authority.write(issued, folder / "tls")
    children = Children(logs=logs)
    noted = audits.flags(folder, users=tuple(USERS))
    plane = Plane(children, Place(binaries, folder, pair), users=USERS, flags=noted)
    try:
        await plane.start()
        async with plane.client(CONTROLLER) as client:
            yield Site(plane, children, pair, Store(client), audit=folder)
    finally:
        await children.end()


async def _measured(column: Column, case: Case, site: Site, nodes: Nodes) -> Cell:
    for name, labels in ((NAMESPACE, column.labels), (shipped.NAMESPACE, {})):
        await site.store.apply(namespace(name, labels))
    async with AsyncExitStack() as stack:
        if column.webhook:
            await stack.enter_async_context(_webhook(column, case, site))
        scorer = await stack.enter_async_context(_scorer(column, site)) if column.reserve_at else None
        extender = Extender(url=scorer.url, verbs=column.verbs) if scorer else None
        for told in _schedulers(column, extender):
            await stack.enter_async_context(scheduler(site.children, site.plane, **told))
        return await _watched(column, case, nodes, site, scorer)


def _schedulers(column: Column, extender: Extender | None) -> Iterator[dict[str, Any]]:
    """Yield the settings of each scheduler; if there is a second one, the first has no extender."""
    if column.second:
        yield {"name": column.second, "extender": extender}
    yield {"extender": None if column.second else extender}


@asynccontextmanager
async def _kubelets(case: Case, site: Site) -> AsyncIterator[Nodes]:
    async with (
        site.plane.client(KUBELETS) as client,
        simulated(
            Api(client, namespace="default"),
            case.machines,
            delay=float(case.delay),
            jitter=float(case.delay) / 5,
            fingerprint=case.fingerprint,
            seed=case.seed,
        ) as cluster,
    ):
        yield SimulatedNodes(cluster)


@asynccontextmanager
async def _webhook(column: Column, case: Case, site: Site) -> AsyncIterator[None]:
    """Run the webhook for the API server, and a controller that gives every node a class."""
    gates = ("--gates", "true") if column.gates else ()
    command = (
        *(program("numalign-webhook"), "--namespace", shipped.NAMESPACE, "--bind", "127.0.0.1"),
        *("--kubeconfig", str(_kubeconfig(site, shipped.ACCOUNT))),
        *("--tls-cert", str(site.pair.cert), "--tls-key", str(site.pair.key)),
        *gates,
    )
    writing = (
        *(program("numalign-controller"), "--namespace", shipped.NAMESPACE, "--bind", "127.0.0.1"),
        *("--kubeconfig", str(_kubeconfig(site, shipped.CONTROLLERS))),
        *gates,
        *column.flags,
    )
    async with (
        replicas(site.children, command=writing, name="controller", ports=ONLY_METRICS) as controllers,
        replicas(site.children, command=command, name="webhook") as everyone,
    ):
        controller = await controllers.start()
        replica = await everyone.start()
        for document in shipped.webhooks():
            await site.store.apply(_trusting(shipped.by_address(document, replica.port), site.pair))
        await _until_labelled(site.store, len(case.machines))
        look = partial(_reviewed, site.store.api)
        await seconds_until(look, bool, what="pods were reviewed", within=30, every=SELDOM)
        yield
        (site.children.logs / "controller-metrics").write_text(await controller.metrics(), encoding="utf-8")


def _kubeconfig(site: Site, user: str) -> Path:
    folder = site.plane.folder / user.replace(":", "-")
    folder.mkdir()
    return site.plane.kubeconfig(user, folder)


def _trusting(document: Json, pair: authority.Files) -> Json:
    bundle = b64encode(pair.ca.read_bytes()).decode()
    for entry in document["webhooks"]:
        entry["clientConfig"]["caBundle"] = bundle
    return document


async def _until_labelled(store: Store, number: int) -> None:
    def labelled(nodes: list[Json]) -> bool:
        return sum(shipped.LABEL in node["metadata"]["labels"] for node in nodes) == number

    look = partial(store.list, "v1", "Node")
    await seconds_until(look, labelled, what="every node had a class", within=60, every=SELDOM)


async def _reviewed(api: ApiClient) -> bool:
    """Return whether the API server has begun to send pods to the webhook."""
    await rehearse(api, asks={}, namespace=NAMESPACE)
    return (await reviews(api)).asked > 0


@asynccontextmanager
async def _scorer(column: Column, site: Site) -> AsyncIterator[Replica]:
    """Run the scorer with its Lease, so that it is ready and may bind."""
    command = (
        *(sys.executable, "-m", "scorer", "--namespace", shipped.NAMESPACE, "--bind", "127.0.0.1"),
        *("--kubeconfig", str(_kubeconfig(site, SCORER)), "--insecure-http"),
        *("--reserve-at", column.reserve_at, "--debug-state", "true"),
    )
    async with replicas(site.children, command=command, name="scorer", scheme="http") as everyone:
        replica = await everyone.start()
        yield replica
        (site.children.logs / "scorer-metrics").write_text(await replica.metrics(), encoding="utf-8")


async def _watched(column: Column, case: Case, nodes: Nodes, site: Site, scorer: Replica | None) -> Cell:
    watcher = Watcher(nodes, case.resource)
    controller = Controller(site.store.api, case.tasks, placed=watcher.placed)
    nodes.alive = controller.alive
    before = _writes(site.audit)
    looking = [asyncio.create_task(watcher.look())]
    looking += [asyncio.create_task(watcher.ask(scorer))] if scorer else []
    try:
        await controller.run(patience=case.patience)
    finally:
        for task in looking:
            task.cancel()
    writes = _writes(site.audit) - before
    rejections = Counter(reason for fate in controller.fates for reason in fate.reasons)
    await controller.end()
    await nodes.idle()
    return _cell(column, controller.fates, watcher, rejections=rejections, writes=writes)


def _cell(
    column: Column,
    fates: Sequence[Fate],
    watcher: Watcher,
    *,
    rejections: Mapping[str, int],
    writes: Mapping[str, int],
) -> Cell:
    times = [fate.at for fate in fates if fate.at is not None]
    return Cell(
        placed=len(times),
        pods=len(fates),
        rejections=dict(rejections),
        seconds=max(times) if len(times) == len(fates) else None,
        writes=dict(writes),
        slot=fmean(watcher.slots),
        busy=fmean(watcher.busy),
        whole=watcher.whole(),
        agreements=dict(watcher.agreements),
        unaligned=watcher.unaligned,
        waiting=[f"{fate.task}, refused {fate.refused} times" for fate in fates if fate.at is None],
        astray=list(watcher.astray.values()),
        believed=len(watcher.astray.keys() - watcher.doubted),
        pinned=sum(fate.pinned for fate in fates) if column.gates else None,
    )


def _writes(folder: Path) -> Counter[str]:
    """Count the writes of pods and events so far, by user, verb and resource."""
    found = (use for user in USERS for use in audits.uses(folder, user=user))
    return Counter(
        f"{use.user} {use.verb} {use.resource}"
        for use in found
        if use.writes and use.resource.partition("/")[0] in PER_POD
    )
