"""
How every node evaluates one pod, as values to be drawn.

Nodes with the same answer form one group, because that is easier to read.
`numalign.scheduling.node_explanation` makes the answer of one node.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kubectl_numa.questions import ClusterView, PodDecision
from numalign.cache.admission import waits_text
from numalign.decision import wording
from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import Strategy
from numalign.decision.verdict import Verdict
from numalign.kube.decode.recreated import without_classes
from numalign.ledger.claims import exclusive_cpus
from numalign.model.constraints import Unmet
from numalign.model.intent import Exclusive, Policy
from numalign.model.resources import quantities
from numalign.scheduling.cpu_quota import CpuQuota
from numalign.scheduling.node_explanation import PLACES, Chance, NodeExplanation, Rules, current_answers
from numalign.scheduling.rejected_pods import RejectedPod
from numalign.scheduling.scheduler_state import SchedulerState
from numalign.shapes import KnownShape, Pool

PRESENT, REMEMBERED, DECLARED = "present", "remembered", "declared"
"""How a shape is known: by nodes that are present, by nodes of the past, or by the policy file."""


@dataclass(frozen=True, slots=True)
class ShapeAnswer:
    """The answer of a shape without nodes; `unmet` is why the pod may not run on nodes of it."""

    known: KnownShape
    verdict: Verdict
    unmet: Unmet | None

    @property
    def chance(self) -> Chance:
        """Return the verdict in a word: nothing fits on a node that does not exist."""
        if not self.verdict.answered:
            return Chance.UNANSWERED
        return Chance.NEVER if self.unmet or self.verdict.refused else Chance.LATER

    @property
    def reason(self) -> str | None:
        """Return why it never fits, in one sentence without a full stop."""
        if self.unmet:
            return f"its nodes {self.unmet}"
        return wording.sentence(self.verdict) if self.verdict.refusal else None

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        return {
            "name": self.known.shape.name,
            "class": self.known.shape.node_class,
            **provenance(self.known),
            "verdict": self.chance,
            "reason": self.reason,
            "unmet": self.unmet,
        }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same answer, by name; `answer` is that of the first one.

    They are of one class, unless their labels or taints keep the pod away.
    """

    answer: NodeExplanation
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All answers for one pod, by node name, and those of shapes without nodes.

    `remarks` are warnings of `kubectl numa` itself. `bare` counts the nodes without a topology that may take
    the pod, as far as known. If the answers are `incomplete`, nodes that are not remembered may take it, too,
    and so may other nodes of a pool that `may_grow`.
    `rejected` is set for a pod that a kubelet rejected. `never` is why no node could ever run a pod that
    requests no alignment, which the webhook does not deny. `room` is what it would take for the pod to fit,
    in words, if it fits nowhere now but could later. `quota` is the limit of exclusive CPUs of its namespace
    and what its other pods use of it, None without a limit and for a pod on a node. The scores are those of
    the `strategy`.
    """

    pod: PodDecision
    answers: tuple[NodeExplanation, ...]
    absent: tuple[ShapeAnswer, ...]
    unknown: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    bare: int = 0
    incomplete: bool = False
    may_grow: Pool | None = None
    rejected: RejectedPod | None = None
    never: str | None = None
    room: str | None = None
    quota: CpuQuota | None = None
    strategy: Strategy = Strategy.LEAST_NUMA_NODES

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return all warnings for the pod's owner."""
        warnings = (*self.remarks, *self.pod.decision.all_warnings)
        if not self.count(Chance.FITS):
            return warnings
        # The decision is the webhook's, which sees no pods; what they hold may be free again.
        waits = waits_text(self.pod.question.intent.policy)
        return tuple(warning for warning in warnings if warning != waits)

    @property
    def only_later(self) -> bool:
        """Return whether some nodes could take the pod, and none has room now."""
        return not self.count(Chance.FITS) and self.count(Chance.LATER) > 0

    @property
    def hopeless(self) -> bool:
        """Return whether all nodes and shapes refuse the pod for good.

        A node that is excluded by the pod's constraints has no reason of its own, so it does not count.
        """
        refusing = [answer.permanent and not answer.lasting for answer in self.answers]
        gone = all(each.chance is Chance.NEVER for each in self.absent)
        return (
            bool(refusing) and all(refusing) and gone and not (self.bare or self.incomplete or self.may_grow)
        )

    @property
    def over_quota(self) -> str:
        """Return why it has to wait for the quota of its namespace, in words; empty if it has not.

        That is so if the quota excludes all nodes that would fit or, if none does, all that could later.
        """
        able = [answer for answer in self.answers if answer.chance is not Chance.NEVER]
        fitting = [answer for answer in able if answer.chance is Chance.FITS]
        if self.quota is None or not able:
            return ""
        cpus = min(exclusive_cpus(answer.node, self.pod.demand) for answer in fitting or able)
        return self.quota.why_not(cpus)

    def count(self, chance: Chance) -> int:
        """Return the number of nodes with this answer."""
        return sum(answer.chance is chance for answer in self.answers)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation for programs."""
        pod, intent, demand = self.pod, self.pod.intent, self.pod.demand
        return {
            "pod": pod.name,
            "namespace": pod.namespace or None,
            "rejected": self.rejected and self.rejected.to_json(),
            "exempt": pod.exempt,
            "scheduler": pod.scheduler,
            "gate": pod.gate,
            "intent": intent
            and {
                "policy": intent.policy,
                "resources": list(intent.resources),
                "scope": intent.scope,
                "exclusive": Exclusive.ZONE if intent.exclusive else None,
                "from": pod.by,
            },
            "demand": {
                "qos": demand.qos,
                "containers": [
                    {
                        "name": step.container,
                        "role": step.role,
                        "asks": quantities(step.requests),
                        "notPinned": list(step.loose),
                    }
                    for step in demand.steps
                ],
                "total": quantities(demand.total),
            },
            "nodes": [answer.to_json() for answer in self.answers],
            "shapes": [answer.to_json() for answer in self.absent],
            "unknown": list(self.unknown),
            "refusal": pod.decision.refusal,
            "never": self.never,
            "room": self.room,
            "quota": self.quota
            and {
                "used": self.quota.used,
                "requested": pod.demand.exclusive_cpus,
                "limit": self.quota.limit,
                "waits": bool(self.over_quota),
            },
            "warnings": list(self.warnings),
        }


def explain(
    pod: PodDecision,
    cluster: ClusterView,
    state: SchedulerState,
    *,
    strategy: Strategy = Strategy.LEAST_NUMA_NODES,
    uid: str = "",
) -> Explanation:
    """Evaluate the pod on every node of the cluster, beside the pods in its `state`.

    A node that could never take the pod says why, even if the webhook has excluded its class since. The pod
    with this `uid`, if it exists, is evaluated as if it were not among them.
    """
    question, everywhere = cluster.by_node(pod), without_classes(pod.constraints)
    current = current_answers(state, question, pod.constraints, strategy=strategy, uid=uid)
    rules = Rules(question)
    explained = (current.explanation(at, rules) for at in range(len(current.nodes)))
    answers = tuple(sorted(explained, key=lambda answer: answer.node.name))
    evaluated = (
        (shape, evaluate(shape.shape.node, question.demand, question.intent))
        for shape in cluster.cluster.known_shapes
        if not shape.nodes
    )
    absent = tuple(
        ShapeAnswer(shape, verdict, shape.shape.unmet(everywhere if verdict.refused else pod.constraints))
        for shape, verdict in evaluated
    )
    survey = cluster.ever(pod)
    explanation = Explanation(
        pod,
        answers,
        absent,
        cluster.cluster.unknown,
        remarks=tuple(filter(None, [cluster.kept_away(pod)])),
        bare=survey.bare,
        incomplete=survey.incomplete,
        may_grow=survey.may_grow,
        quota=None if state.is_placed(uid) else state.quota(pod.namespace, without=(uid,)),
        strategy=strategy,
    )
    if explanation.hopeless and pod.question.intent.policy is Policy.NONE:
        return replace(explanation, never=why_never(pod, cluster))
    return explanation


def why_never(pod: PodDecision, cluster: ClusterView) -> str:
    """Return why no node could ever run a pod; raise `ValueError` if nothing refuses it."""
    return cluster.why_not(replace(pod, constraints=without_classes(pod.constraints)))


def groups(answers: Iterable[NodeExplanation]) -> Iterator[NodeGroup]:
    """Group answers that differ only in the node's name; yield the best first.

    The rules are evaluated for a group only when its turn comes.
    """
    # The place of the chance, then the score, then the class, where it matters.
    ranked = defaultdict[tuple[int, int, str], list[NodeExplanation]](list)
    for answer in answers:
        node_class = "" if answer.lasting else answer.node_class
        ranked[PLACES[answer.chance], -(answer.score or 0), node_class].append(answer)
    for _, equal in sorted(ranked.items()):
        alike = defaultdict[object, list[NodeExplanation]](list)
        for answer in equal:
            alike[answer.reason, repr(answer.placement)].append(answer)
        same = [NodeGroup(group[0], tuple(each.node.name for each in group)) for group in alike.values()]
        yield from sorted(same, key=lambda group: group.names)


def provenance(shape: KnownShape) -> dict[str, Any]:
    """Return how a shape is known, for programs, and when its last node was present."""
    last_seen = None if shape.seen is None else datetime.fromtimestamp(shape.seen, UTC).isoformat()
    if shape.nodes:
        return {"known": PRESENT, "lastSeen": last_seen}
    return {"known": DECLARED if shape.declared else REMEMBERED, "lastSeen": last_seen}
