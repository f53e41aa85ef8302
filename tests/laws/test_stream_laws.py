"""
The law of the stream of changes: an answer is that of a fresh start at the state that it was given in.

Objects come, change and go in any order, lists are read again after a gap, and changes are published a few at
a time, while webhook and scorer answer what they are asked, some of it in steps.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from numalign.cache import ClusterCache, admission
from numalign.cache.admission import AdmissionDecision
from numalign.cache.pod_question import PodQuestion
from numalign.cache.scheduler_cache import NotEligible
from numalign.kube import admission_caches
from numalign.kube.cluster import Cluster
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode.nrt import FINGERPRINT_ANNOTATION
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.steps import Steps, finished
from numalign.scheduling.node_answers import Filtered
from numalign.shapes import ShapeHistory
from tests.worlds import objects
from tests.worlds.clusters import become
from tests.worlds.manifests import topology
from tests.worlds.notation import node
from tests.worlds.objects import Json
from tests.worlds.scorer import NOW, TEAM, Scorer, on, raw, running
from tools.clusters.sim.fingerprints import fingerprint

NAMES = ("a", "b", "c", "d")
ZONE, SMALL = "cpu=8 mem=8Gi gpu=2", "cpu=4 mem=8Gi gpu=1"
TOPOLOGIES = [
    node(ZONE, ZONE, policy="single-numa-node"),
    node(ZONE, ZONE, policy="best-effort"),
    node(SMALL, SMALL, policy="single-numa-node"),
    node(SMALL, SMALL, SMALL, policy="restricted", scope="pod"),
]
LABELS: list[dict[str, str]] = [{}, {"pool": "x"}, {"numalign.io/class": "other"}]
RULES: list[dict[str, str]] = [
    {},
    {"default": "restricted"},
    {"enforce": "single-numa-node"},
    {"warn": "best-effort"},
]
POLICIES = [NO_POLICY, ClusterPolicy(unaligned=frozenset({"gpu"}))]
PODS = [
    raw("cpu=2 mem=1Gi gpu=1", name="small"),
    raw("cpu=6 mem=1Gi", name="wide", policy="restricted"),
    raw("cpu=2 mem=1Gi gpu=2", "cpu=2 mem=1Gi", name="several"),
    raw("cpu=2 mem=1Gi gpu=3", name="large"),
    raw("cpu=2 mem=1Gi gpu=1", name="plain", policy=None),
    raw("cpu=2 mem=1Gi", name="choosy", spec={"nodeSelector": {"pool": "x"}}),
]
BOUND = [raw("cpu=3 mem=1Gi gpu=1", name=f"bound{at}") for at in range(4)]

names, numbers = st.sampled_from(NAMES), st.integers(0, 3)


class Stream(RuleBasedStateMachine):
    """A cluster that programs watch, and the objects that the API server has meanwhile."""

    @initialize()
    def start(self) -> None:
        self.scorer = Scorer()
        self.cluster = self.scorer.state.cluster
        self.state = ClusterState(
            complete=True, shape_history=ShapeHistory(wall=lambda: NOW), cluster=self.cluster
        )
        self.cache = ClusterCache()
        self.cluster.listen(partial(admission_caches.apply, self.cache))
        self.publishing: Iterator[None] | None = None
        self.policy: ClusterPolicy = NO_POLICY
        self.pods: dict[str, Json] = {}
        self.reader, self.turns = PodReader(), count()
        self.reviews: list[tuple[PodQuestion, ClusterPolicy, Steps[AdmissionDecision]]] = []
        self.state.namespaces.put(TEAM, objects.namespace(TEAM))
        for name in NAMES[:2]:
            self.put_node(name, 0)
            self.put_topology(name, 0)
        self.settle()

    # What the API server says.

    @rule(name=names, which=st.integers(0, 2))
    def put_node(self, name: str, which: int) -> None:
        self.state.nodes.put(name, objects.node(name, **LABELS[which]))

    @rule(name=names, which=numbers)
    def put_topology(self, name: str, which: int) -> None:
        made = topology(name, TOPOLOGIES[which])
        made["metadata"]["annotations"] = {FINGERPRINT_ANNOTATION: fingerprint(())}
        self.state.topologies.put(name, made)

    @rule(name=names)
    def drop_node(self, name: str) -> None:
        self.state.nodes.drop(name)

    @rule(name=names)
    def drop_topology(self, name: str) -> None:
        self.state.topologies.drop(name)

    @rule(name=names)
    def break_topology(self, name: str) -> None:
        self.state.topologies.put(name, {**topology(name, TOPOLOGIES[0]), "zones": "none"})

    @rule(which=numbers)
    def put_namespace(self, which: int) -> None:
        labels = {f"numalign.io/{key}": value for key, value in RULES[which].items()}
        self.state.namespaces.put(TEAM, objects.namespace(TEAM, **labels))

    @rule(which=st.integers(0, 1))
    def change_policy(self, which: int) -> None:
        self.policy = POLICIES[which]
        self.scorer.obey(self.policy)

    @rule(kept=st.sets(names), come=st.lists(st.tuples(names, numbers), max_size=3))
    def relist(self, kept: set[str], come: list[tuple[str, int]]) -> None:
        """The watch had a gap, and lists say what there is now."""
        for name, which in come:
            self.put_node(name, which % 3)
            self.put_topology(name, which)
        present = kept | {name for name, _ in come}
        self.state.nodes.keep(present)
        self.state.topologies.keep(present)

    @rule(name=names, which=numbers)
    def bind(self, name: str, which: int) -> None:
        record = [{"zones": ["node-0"], "amount": {"cpu": "3", "memory": "1Gi", "gpu": "1"}}]
        made = running(on(name, BOUND[which], record=record))
        self.pods.setdefault(made["metadata"]["name"], made)
        self.scorer.see(self.pods[made["metadata"]["name"]])

    @rule(which=numbers)
    def delete(self, which: int) -> None:
        name = BOUND[which]["metadata"]["name"]
        if self.pods.pop(name, None):
            self.scorer.lose(name)

    # What is published of it.

    @rule(steps=st.integers(1, 4))
    def publish(self, steps: int) -> None:
        for _ in range(steps):
            self.publishing = self.publishing or self.state.publish()
            if next(self.publishing, self) is self:
                self.publishing = None

    @rule()
    def settle(self) -> None:
        if self.publishing:
            finished(self.publishing)  # type: ignore[arg-type]
        self.publishing = None
        finished(self.state.publish())

    # What is answered meanwhile.

    @invariant()
    def answers_are_those_of_a_fresh_start(self) -> None:
        """Of one pod after the other: both programs have all that was published so far."""
        pod = PODS[next(self.turns) % len(PODS)]
        assert filtered(self.scorer, pod) == filtered(self.fresh(), pod)
        if reading := self.read(pod):
            assert decided(reading, self.cache, self.policy) == self.decided_anew(reading, self.policy)

    @rule(which=st.integers(0, len(PODS) - 1))
    def review(self, which: int) -> None:
        """A review begins that takes many steps."""
        policy, reading = self.policy, self.read(PODS[which])
        if reading:
            steps = self.cache.pace.in_steps(lambda: decided(reading, self.cache, policy))
            self.reviews.append((reading, policy, steps))

    @precondition(lambda self: self.reviews)
    @rule(steps=st.integers(1, 9))
    def go_on(self, steps: int) -> None:
        """A review goes on for some steps; what is decided is true of the cluster as it is at the end."""
        reading, policy, decision = self.reviews[0]
        for _ in range(steps):
            try:
                next(decision)
            except StopIteration as end:
                ended = end.value
                break
        else:
            return
        del self.reviews[0]
        assert ended == self.decided_anew(reading, policy)

    def read(self, pod: Json) -> PodQuestion | None:
        reading = self.reader.read(pod, TEAM, EffectivePolicy.of(self.cluster, self.policy))
        return reading if isinstance(reading, PodQuestion) else None

    def decided_anew(self, pod: PodQuestion, policy: ClusterPolicy) -> AdmissionDecision:
        return decided(pod, started(self.cluster), policy)

    def fresh(self) -> Scorer:
        """A scorer that starts now, and is given the cluster as it is known now."""
        scorer = Scorer()
        scorer.obey(self.policy)
        become(scorer.state.cluster, self.cluster)
        scorer.see(*self.pods.values())
        return scorer


def filtered(scorer: Scorer, pod: Json) -> tuple[Filtered, Mapping[str, NotEligible]]:
    """What each node answers, and why the pod may not use it."""
    pending = scorer.subject(pod)
    return scorer.nodes.filtered(NAMES, pending)[0], scorer.nodes.not_eligible(NAMES, pending)


def started(cluster: Cluster) -> ClusterCache:
    """A cache that starts with all that is known of a cluster."""
    unknown = {name: state.bare for name, state in cluster.states.items() if state.bare}
    return ClusterCache.of(cluster.nodes, cluster.known_shapes, unknown, cluster.left_out, cluster.pools)


def decided(pod: PodQuestion, cache: ClusterCache, policy: ClusterPolicy) -> AdmissionDecision:
    return admission.decide(pod, cache, policy.refusals(unknown_may_fit=True), now=NOW)


Stream.TestCase.settings = settings(stateful_step_count=40)
TestStream = Stream.TestCase
