"""
A cluster in memory for tests of healing: an API server, owners that make pods anew, a gate and kubelets.

Every call to the API server can be made to fail, to be lost after it was done, or to be the last thing that
a leader does; a new leader then begins on the same cluster.
"""

import asyncio
import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from controller.healing.eviction_limits import EvictionLimits, Rates
from controller.healing.healer import Healer
from controller.healing.marks import TIMEOUT, MarkWriter
from controller.healing.moves import Moves
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from controller.healing.replacements import BetterPlaces
from controller.held import HeldPlaces
from numalign.kube.client import Patch, Query
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.errors import ClusterError, Conflict, NotFound, Throttled
from numalign.kube.events import Event
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.model.bitset import bits
from numalign.model.intent import ALIGNED, ALIGNED_WHY, Match, Policy
from numalign.model.node import Node
from numalign.model.placement import Held
from numalign.runtime.logs import Log
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.ranking import Ranker, RankingRules
from numalign.scheduling.scheduler_state import SchedulerState
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog
from tests.worlds.notation import bag, node
from tests.worlds.scorer import SINGLE, TEAM, Raw, raw, running, snapshot, wall

HEALED = {"gate": "enabled", "heal": "running"}
"""The labels of a namespace that wants misaligned pods moved."""

ROOMY = node("cpu=16 mem=64Gi", "cpu=16 mem=64Gi", policy="restricted")
LOOSE = replace(ROOMY, policy=Policy.NONE)

SPREAD = {"node-0": "cpu=2", "node-1": "cpu=2"}
TOGETHER = {"node-0": "cpu=4"}


class Killed(BaseException):
    """Raised where a leader ends that is killed in the middle of a call."""


def owned(made: Raw, owner: str, **reference: Any) -> Raw:  # noqa: ANN401  JSON
    """A pod of a ReplicaSet, or of whoever `reference` says."""
    named = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": f"uid-of-{owner}",
        "controller": True,
        **reference,
    }
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [named]}}


def web(name: str, owner: str = "web", *, cpu: int = 4, policy: str = SINGLE, **changes: Any) -> Raw:  # noqa: ANN401
    """A pod that is to sit in one zone."""
    return owned(raw(f"cpu={cpu} mem=1Gi", name=name, policy=policy, **changes), owner)


@dataclass
class Cluster:
    """What the API server stores, and what happens to it. `placements` are what agents saw, by node and uid.

    `fails` is raised by the next calls of a method, one each; `after` runs once a call of a method was done,
    before it is answered, and `between` once an eviction was counted, before the pod is deleted. `budget` is
    how many pods a PodDisruptionBudget lets go, if there is one. Owners make another pod at once if
    `makes_anew`, which waits at the gate.
    """

    nodes: dict[str, Node]
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=lambda: {TEAM: HEALED})
    time: Clock = field(default_factory=Clock)
    pods: dict[tuple[str, str], Raw] = field(default_factory=dict)
    placements: dict[str, dict[str, ObservedPlacement]] = field(default_factory=dict)
    fails: dict[str, list[BaseException]] = field(default_factory=dict)
    after: dict[str, Callable[[], None]] = field(default_factory=dict)
    between: Callable[[], None] = lambda: None
    budget: float = math.inf
    evicted: list[tuple[float, str]] = field(default_factory=list)
    asked: list[Raw] = field(default_factory=list)
    makes_anew: bool = True
    sits_as: Mapping[str, str] = field(default_factory=lambda: TOGETHER)
    listeners: list["Leader"] = field(default_factory=list)
    made: int = 0
    version: int = 1
    unpublished: bool = True

    def put(self, made: Raw) -> None:
        """A pod is stored like this, and everybody hears of it."""
        self.version += 1
        made = copy.deepcopy(made)
        made["metadata"]["resourceVersion"] = str(self.version)
        metadata = made["metadata"]
        self.pods[metadata["namespace"], metadata["name"]] = made
        for listener in self.listeners:
            listener.pods.put(made)

    def drop(self, namespace: str, name: str) -> None:
        """A pod is gone."""
        self.pods.pop((namespace, name), None)
        for listener in self.listeners:
            listener.pods.drop((namespace, name))

    async def runs(self, made: Raw, place: str, sits: Mapping[str, str]) -> None:
        """A pod runs on a node, whose agent says what it holds."""
        bound = {**made, "spec": {**made["spec"], "nodeName": place, "schedulingGates": []}}
        self.put(running(bound))
        self.observe(made["metadata"]["uid"], place, sits)

    def observe(self, uid: str, place: str, sits: Mapping[str, str]) -> None:
        """The agent of a node says what a pod holds."""
        held: Held = {(zone,): bag(amounts) for zone, amounts in sits.items()}
        self.placements.setdefault(place, {})[uid] = ObservedPlacement(held, bits(()))
        self.unpublished = True

    async def publish(self) -> None:
        """Everybody hears of nodes and of what agents say."""
        self.unpublished = False
        for listener in self.listeners:
            await listener.know()

    # The API.

    async def get(self, path: str, _query: object = (), *, what: str, most: int | None = None) -> object:
        """One pod or namespace, of any size."""
        assert most
        await asyncio.sleep(0)
        if what.startswith("namespace "):
            return self._namespace(path.split("/")[4])
        self._fail("get")
        namespace, name = path.split("/")[4], path.split("/")[6]
        stored = self.pods.get((namespace, name))
        if stored is None:
            raise NotFound(what)
        self._done("get")
        return copy.deepcopy(stored)

    async def patch(self, path: str, body: Any, query: Query = (), *, how: Patch, what: str) -> object:  # noqa: ANN401  JSON
        """A merge patch of annotations, which lands within a time that is known."""
        assert how is Patch.MERGE
        assert query == TIMEOUT
        await asyncio.sleep(0)
        self._fail("patch")
        namespace, name = path.split("/")[4], path.split("/")[6]
        stored = self.pods.get((namespace, name))
        if stored is None:
            raise NotFound(what)
        if body["metadata"]["uid"] != stored["metadata"]["uid"]:
            raise Conflict(what)
        annotations = {**stored["metadata"]["annotations"], **body["metadata"]["annotations"]}
        kept = {key: value for key, value in annotations.items() if value is not None}
        self.put({**stored, "metadata": {**stored["metadata"], "annotations": kept}})
        self._done("patch")
        return {}

    async def create(self, path: str, body: Any, _query: object = (), *, what: str) -> object:  # noqa: ANN401
        """An eviction, in the order of EvictionREST.Create: counted first, and then compared."""
        assert path.endswith("/eviction")
        await asyncio.sleep(0)
        self._fail("evict")
        namespace, name = path.split("/")[4], path.split("/")[6]
        stored = self.pods.get((namespace, name))
        if stored is None:
            raise NotFound(what)
        if not self.budget:
            raise Throttled(f"{what}: Cannot evict pod as it would violate the pod's disruption budget.")
        self.budget -= 1
        self.between()
        stored = self.pods[namespace, name]
        metadata, wanted = stored["metadata"], body["deleteOptions"]["preconditions"]
        if {key: metadata[key] for key in wanted} != wanted:
            raise Conflict(what)
        assert "deletionTimestamp" not in metadata, "a pod on its way out was evicted"
        self.asked.append(body)
        self.evicted.append((self.time.seconds, metadata["uid"]))
        self.put({**stored, "metadata": {**metadata, "deletionTimestamp": "2027-01-15T08:00:00Z"}})
        if self.makes_anew:
            self.make_anew(stored)
        self._done("evict")
        return {}

    def _namespace(self, name: str) -> Raw:
        self._fail("get namespace")
        labels = {f"numalign.io/{key}": value for key, value in self.namespaces[name].items()}
        return {"metadata": {"name": name, "labels": labels}}

    def _fail(self, method: str) -> None:
        if self.fails.get(method):
            raise self.fails[method].pop(0)

    def _done(self, method: str) -> None:
        if then := self.after.pop(method, None):
            then()

    # Those who live there.

    def make_anew(self, gone: Raw) -> None:
        """The owner makes another pod, which waits at the gate."""
        self.made += 1
        name = f"new-{self.made}"
        metadata = {key: value for key, value in gone["metadata"].items() if key != "deletionTimestamp"}
        annotations = {
            key: text for key, text in metadata["annotations"].items() if key not in (ALIGNED, ALIGNED_WHY)
        }
        metadata |= {"name": name, "uid": f"uid-of-{name}", "annotations": annotations}
        spec = {key: value for key, value in gone["spec"].items() if key != "nodeName"}
        gated = {**spec, "schedulingGates": [{"name": "numalign.io/placement"}]}
        self.put({**gone, "metadata": metadata, "spec": gated, "status": {"phase": "Pending"}})

    async def settle(self) -> None:
        """What goes is gone, and what waits at the gate takes what is held for it, or the first node."""
        for (namespace, name), made in [*self.pods.items()]:
            if "deletionTimestamp" in made["metadata"]:
                self.drop(namespace, name)
                for seen in self.placements.values():
                    seen.pop(made["metadata"]["uid"], None)
            elif made["spec"].get("schedulingGates"):
                await self.runs(made, self._place(made), self.sits_as)
        if self.unpublished:
            await self.publish()

    def _place(self, made: Raw) -> str:
        """What the gate answers."""
        for listener in self.listeners:
            pod = listener.state.pods[made["metadata"]["uid"]]
            pending = listener.state.pending_pod(made)
            if listener.leads and (place := listener.held.take(pod, pending)):
                return place
        return next(iter(self.nodes))


@dataclass
class Leader:
    """A controller's healing, beside a cluster."""

    cluster: Cluster
    leads: bool = True
    gates: bool = True
    rates: Rates = Rates(owner=600, node=300, cluster=6)  # noqa: RUF009  frozen
    told: RecordedLog = field(default_factory=RecordedLog)
    events: list[Event] = field(default_factory=list)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        time, log = self.cluster.time, self.told.log
        policy = PolicyKeeper(None, log=log, registry=self.registry)
        self.state = SchedulerState(
            Reservations(kept=60), policy=policy, match=Match.SATISFIES, clock=time, wall=partial(wall, time)
        )
        self.pods = PodInformer(self.state, self.state.reader, log=log, registry=self.registry)
        nodes = NodeAnswers(self.state, unknown="cannot-fit", clock=time)
        self.alignments = RunningPodAlignments(self.state, named=10)
        self.registry.register(self.alignments)
        self.state.watchers = (self.alignments.update_pod,)
        self.held = HeldPlaces(self.state, nodes, time)
        self.owners = Owners()
        self.marks = self._marks(log)
        self.moves = Moves(
            state=self.state,
            alignments=self.alignments,
            held=self.held,
            owners=self.owners,
            publish=self.events.append,
            log=log,
            registry=self.registry,
            clock=time,
        )
        self.healer = self._healer(nodes, log)
        self.cluster.listeners.append(self)
        for made in self.cluster.pods.values():
            self.pods.put(made)

    def _marks(self, log: Log) -> MarkWriter:
        return MarkWriter(
            api=self.cluster,
            state=self.state,
            alignments=self.alignments,
            owners=self.owners,
            leading=lambda: self.leads,
            publish=self.events.append,
            log=log,
            registry=self.registry,
            clock=self.cluster.time,
            sleep=self.cluster.time.sleep,
        )

    def _healer(self, nodes: NodeAnswers, log: Log) -> Healer:
        time = self.cluster.time
        return Healer(
            api=self.cluster,
            state=self.state,
            alignments=self.alignments,
            places=BetterPlaces(self.state, nodes, Ranker(RankingRules()), lambda _name, _demand: True),
            held=self.held,
            limits=EvictionLimits(self.rates, time()),
            owners=self.owners,
            moves=self.moves,
            gates=self.gates,
            unplaceable=lambda made: ("volumes",) if made["spec"].get("volumes") else (),
            written_until=self.marks.written_until,
            leading=lambda: self.leads,
            acts_for=lambda: 10.0 if self.leads else 0.0,
            publish=self.events.append,
            log=log,
            clock=time,
            sleep=time.sleep,
        )

    async def know(self) -> None:
        """Hear of nodes, namespaces and what agents say."""
        cluster = self.cluster
        seen = {name: dict(pods) for name, pods in cluster.placements.items()}
        namespaces: dict[str, Any] = {**cluster.namespaces}
        await self.state.update_snapshot(snapshot(cluster.nodes, placements=seen, **namespaces))

    def kill(self) -> None:
        """It is no more."""
        self.leads = False
        self.cluster.listeners.remove(self)

    async def turns(self, seconds: float, *, settle: bool = True, step: int = 1) -> None:
        """Clock passes, second by second; kubelets and owners act in between."""
        for _ in range(int(seconds) // step):
            self.cluster.time.seconds += step
            await self.healer.turn()
            for pod in self.state.reservations.expire(self.cluster.time()):
                self.told.log.warning("reservation.expired", pod="/".join(pod.name))
            if settle:
                await self.cluster.settle()

    def reasons(self) -> list[str]:
        """What events tell."""
        return [event.reason for event in self.events]

    def count(self, name: str, **labels: str) -> float:
        """A metric."""
        return self.registry.get_sample_value(name, labels) or 0.0


async def a_cluster(*names: str, **facts: Any) -> Cluster:  # noqa: ANN401  as `Cluster`
    """Nodes that are alike, all empty; the first one has no policy, so that pods may sit anyhow there."""
    return Cluster({name: ROOMY if at else LOOSE for at, name in enumerate(names)}, **facts)


def cluster_error(error: type[ClusterError], text: str = "no") -> ClusterError:
    """An answer of the API server."""
    return error(text)
