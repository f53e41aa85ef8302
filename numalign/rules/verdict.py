"""
Yes or no for one pod on one node, and everything that made it so.

A verdict is never a bare boolean. It says who refused and why, whether the empty node would refuse as well,
what each zone lacks, and which zones the pod would get. Sentences are built from these fields when someone
asks, never stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from numalign.rules.demand import WHOLE_POD
from numalign.rules.doubt import Doubt
from numalign.rules.intent import Policy
from numalign.rules.placement import Placement
from numalign.rules.pod import Role
from numalign.rules.resources import ZoneId, render
from numalign.rules.topology import Known


class Refuser(StrEnum):
    """Who says no: the node as a whole, its kubelet, or the pod's own intent; nobody, if nobody was asked."""

    NODE = "node"
    KUBELET = "kubelet"
    INTENT = "intent"
    NOBODY = "nobody"


class Cause(StrEnum):
    """What the refusal comes down to."""

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

    def __str__(self) -> str:
        """The shortage in words."""
        asked, free = render(self.resource, self.asked), render(self.resource, self.free)
        return f"{self.zone_name}: {self.resource} {asked} asked, {free} free"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not: `reason` as the pod's status or our own answer names it, `policy` the one not satisfied.

    `container` is empty where the pod as a whole is refused; `beside` says that there would be more if
    earlier containers of the pod did not hold it. `detail` names what `cause` turns on: the node's policy,
    why a resource is not pinned, the size of a core that is broken, or the zones that are too many to say.
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

    def __str__(self) -> str:
        """One sentence without a full stop, as it follows `no node can align`."""
        return _SENTENCES[self.cause](self)

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
        """Whether it was worked out what becomes of the pod (`kubelet.work`)."""
        return self.refusal is None or self.refusal.cause is not Cause.NOT_ANSWERED

    @property
    def refused(self) -> bool:
        """Whether the pod is refused, which is known."""
        return self.answered and not self.admitted

    def __bool__(self) -> bool:
        """Refuse to be mistaken for a yes."""
        raise TypeError("a verdict is not a boolean: ask for .admitted")


def _too_small(refusal: Refusal) -> str:
    """What is short, gathered by the number of zones that it may be spread over."""
    lacking = [need for need in refusal.needs if need.most < need.asked]
    widths = sorted({need.zones for need in lacking})
    left = " left beside the pod's other containers" if refusal.beside else ""
    return f"{refusal.policy} needs {_list([_short_in(lacking, zones, left) for zones in widths])}"


def _short_in(lacking: list[Need], zones: int, left: str) -> str:
    here = [need for need in lacking if need.zones == zones]
    asked = _list([_amount(need.resource, need.asked) for need in here])
    most = _list([render(need.resource, need.most) for need in here])
    where = "any zone has" if zones == 1 else f"any {zones} zones have"
    return f"{asked} in {_zones(zones)}; the most {where}{left} is {most}"


def _widths_differ(refusal: Refusal) -> str:
    takes = _list(
        [f"{_amount(need.resource, need.asked)} takes {_zones(need.zones)}" for need in refusal.needs]
    )
    return f"{refusal.policy} needs the same zones for all resources; {takes}"


def _not_together(refusal: Refusal) -> str:
    asked = _list([_amount(need.resource, need.asked) for need in refusal.needs])
    zones = min((need.zones for need in refusal.needs), default=1)
    return f"{refusal.policy} needs {asked} in {_zones(zones)}; no {_set(zones)} has all of it"


def _spread(refusal: Refusal) -> str:
    asked = _list([_amount(need.resource, need.asked) for need in refusal.needs])
    zones = min((need.zones for need in refusal.needs), default=1)
    return f"{refusal.policy} needs {asked} in {_zones(zones)}; the kubelet would spread it further"


def _node_too_small(refusal: Refusal) -> str:
    return "; ".join(_node_lacks(need) for need in refusal.needs)


def _node_lacks(need: Need) -> str:
    has = f"has {render(need.resource, need.most)}" if need.most else "has none"
    return f"asks for {_amount(need.resource, need.asked)} and the node {has}"


def _not_allocated(refusal: Refusal) -> str:
    asked = _list([_amount(need.resource, need.asked) for need in refusal.needs])
    return f"the kubelet cannot allocate {asked}, and fails the pod under every policy"


def _not_whole_cores(refusal: Refusal) -> str:
    asked = _list([_amount(need.resource, need.asked) for need in refusal.needs])
    if refusal.detail:
        return f"the kubelet gives out whole cores, {refusal.detail} CPUs each, and {asked} breaks one"
    left = _list([render(need.resource, need.most) for need in refusal.needs])
    return f"the kubelet gives out whole cores; {asked} is asked, and {left} is free in cores that are whole"


def _nothing_to_share(refusal: Refusal) -> str:
    short = _list([need.resource for need in refusal.needs])
    return f"containers with resources of their own leave no {short} of the pod's to the others"


def _not_exclusive(refusal: Refusal) -> str:
    named = _list([need.resource for need in refusal.needs])
    return f"{refusal.policy} of {named} cannot be kept: {refusal.detail}"


def _not_aligned(refusal: Refusal) -> str:
    return f"{refusal.policy} cannot be kept where {refusal.detail}"


def _other_policy(refusal: Refusal) -> str:
    return f'{refusal.policy} must be the node\'s own policy, which is "{refusal.detail}"'


def _not_answered(refusal: Refusal) -> str:
    return f"on {refusal.detail} it takes too long to work out what becomes of {refusal.subject}"


def _amount(resource: str, amount: int) -> str:
    return f"{render(resource, amount)} {resource}"


def _zones(count: int) -> str:
    return "one zone" if count == 1 else f"{count} zones"


def _set(count: int) -> str:
    return "zone" if count == 1 else f"set of {count} zones"


def _list(parts: list[str]) -> str:
    """Words as a person lists them."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


_SENTENCES: Mapping[Cause, Callable[[Refusal], str]] = MappingProxyType(
    {
        Cause.NODE_TOO_SMALL: _node_too_small,
        Cause.ZONES_TOO_SMALL: _too_small,
        Cause.WIDTHS_DIFFER: _widths_differ,
        Cause.NOT_TOGETHER: _not_together,
        Cause.SPREAD: _spread,
        Cause.NOT_ALLOCATED: _not_allocated,
        Cause.NOT_WHOLE_CORES: _not_whole_cores,
        Cause.NOTHING_TO_SHARE: _nothing_to_share,
        Cause.NOT_EXCLUSIVE: _not_exclusive,
        Cause.NOT_ALIGNED: _not_aligned,
        Cause.OTHER_POLICY: _other_policy,
        Cause.NOT_ANSWERED: _not_answered,
    }
)
