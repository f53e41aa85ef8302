"""
The verdict on one pod on one node, with all its reasons.

A verdict is never a bare boolean. It has the refuser and the cause, whether the empty node would refuse as
well, what each zone lacks, and which zones the pod would get. Sentences are built from these fields on demand
(`wording`), never stored.
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
    """What refuses: the node as a whole, its kubelet, or an intent; nobody if it is not answered.

    The intent is the pod's own, or that of a pod with exclusive zones on the node.
    """

    NODE = "node"
    KUBELET = "kubelet"
    INTENT = "intent"
    NOBODY = "nobody"


class Cause(StrEnum):
    """The cause of a refusal.

    To add one: decide it in `evaluate`, put it into words in the table of `wording`, whose order also ranks
    causes, and distinguish its rows in `numalign.cache.batch_refusals`, where columns restate it. No other
    code handles causes one by one.
    """

    NODE_TOO_SMALL = "node-too-small"
    ZONES_TOO_SMALL = "zones-too-small"
    WIDTHS_DIFFER = "widths-differ"
    NOT_TOGETHER = "not-together"
    SPREAD = "spread"
    NOT_ALLOCATED = "not-allocated"
    NOT_WHOLE_CORES = "not-whole-cores"
    NOTHING_TO_SHARE = "nothing-to-share"
    NO_SUCH_ZONE = "no-such-zone"
    """A device plugin reports a zone that does not exist, so the kubelet has no hint for the resource."""
    NOT_EXCLUSIVE = "not-exclusive"
    NOT_ALIGNED = "not-aligned"
    OTHER_POLICY = "other-policy"
    NOT_ALONE = "not-alone"
    """The pod is exclusive, and other pods with an intent are in its zones."""
    NOT_SHARED = "not-shared"
    """Another pod has the zones exclusively."""
    NOT_ANSWERED = "not-answered"
    """The verdict would take too long; neither a yes nor a no."""


@dataclass(frozen=True, slots=True)
class Need:
    """A request for one resource: `asked` in at most `zones` zones, which have at most `most` together.

    Of a request to the node as a whole, `overhead` is the part that the RuntimeClass adds.
    """

    resource: str
    asked: int
    zones: int
    most: int
    overhead: int = 0


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource that one zone cannot provide, in the unit of its name."""

    zone: ZoneId
    zone_name: str
    resource: str
    asked: int
    free: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal: `reason` as in the pod's status or from numalign, `policy` is the one not satisfied.

    `container` is empty if the pod as a whole is refused; `beside` means that there would be more if earlier
    containers of the pod did not hold it. `detail` depends on `cause`: the node's policy, why a resource is
    not pinned, or the size of a core that would be split. `zones` are the names of those that hold other
    pods, or the CPUs of an init container that the container has to reuse, although it would fit elsewhere;
    `reused` is the name of that init container.
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
    reused: str = ""

    @property
    def subject(self) -> str:
        """What is refused: the pod, or one of its containers by name."""
        return "the pod" if self.container == WHOLE_POD else f'{self.role} "{self.container}"'


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one pod on one node.

    `permanent` means that no state of the node would admit it, `not_when_empty` that only a state would in
    which other pods run. `known` is what the verdict rests on, and `doubts` what could make it wrong. A
    verdict has no truth value: use `admitted`. One that is not `answered` guarantees nothing, and no pod may
    be refused for it.
    """

    refusal: Refusal | None
    permanent: bool
    placement: Placement
    known: Known
    doubts: tuple[Doubt, ...] = ()
    not_when_empty: bool = False

    @property
    def admitted(self) -> bool:
        """Whether the kubelet would admit the pod and its intent would be satisfied."""
        return self.refusal is None

    @property
    def answered(self) -> bool:
        """Whether the verdict was computed (`kubelet.work_limit`)."""
        return self.refusal is None or self.refusal.cause is not Cause.NOT_ANSWERED

    @property
    def refused(self) -> bool:
        """Whether the pod is certainly refused."""
        return self.answered and not self.admitted

    def __bool__(self) -> bool:
        """Raise `TypeError`, so that a verdict is not mistaken for a yes."""
        raise TypeError("a verdict is not a boolean: ask for .admitted")
