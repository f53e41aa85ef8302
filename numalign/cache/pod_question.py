"""
What one pod asks of a cluster, by itself, by its namespace and by the cluster's policy.

Every program answers from the same value. An exempt pod requests nothing, whatever it contains. A pod that
is not exempt and cannot be read is invalid, with all its errors.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from numalign.cache.question import Question
from numalign.decision import taints
from numalign.memory_size import weight
from numalign.model.constraints import Constraints
from numalign.model.demand import Demand
from numalign.model.errors import Mistake
from numalign.model.intent import NamespaceRules, Policy

MOST_OWNERS = 512
"""Of one object; nearly all have one."""

MOST_SELECTED = 512
"""Labels in one node selector; owners write a handful."""

MOST_TERMS = 512
"""Of node affinity, required or preferred; owners write a handful, and a patch has an operation for each."""

MOST_REQUIREMENTS = 1024
"""Of all required terms together."""

MOST_VALUES = 16384
"""Of all requirements together; some programs name thousands of nodes there."""

MOST_TOLERATIONS = 512
"""Of one pod; owners write a handful."""

MOST_CLAIMS = 16
"""Names of resource claims that are kept of one pod."""


class StatedBy(StrEnum):
    """Who asks for alignment."""

    POD = "pod"
    NAMESPACE = "namespace"


class ExceededLimit(StrEnum):
    """What there is too much of in a pod, as a person would say it."""

    OWNERS = f"it has more than {MOST_OWNERS} owners"
    SELECTOR = f"its node selector has more than {MOST_SELECTED} labels"
    TERMS = f"its node affinity has more than {MOST_TERMS} terms"
    REQUIREMENTS = f"its node affinity has more than {MOST_REQUIREMENTS} requirements"
    VALUES = f"its node affinity has more than {MOST_VALUES} values"
    TOLERATIONS = f"it has more than {MOST_TOLERATIONS} tolerations"


class PinReason(StrEnum):
    """What ties a pod to its node, as a person would say it."""

    NODE_NAME = "spec.nodeName is set"
    DAEMON_SET = "a DaemonSet owns it"
    NODE_FIELD = "its node affinity names a node"


@dataclass(frozen=True, slots=True)
class Pin:
    """A pod that somebody else has placed; `node` is None where the pod does not say which one."""

    node: str | None
    why: PinReason


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """What one pod asks, and who asks it.

    `question` carries the intent, policy none where nobody states one (`by` is None then). Where there is an
    `excess`, nothing is known of the nodes that it may go to, nor who has placed it, and it may go anywhere.
    `claims` are the names of its first resource claims, which devices of DRA come by.
    """

    question: Question
    constraints: Constraints
    rules: NamespaceRules
    namespace: str
    by: StatedBy | None
    pin: Pin | None
    excess: ExceededLimit | None
    claims: tuple[str, ...] = ()
    _weight: int = field(init=False, compare=False, repr=False, default=0)

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory, worked out when somebody asks for the first time."""
        if not self._weight:
            mine = weight(self.namespace, self.constraints, self.pin, self.claims)
            object.__setattr__(self, "_weight", self.question.weight + mine)
        return self._weight

    @property
    def policy(self) -> Policy:
        """What is asked for; `none` where nobody asks."""
        return self.question.intent.policy

    @property
    def stated(self) -> bool:
        """Whether anybody states a policy, `none` included."""
        return self.by is not None

    @property
    def asks(self) -> bool:
        """Whether any alignment is asked for; `none` opts out like silence."""
        return self.policy is not Policy.NONE

    @property
    def opted_out(self) -> bool:
        """Whether the pod itself says `none`."""
        return self.by is StatedBy.POD and not self.asks

    @property
    def silent(self) -> bool:
        """Whether neither it nor its namespace asks for anything, and it tolerates no taint that does."""
        rules = self.rules
        asked = rules.enforce or rules.warn or rules.audit
        return self.by is None and not asked and not self._tolerates_taints

    @property
    def _tolerates_taints(self) -> bool:
        return any(toleration.key in taints.KEYS for toleration in self.constraints.tolerations)


@dataclass(frozen=True, slots=True)
class Exempt:
    """A pod that numalign leaves alone, and why.

    Its kubelet aligns it all the same, so its demand is told; None if its containers cannot be read, with the
    `mistakes` in them, for which nobody is refused here.
    """

    reason: str
    demand: Demand | None
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """A pod of which something is asked and that cannot be read, with every mistake, each place once.

    `demand` is None if its containers cannot be read.
    """

    mistakes: tuple[Mistake, ...]
    demand: Demand | None
