"""
What one pod requests of a cluster, by itself, by its namespace and by the cluster's policy.

All programs answer from the same value. An exempt pod requests nothing, whatever it contains. A pod that is
not exempt and cannot be read is invalid, with all its errors.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from numalign.cache.question import Question
from numalign.decision import taints
from numalign.lru import is_large
from numalign.model.constraints import Constraints
from numalign.model.demand import Demand
from numalign.model.errors import Mistake
from numalign.model.intent import NamespaceRules, Policy

MOST_OWNERS = 512
"""The limit for one object; nearly all have one."""

MOST_SELECTED = 512
"""The limit of labels in one node selector; owners write a handful."""

MOST_TERMS = 512
"""The limit of node affinity terms, required or preferred; a patch has an operation for each."""

MOST_REQUIREMENTS = 1024
"""The limit for all required terms together."""

MOST_VALUES = 16384
"""The limit for all requirements together; some programs name thousands of nodes there."""

MOST_TOLERATIONS = 512
"""The limit for one pod; owners write a handful."""

MOST_CLAIMS = 16
"""The limit of resource claims whose names are kept of one pod."""


class StatedBy(StrEnum):
    """What requests alignment."""

    POD = "pod"
    NAMESPACE = "namespace"


class ExceededLimit(StrEnum):
    """The limits that a pod can exceed, as sentences."""

    OWNERS = f"it has more than {MOST_OWNERS} owners"
    SELECTOR = f"its node selector has more than {MOST_SELECTED} labels"
    TERMS = f"its node affinity has more than {MOST_TERMS} terms"
    REQUIREMENTS = f"its node affinity has more than {MOST_REQUIREMENTS} requirements"
    VALUES = f"its node affinity has more than {MOST_VALUES} values"
    TOLERATIONS = f"it has more than {MOST_TOLERATIONS} tolerations"
    SIZE = "its constraints on nodes are too large to be kept"


class PinReason(StrEnum):
    """What ties a pod to its node, as a sentence."""

    NODE_NAME = "spec.nodeName is set"
    DAEMON_SET = "a DaemonSet owns it"
    NODE_FIELD = "its node affinity names a node"


@dataclass(frozen=True, slots=True)
class Pin:
    """A pod that is placed already; `node` is None if it does not say where."""

    node: str | None
    why: PinReason


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """The request of one pod, and its origin.

    `question` has the intent, policy none if there is none (`by` is None then). With an `excess`, the nodes
    that it may use and what has placed it are not known, and it may go anywhere. `claims` are the names of
    its first resource claims, which provide DRA devices. `left_out` are the resources that some known kubelet
    could align, and the pod's annotation does not list.
    """

    question: Question
    constraints: Constraints
    rules: NamespaceRules
    namespace: str
    by: StatedBy | None
    pin: Pin | None
    excess: ExceededLimit | None
    claims: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def large(self) -> bool:
        """Whether it is too large to be cached by the thousand."""
        return self.question.large or is_large(self.namespace, self.constraints, self.pin, self.claims)

    @property
    def policy(self) -> Policy:
        """The requested policy; `none` without a request."""
        return self.question.intent.policy

    def requests_less_than(self, level: Policy) -> bool:
        """Return whether a pod that a kubelet would align requests less than this level."""
        less = not self.policy.at_least(level) or (self.left_out and level is not Policy.NONE)
        return self.question.demand.alignable and bool(less)

    def raised(self) -> "PodQuestion":
        """Return the request, raised to the level that the namespace enforces if it is below it.

        Admission denies such a pod: its annotations, or the level, were changed later.
        """
        level = self.rules.enforce
        if level is None or not self.requests_less_than(level):
            return self
        policy = self.policy if self.policy.at_least(level) else level
        intent = replace(self.question.intent, policy=policy, resources=())
        return replace(self, question=replace(self.question, intent=intent), left_out=())

    @property
    def stated(self) -> bool:
        """Whether any policy is set, `none` included."""
        return self.by is not None

    @property
    def requests_alignment(self) -> bool:
        """Whether any alignment is requested; `none` opts out as no setting does."""
        return self.policy is not Policy.NONE

    @property
    def opted_out(self) -> bool:
        """Whether the pod itself sets `none`."""
        return self.by is StatedBy.POD and not self.requests_alignment

    @property
    def silent(self) -> bool:
        """Whether neither it nor its namespace requests anything, and it tolerates no taint that does."""
        rules = self.rules
        asked = rules.enforce or rules.warn or rules.audit
        return self.by is None and not asked and not self._tolerates_taints

    @property
    def _tolerates_taints(self) -> bool:
        return any(toleration.key in taints.KEYS for toleration in self.constraints.tolerations)


@dataclass(frozen=True, slots=True)
class Exempt:
    """An exempt pod, and why.

    Its kubelet still aligns it, so its demand is kept; None if its containers cannot be read, with the
    `mistakes` in them, for which it is not refused.
    """

    reason: str
    demand: Demand | None
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """A pod with a request that cannot be read, with every mistake, each place once.

    `demand` is None if its containers cannot be read.
    """

    mistakes: tuple[Mistake, ...]
    demand: Demand | None
