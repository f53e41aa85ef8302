"""
What a pod requests of a cluster, and what its webhook decides.

Checking, explaining and the demo read a pod as the webhook does, and decide with the same functions. Only
this module uses the cache.
"""

from dataclasses import dataclass, replace
from functools import partial

from numalign.cache import Question, Survey, admission, dra
from numalign.cache.admission import AdmissionDecision, AdmissionState
from numalign.cache.pod_question import Exempt, PodQuestion, StatedBy
from numalign.decision import unmatched, wording
from numalign.decision.evaluate import NO_INTENT
from numalign.kube import admission_caches, exporters, routing
from numalign.kube.cluster import Cluster
from numalign.kube.decode import pods
from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import first_of_each_place
from numalign.kube.decode.recreated import without_classes
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.exporters import ExporterHealth
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.constraints import Constraints
from numalign.model.demand import Demand
from numalign.model.errors import BadPod
from numalign.model.intent import Intent, Match, Policy
from numalign.model.node import Node
from numalign.scheduling.running_pods import RunningPodJudge
from numalign.shapes.history import REMEMBER_SECONDS


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The settings of the webhook that affect decisions about pods, under its own names.

    `policy` is a file. Shapes are remembered for `remember` seconds. `created_by` is the user who creates the
    pods.
    """

    policy: str | None = None
    match: Match = Match.SATISFIES
    unknown_may_fit: bool = True
    remember: float = REMEMBER_SECONDS
    created_by: str = ""


DEFAULTS = WebhookOptions()
"""Those of an installed webhook unless its settings change them."""


@dataclass(frozen=True, slots=True)
class PodDecision:
    """One pod as read, and what the webhook decides.

    `exempt` is why the webhook does not check it; its kubelet aligns it all the same. `by` is None if neither
    the pod nor its namespace requests alignment. `scheduler` is the one that it is assigned to when it is
    created, `gate` the scheduling gate that it then gets, if the webhook runs with `--gates`.
    """

    name: str
    namespace: str
    question: Question
    constraints: Constraints
    by: StatedBy | None
    decision: AdmissionDecision
    exempt: str | None = None
    scheduler: str | None = None
    gate: str | None = None

    @property
    def demand(self) -> Demand:
        """Return what its containers request."""
        return self.question.demand

    @property
    def intent(self) -> Intent | None:
        """Return how it is to be aligned; None if neither it nor its namespace requests alignment."""
        return self.question.intent if self.by else None

    @property
    def handed_over(self) -> str:
        """Return what places it, in words; "" if that is the scheduler that it names."""
        if self.scheduler:
            return f"assigned to the scheduler {self.scheduler} by its namespace"
        return (
            f"held by the scheduling gate {self.gate} if the webhook runs with --gates" if self.gate else ""
        )


class ClusterView:
    """A cluster as its webhook sees it at a time, in seconds since 1970.

    `seen` is the time of its state, if that is not `now`.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: ClusterPolicy = NO_POLICY,
        options: WebhookOptions = DEFAULTS,
        *,
        now: float = 0.0,
        seen: float | None = None,
    ) -> None:
        self.cluster, self.policy, self.now = cluster, policy, now
        self.seen = now if seen is None else seen
        self.policies = EffectivePolicy.of(cluster, policy)
        self._cache = admission_caches.of(cluster)
        self._reader, self._user = PodReader(options.match), options.created_by
        self._refusals = policy.refusals(unknown_may_fit=options.unknown_may_fit)

    def decide(self, raw: object, *, name: str, namespace: str) -> PodDecision:
        """Return what a pod, or a pod template, requests, and what is decided.

        Raise `BadPod` with every mistake, including those that the API server itself would reject.
        """
        server = None if Part(raw)["metadata"]["uid"].value else self.cluster.server
        pod = self._reader.read(raw, namespace, self.policies, self._user, server=server)
        rejected = pods.api_mistakes(raw, self._cache.listed)
        match pod:
            case PodQuestion() if not rejected:
                decision, placers = self._decided(pod), self._placers(raw, pod)
                placed = self.policies.placed(pod)
                return PodDecision(
                    name, namespace, placed.question, pod.constraints, pod.by, decision, **placers
                )
            case Exempt(reason, Demand() as demand) if not rejected:
                question, constraints = Question(demand, NO_INTENT), scheduling(raw).constraints
                decision = AdmissionDecision(AdmissionState.NOT_ASKED)
                return PodDecision(name, namespace, question, constraints, None, decision, reason)
            case _:
                own = () if isinstance(pod, PodQuestion) else pod.mistakes
                raise BadPod(first_of_each_place(own, rejected))

    def _decided(self, pod: PodQuestion, *, runs: bool = False) -> AdmissionDecision:
        decide = partial(
            admission.decide,
            cache=self._cache,
            refusals=self._refusals,
            now=self.now,
            served=self.cluster.served,
            runs=runs,
        )
        decision, constraints = decide(pod), without_classes(pod.constraints)
        if constraints == pod.constraints:
            return decision
        # The webhook itself keeps a pod that exists off classes, which is no reason for its owner.
        unpatched = decide(replace(pod, constraints=constraints))
        return unpatched if unpatched.refusal else decision

    def judge(self) -> RunningPodJudge:
        """Return the judge of running pods for this cluster and its policy."""
        return RunningPodJudge(self._reader, self.policies, partial(self._decided, runs=True), self._user)

    def _placers(self, raw: object, pod: PodQuestion) -> dict[str, str | None]:
        """Return the scheduler that a pod is assigned to when it is created, or else the gate that it gets.

        A pod that exists keeps its scheduler; one that no node could ever run gets no gate.
        """
        part = Part(raw)
        spec = part["spec"].value
        if pod.excess or part["metadata"]["uid"].value or not isinstance(spec, dict):
            return {}
        gate = routing.gate(spec, pod)
        could_fit = gate and self._cache.ever(dra.sure(pod.question, self.cluster.served)).feasible
        return {"scheduler": routing.scheduler(spec, pod), "gate": gate if could_fit else None}

    def exporter(self, node: Node) -> ExporterHealth:
        """Return what publishes the topology of a node, and how old it was at the time of the state."""
        return exporters.of_node(self.cluster, node.name, now=self.seen)

    def ever(self, pod: PodDecision) -> Survey:
        """Return how the nodes evaluate a pod when they are healthy and empty."""
        return self._cache.ever(dra.sure(pod.question, self.cluster.served), pod.constraints)

    def kept_away(self, pod: PodDecision) -> str | None:
        """Return why the pod may use no known node, such as labels that none has; None if it may use one."""
        states = self.cluster.states.items()
        every = {name: node for name, state in states if (node := state.node or state.bare)}
        labels = {name: node.attributes.labels for name, node in every.items()}
        pod = replace(pod, constraints=without_classes(pod.constraints))
        if not labels or not self.ever(pod).unmatched:
            return None
        if lacks := unmatched.lacking(pod.constraints, labels):
            return f"no node has {lacks}"
        if not any(pod.constraints.run_on(node.attributes.os) for node in every.values()):
            return f"no node has the operating system {pod.constraints.os}"
        if any(pod.constraints.select(name, own) for name, own in labels.items()):
            return "it does not tolerate the taints of the nodes that it selects"
        return "no node has all labels that its node selector and affinity require"

    def never(self, pod: PodDecision) -> str | None:
        """Return why no node could ever run a pod that requests no alignment, and so is not denied."""
        survey = self.ever(pod)
        may = survey.able or survey.fallback or survey.bare or survey.incomplete or survey.may_grow
        if may or pod.question.intent.policy is not Policy.NONE:
            return None
        return wording.first_sentence(self.why_not(pod)) or None

    def by_node(self, pod: PodDecision) -> Question:
        """Return what a pod requests of each node, as the scorer asks it."""
        return dra.by_node(pod.question, self.cluster.served)

    def why_not(self, pod: PodDecision) -> str:
        """Return why no node could ever take a pod."""
        return self._cache.why_not(self.by_node(pod), pod.constraints)
