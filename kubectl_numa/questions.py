"""
What one pod asks of a cluster, and what its webhook says to that.

Checking, explaining and the demo read a pod as the webhook does, and let the same function decide.
"""

from dataclasses import dataclass, field

from kubectl_numa.settings import DEFAULTS, Settings
from numalign.cache import Fleet, Question, admission
from numalign.cache.admission import AdmissionDecision, AdmissionState, Refusals
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion, StatedBy
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.decode.templates import TemplatePaths
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.constraints import Constraints
from numalign.model.demand import Demand
from numalign.model.errors import BadPod
from numalign.model.intent import Intent
from numalign.shapes import KnownShape

NOBODY = EffectivePolicy()
"""Of a cluster without namespaces and policy."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What questions are answered from.

    `fleet` are the nodes, `unknown` names those that publish no topology, `shapes` are all that are known,
    `served` the extended resources that DRA serves. `now` is the time of asking, in seconds since 1970.
    """

    fleet: Fleet
    unknown: tuple[str, ...] = ()
    shapes: tuple[KnownShape, ...] = ()
    policies: EffectivePolicy = NOBODY
    now: float = 0.0
    settings: Settings = DEFAULTS
    reader: PodReader = field(default_factory=PodReader)
    served: frozenset[str] = frozenset()

    @property
    def templates(self) -> TemplatePaths:
        """Kinds of workloads beside those that are always looked at."""
        return self.policies.policy.templates


@dataclass(frozen=True, slots=True)
class Asked:
    """One pod, read, and what the webhook says to it.

    `exempt` is why nobody looks at it; its kubelet aligns it all the same. `by` is None where nobody asks.
    """

    name: str
    namespace: str
    question: Question
    constraints: Constraints
    by: StatedBy | None
    decision: AdmissionDecision
    exempt: str | None = None

    @property
    def demand(self) -> Demand:
        """What its containers ask for."""
        return self.question.demand

    @property
    def intent(self) -> Intent | None:
        """How it wants to be aligned; None where nobody asks for that."""
        return self.question.intent if self.by else None


def cluster(
    found: Snapshot,
    policy: ClusterPolicy = NO_POLICY,
    settings: Settings = DEFAULTS,
    *,
    now: float = 0.0,
) -> Cluster:
    """The nodes and rules of a snapshot, ready to be asked at a time in seconds since 1970."""
    fleet = Fleet(found.nodes, found.shapes, found.bare)
    policies = EffectivePolicy.of(found, policy)
    reader = PodReader(settings.match)
    return Cluster(fleet, found.unknown, found.shapes, policies, now, settings, reader, found.served)


def ask(raw: object, cluster: Cluster, *, name: str, namespace: str) -> Asked:
    """What a pod asks, or a template of one, and what is said to it.

    Raises `BadPod` with every mistake, those that the API server would refuse whoever asks included.
    """
    user = cluster.settings.user
    found = cluster.reader.read(raw, namespace, cluster.policies, user)
    match found:
        case PodQuestion():
            decision = admission.decide(
                found, cluster.fleet, _refusals(cluster), now=cluster.now, served=cluster.served
            )
            return Asked(name, namespace, found.question, found.constraints, found.by, decision)
        case Exempt(reason, Demand() as demand):
            question = Question(demand, NO_INTENT)
            where = scheduling(raw).constraints
            return Asked(name, namespace, question, where, None, NOT_LOOKED_AT, reason)
        case Exempt() | Invalid():
            raise BadPod(found.mistakes)


NOT_LOOKED_AT = AdmissionDecision(AdmissionState.NOT_ASKED)
"""What is said to a pod that is exempt."""


def _refusals(cluster: Cluster) -> Refusals:
    """When a pod is refused for the shapes that there are."""
    policy = cluster.policies.policy
    return Refusals(policy.never, policy.unknown_resources, cluster.settings.unknown_may_fit)
