"""
Yes or no for one pod on one node, and everything that made it so.

A verdict is never a bare boolean. It says who refused and why, whether the empty node would refuse as well,
what each zone lacks, and which zones the pod would get. Sentences are made of these fields when someone
asks (`wording`), never stored.
"""

from dataclasses import dataclass
from enum import StrEnum

from numalign.decision.doubts import Doubt
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Policy
from numalign.model.node import Known
from numalign.model.placement import Placement
from numalign.model.pod import Role
from numalign.model.resources import ZoneId


class Refuser(StrEnum):
    """Who says no: the node as a whole, its kubelet, or an intent; nobody, if nobody was asked.

    The intent is the pod's own, or that of a pod that has zones of the node to itself.
    """

    NODE = "node"
    KUBELET = "kubelet"
    INTENT = "intent"
    NOBODY = "nobody"


class Cause(StrEnum):
    """What a refusal comes down to.

    For a new one: decide it in `evaluate`, put it into words in the one table of `wording`, whose order ranks
    causes as well, and tell its rows apart in `numalign.cache.batch_refusals`, where columns restate it.
    Nothing else knows causes one by one.
    """

    NODE_TOO_SMALL = "node-too-small"
    ZONES_TOO_SMALL = "zones-too-small"
    WIDTHS_DIFFER = "widths-differ"
    NOT_TOGETHER = "not-together"
    SPREAD = "spread"
    NOT_ALLOCATED = "not-allocated"
    NOT_WHOLE_CORES = "not-whole-cores"
    NOTHING_TO_SHARE = "nothing-to-share"
    NOT_EXCLUSIVE = "not-exclusive"
    NOT_ALIGNED = "not-aligned"
    OTHER_POLICY = "other-policy"
    NOT_ALONE = "not-alone"
    """It is to have its zones to itself, and others with an intent are there."""
    NOT_SHARED = "not-shared"
    """Another pod has the zones to itself."""
    NOT_ANSWERED = "not-answered"
    """It would take too long to say; neither a yes nor a no."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one resource takes: `asked` of it in at most `zones` zones, which can give `most` together."""

    resource: str
    asked: int
    zones: int
    most: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource that one zone cannot give, in the unit of its name."""

    zone: ZoneId
    zone_name: str
    resource: str
    asked: int
    free: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not: `reason` as the pod's status or our own answer names it, `policy` the one not satisfied.

    `container` is empty where the pod as a whole is refused; `beside` says that there would be more if
    earlier containers of the pod did not hold it. `detail` names what `cause` turns on: the node's policy,
    why a resource is not pinned, or the size of a core that is broken. `zones` are the names of those that
    hold other pods.
    """

    refuser: Refuser
    reason: str
    cause: Cause
    policy: Policy
    container: str = WHOLE_POD
    role: Role = Role.APP
    needs: tuple[Need, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    detail: str = ""
    beside: bool = False
    zones: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """What is refused: the pod, or one of its containers by name."""
        return "the pod" if self.container == WHOLE_POD else f'{self.role} "{self.container}"'


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one pod on one node.

    `permanent` means that the node would refuse it with nothing on it as well. `known` says what the verdict
    rests on, and `doubts` what could make it wrong. A verdict has no truth value: ask for `admitted`. One
    that is not `answered` promises nothing, and nothing may be refused for it.
    """

    refusal: Refusal | None
    permanent: bool
    placement: Placement
    known: Known
    doubts: tuple[Doubt, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether the kubelet would take the pod and the intent be kept."""
        return self.refusal is None

    @property
    def answered(self) -> bool:
        """Whether it was worked out what becomes of the pod (`kubelet.work_limit`)."""
        return self.refusal is None or self.refusal.cause is not Cause.NOT_ANSWERED

    @property
    def refused(self) -> bool:
        """Whether the pod is refused, which is known."""
        return self.answered and not self.admitted

    def __bool__(self) -> bool:
        """Refuse to be mistaken for a yes."""
        raise TypeError("a verdict is not a boolean: ask for .admitted")
