"""A scorer in the process of its tests, a cluster of nodes, and pods as documents."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from numalign.kube.cluster import Cluster
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.events import Event
from numalign.kube.files.policy import ClusterPolicy
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.model import AssignedPod
from numalign.ledger.reservations import Reservations
from numalign.model import intent
from numalign.model.intent import Match
from numalign.model.node import Node
from numalign.runtime import logs, server
from numalign.scheduling import binding
from numalign.scheduling.binding import Binder, BindingCall, Write
from numalign.scheduling.node_answers import Filtered, NodeAnswer, NodeAnswers
from numalign.scheduling.outcomes import Outcomes, Predictions
from numalign.scheduling.pod_groups import PodGroups
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState
from scorer.handlers import CallContext, CallMetrics, application
from scorer.preempting import Preemption
from scorer.settings import ReserveAt, ScorerSettings
from tests.worlds.clock import Clock
from tests.worlds.clusters import a_cluster, become
from tests.worlds.log import RecordedLog
from tests.worlds.manifests import labelled, topology, v1_pod
from tests.worlds.notation import node

Raw = dict[str, Any]

TEAM = "team"
SINGLE = "single-numa-node"

NOW = 1_800_000_000
"""Seconds since 1970 at which every test begins."""

BORN = "2027-01-15T07:59:00Z"
"""When pods are created if nobody says: a minute before that."""


def raw(
    *containers: str,
    name: str = "web",
    policy: str | None = SINGLE,
    **more: Any,  # noqa: ANN401  as `v1_pod`
) -> Raw:
    """A v1 Pod in the namespace `team`, of containers in the notation of the tables."""
    fields = {"name": name, "namespace": TEAM, "uid": uid(name), "creationTimestamp": BORN}
    return v1_pod(*containers, policy=policy, **{**fields, **more})


def uid(name: str) -> str:
    return f"uid-of-{name}"


def binding_call(made: Raw, place: str) -> Raw:
    metadata = made["metadata"]
    return {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": place,
    }


def on(place: str, made: Raw, *, record: Sequence[Mapping[str, object]] | None = None) -> Raw:
    """The pod once it is bound to a node, with what was recorded as it was."""
    annotations = made["metadata"]["annotations"]
    if record is not None:
        annotations = {**annotations, intent.PLACEMENT: json.dumps(record)}
    metadata = {**made["metadata"], "annotations": annotations}
    return {**made, "metadata": metadata, "spec": {**made["spec"], "nodeName": place}}


def running(made: Raw) -> Raw:
    return {**made, "status": {"phase": "Running", "startTime": BORN}}


def refused(made: Raw, *, reason: str = "TopologyAffinityError", message: str = "cannot be aligned") -> Raw:
    return {**made, "status": {"phase": "Failed", "reason": reason, "message": message}}


def snapshot(  # noqa: PLR0913  one keyword for each part of a cluster
    members: Mapping[str, Node] = {},
    *,
    unknown: Iterable[str] = (),
    labels: Mapping[str, Mapping[str, str]] | None = None,
    fingerprints: Mapping[str, Fingerprint] | None = None,
    placements: Mapping[str, Mapping[str, ObservedPlacement]] | None = None,
    served: Iterable[str] = (),
    **namespaces: Mapping[str, str],
) -> Cluster:
    """A cluster of these nodes; labels of namespaces stand without our prefix, others with a `/`."""
    nodes = [replace(made, name=name) for name, made in members.items()]
    parts = {
        name: {
            "fingerprint": (fingerprints or {}).get(name),
            "placements": (placements or {}).get(name),
        }
        for name in members
    }
    of_namespaces: dict[str, Any] = {**namespaces}
    return a_cluster(nodes, unknown, labels=labels, served=served, parts=parts, **of_namespaces)


def documents(members: Mapping[str, Node], **namespaces: Mapping[str, str]) -> list[Raw]:
    """What kubectl prints of such nodes and namespaces; a node without zones publishes no topology."""
    return [
        *(labelled("Node", name, {"pool": name}) for name in members),
        *(topology(name, made) for name, made in members.items() if made.zones),
        *(labelled("Namespace", name, _prefixed(labels)) for name, labels in namespaces.items()),
    ]


def _prefixed(labels: Mapping[str, str]) -> dict[str, str]:
    return {key if "/" in key else f"{intent.PREFIX}{key}": value for key, value in labels.items()}


def filtered(judged: Sequence[NodeAnswer]) -> Filtered:
    """What becomes of nodes that were asked one by one."""
    no = [each for each in judged if not each.fits]
    now, ever = ({each.name: each.reason for each in no if each.permanent is kind} for kind in (False, True))
    return Filtered([each.name for each in judged if each.fits], now, ever)


def wall(clock: Clock) -> float:
    return NOW + clock() - 1000


@dataclass
class Writes:
    """Stands for the API server: keeps what is bound, or raises what it was told; `first` runs before."""

    error: Exception | None = None
    first: Callable[[], None] | None = None
    made: list[Raw] = field(default_factory=list)

    async def __call__(self, **binding: object) -> None:
        if self.first:
            self.first()
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        self.made.append(binding)


@dataclass
class Scorer:
    """The parts of a scorer in this process, joined as the program does, with a time of their own."""

    match: Match = Match.SATISFIES
    unknown: str = "cannot-fit"
    reserve_at: ReserveAt = ReserveAt.BIND
    rules: RankingRules = field(default_factory=RankingRules)
    patience: float = 3.0
    writes: Writes = field(default_factory=Writes)
    write: Write | None = None
    binds: bool = True
    leads: bool = True
    proved: float = 10.0
    journal: RecordedLog = field(default_factory=RecordedLog)
    time: Clock = field(default_factory=Clock)
    teller: list[Event] = field(default_factory=list)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.reservations = Reservations()
        self.policy = PolicyKeeper(None, log=self.journal.log, registry=self.registry)
        self.state = SchedulerState(
            self.reservations,
            cluster=Cluster(),
            policy=self.policy,
            match=self.match,
            clock=self.time,
            wall=partial(wall, self.time),
        )
        self.outcomes = Outcomes(
            self.state,
            publish=self.teller.append,
            log=self.journal.log,
            registry=self.registry,
        )
        self.predictions = Predictions(
            self.state,
            publish=self.teller.append,
            log=self.journal.log,
            registry=self.registry,
        )
        self.state.watchers = (self.outcomes.update_pod, self.predictions.update_pod)
        self.pods = PodInformer(self.state, self.state.reader, log=self.journal.log, registry=self.registry)
        self.nodes = NodeAnswers(self.state, unknown=self.settings().unknown_nodes, clock=self.time)
        self.preemption = Preemption(self.state)
        self.binder = self.a_binder()
        self.context = CallContext(
            self.state,
            self.nodes,
            PodGroups(self.state),
            self.binder,
            self.preemption,
            Ranker(self.rules),
            CallMetrics(self.registry),
            reserve_at=self.reserve_at,
            leading=lambda: self.leads,
            age=lambda: 0.5,
            quiet_log=logs.QuietLog(self.journal.log),
            sleep=self.time.sleep,
            another_leads=lambda: not self.leads,
        )

    def settings(self, **chosen: object) -> ScorerSettings:
        return ScorerSettings.model_validate(
            {"insecure_http": True, "unknown_nodes": self.unknown, "reserve_at": self.reserve_at, **chosen}
        )

    def a_binder(self) -> Binder:
        return Binder(
            state=self.state,
            write=(self.write or self.writes) if self.binds else None,
            acts_for=lambda: self.proved if self.leads else 0.0,
            patience=self.patience,
            unknown=self.settings().unknown_nodes,
            log=self.journal.log,
            metrics=binding.BindMetrics.of(self.registry),
            clock=self.time,
            sleep=self.time.sleep,
        )

    # What the cluster does.

    async def know(self, members: Mapping[str, Node], **facts: Any) -> None:  # noqa: ANN401  as `snapshot`
        await self.know_cluster(snapshot(members, **facts))

    async def know_cluster(self, cluster: Cluster) -> None:
        become(self.state.cluster, cluster)
        await self.state.catch_up()

    def obey(self, policy: ClusterPolicy) -> None:
        self.policy.apply(policy)

    def see(self, *pods: Raw) -> None:
        for each in pods:
            self.pods.put(each)

    def lose(self, name: str) -> None:
        self.pods.drop((TEAM, name))

    # What is asked.

    def ask(self, made: Raw, *names: str) -> list[NodeAnswer]:
        subject = self.subject(made)
        judged = self.nodes.of(names, subject)
        assert self.nodes.filtered(names, subject)[0] == filtered(judged)
        return judged

    def fits(self, made: Raw, *names: str) -> list[bool]:
        return [each.fits for each in self.ask(made, *names)]

    def subject(self, made: Raw) -> PendingPod:
        return self.state.pending_pod(made)

    def reserve(self, made: Raw, place: str) -> AssignedPod:
        """Reserve zones for a pod on a node, as an earlier bind or prioritize did; the reservation."""
        subject = self.subject(made)
        [judged] = self.nodes.of([place], subject)
        assert judged.fits, judged.reason
        self.reservations.reserve(place, subject.assigned_pod(now=self.time()), judged.prediction)
        found = self.reservations.assigned_pod(subject.uid)
        assert found
        return found

    async def bind(self, made: Raw, place: str, **other: str) -> str:
        who = {key: made["metadata"][key] for key in ("name", "namespace", "uid")}
        return await self.binder.bind(BindingCall(**{**who, "node": place, **other}))

    def kept(self) -> dict[str, str | None]:
        """Which pods have zones reserved on a node and are not seen there, and which node."""
        return {each.name[1]: self.reservations.node_of(each.uid) for each in self.reservations.reserved()}

    def count(self, name: str, **labels: str) -> float:
        found = self.registry.get_sample_value(f"numalign_{name}", labels)
        assert found is not None, f"there is no {name} with {labels}"
        return found

    # On a socket.

    def app(self, **chosen: object) -> web.Application:
        return application(
            self.settings(**chosen),
            self.context,
            log=self.journal.log,
            registry=self.registry,
            checks={},
            state=lambda: {"pods": len(self.state.pods)},
        )

    @contextlib.asynccontextmanager
    async def open(self, **chosen: object) -> AsyncIterator["Caller"]:
        app = self.app(**chosen)
        async with (
            TestClient(TestServer(app)) as client,
            TestClient(TestServer(server.health_application(app))) as watching,
        ):
            yield Caller(client, watching)


@dataclass(frozen=True)
class Caller:
    """One who calls a scorer, as a scheduler or not."""

    client: TestClient[web.Request, web.Application]
    watching: TestClient[web.Request, web.Application]

    async def send(self, path: str, body: bytes, *, kind: str = "application/json") -> tuple[int, Any]:
        headers = {"Content-Type": kind} if kind else {}
        async with self.client.post(path, data=io.BytesIO(body), headers=headers) as answer:
            return answer.status, await answer.json()

    async def ask(self, path: str, call: object) -> Any:  # noqa: ANN401  JSON
        status, document = await self.send(path, orjson.dumps(call))
        assert status == 200, document
        return document

    async def filter(self, made: Raw, *names: str) -> Raw:
        found: Raw = await self.ask("/filter", {"Pod": made, "Nodes": None, "NodeNames": [*names]})
        return found

    async def prioritize(self, made: Raw, *names: str) -> dict[str, int]:
        found = await self.ask("/prioritize", {"Pod": made, "Nodes": None, "NodeNames": [*names]})
        return {each["Host"]: each["Score"] for each in found}

    async def bind(self, made: Raw, place: str) -> str:
        return str((await self.ask("/bind", binding_call(made, place)))["Error"])


EMPTY = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""Two zones of eight CPUs and two GPUs, all free, that are kept together."""

TORN = node("cpu=8//8 mem=16Gi gpu=2//0", "cpu=8//1 mem=16Gi gpu=2//2", policy=SINGLE)
"""CPUs are free in one NUMA zone, and devices in the other."""

FOUR = "cpu=4 mem=1Gi gpu=1"
ALL = "cpu=8 mem=1Gi gpu=2"
"""Half of a zone of these, and all of one; `HALF` and `BOTH` are records of half a zone, and of both."""

HALF = [{"zones": ["node-0"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}]
BOTH = [{"zones": [f"node-{at}"], "amount": {"cpu": "8", "nvidia.com/gpu": "2"}} for at in (0, 1)]

LARGE = tuple(f"cpu={2 if at < 2 else '10m'} mem={at + 1}Mi" for at in range(100))
"""Containers of which no two are alike: a pod of them is not kept as it is."""

SMALL = node("cpu=2 mem=16Gi gpu=1", "cpu=2 mem=16Gi gpu=1", policy=SINGLE)

LOOSE = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="none")
