"""
Whether a running pod is aligned as its owner requested: the observed placement compared with the intent.

Unlike a prediction, this is based on observation. So nothing is assumed: a pod that was not observed, or for
which it is not clear which container holds what, is not judged. How many zones it may use is decided as in
`evaluate`, on the healthy node: for an owner who requested `restricted` it is irrelevant that the pod would
fit into fewer zones of another machine.

A best-effort intent guarantees nothing. An unmet best-effort intent is only an unmet preference, and often
what the kubelet's own rule gives on that node as it was.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from numalign.decision import pinning
from numalign.decision.feasible import fit_apart
from numalign.decision.own_zones import fewest_zones
from numalign.decision.pinning import PartialAlignment, listed
from numalign.kubelet.admit import effective_demand
from numalign.model.demand import WHOLE_POD, Demand, Step
from numalign.model.errors import cut
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from numalign.model.placement import Held
from numalign.model.pod import Role
from numalign.model.resources import readable_zone

LONGEST_BYTES = 512
"""The limit of a sentence, which is written on pods."""

_LONGEST_NAME = 48
_MOST_NAMED = 4


class Judgement(StrEnum):
    """The alignment of a pod."""

    ALIGNED = "aligned"
    MISALIGNED = "misaligned"
    NOT_ASKED = "not-asked"
    NOT_OBSERVED = "not-observed"
    HOLDS_NOTHING = "holds-nothing"
    NOT_CLEAR = "not-clear"


NOT_JUDGED: Mapping[Judgement, str] = MappingProxyType(
    {
        Judgement.NOT_ASKED: "it requests no alignment",
        Judgement.NOT_OBSERVED: "no agent reported what it holds",
        Judgement.HOLDS_NOTHING: "it holds no exclusive resources that it requests to be aligned",
        Judgement.NOT_CLEAR: "it is not certain which container holds what in which NUMA zone",
    }
)
"""Why a pod is not judged, without a full stop."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Resources in more zones than `policy` allows, of a container or (without a name) of the pod.

    `places` has the names of the zones of each resource; `most` is how many of them are allowed.
    """

    container: str
    places: tuple[tuple[str, tuple[str, ...]], ...]
    most: int
    policy: Policy

    @property
    def zones(self) -> tuple[str, ...]:
        """All of the zones, by name."""
        return tuple(sorted({zone for _, zones in self.places for zone in zones}))

    def __str__(self) -> str:
        subject = f'container "{cut(self.container, _LONGEST_NAME)}"' if self.container else "the pod"
        places = []
        for name, zones in self.places[: _MOST_NAMED + 1]:
            where = listed((cut(readable_zone(zone), _LONGEST_NAME) for zone in zones), most=_MOST_NAMED)
            places.append(f"{cut(name, _LONGEST_NAME)} in {where}")
        allowed = "one" if self.most == 1 else str(self.most)
        verdict = _VERDICTS[self.policy].format(zones=len(self.zones), most=allowed)
        return f"{subject} holds {listed(places, most=_MOST_NAMED)}: {verdict}"


@dataclass(frozen=True, slots=True)
class Alignment:
    """The alignment of a pod, what is spread if it is misaligned, and what its policy does not apply to."""

    judgement: Judgement
    spread: Spread | None = None
    partial: PartialAlignment | None = None

    @property
    def misaligned(self) -> bool:
        """Whether it is certain that the pod is not aligned as requested."""
        return self.judgement is Judgement.MISALIGNED

    @property
    def word(self) -> str:
        """The judgement, as in `aligned` or `aligned (devices only)`."""
        return f"{self.judgement} ({self.partial.extent})" if self.partial else self.judgement.value


ALIGNED = Alignment(Judgement.ALIGNED)


def alignment(
    node: Node, demand: Demand, intent: Intent, observed: Held | None, unknown: AbstractSet[str] = frozenset()
) -> Alignment:
    """Return the alignment of a pod by what was `observed`, if anything; `unknown` ones may be anywhere."""
    if intent.policy is Policy.NONE:
        return Alignment(Judgement.NOT_ASKED)
    if observed is None:
        return Alignment(Judgement.NOT_OBSERVED)
    demand = effective_demand(node, demand)
    asked = frozenset(name for name in demand.whole.requests if intent.concerns(name))
    concerned = (
        (zones, {name: amount for name, amount in amounts.items() if amount and name in asked})
        for zones, amounts in observed.items()
    )
    held = {zones: bag for zones, bag in concerned if zones and bag}
    zones = {zone for names in held for zone in names}
    if unknown & asked or not zones <= {zone.name for zone in node.zones}:
        return Alignment(Judgement.NOT_CLEAR)
    if not held:
        return Alignment(Judgement.HOLDS_NOTHING)
    seen = _Observed(node.in_health(), demand, intent.policy, held)
    # A single zone satisfies every policy.
    if len(zones) > 1:
        by_pod = (intent.scope or node.scope) is Scope.POD
        judged = seen.judged(demand.whole) if by_pod else _by_container(seen)
        if judged is not ALIGNED:
            return judged
    if node.single:
        return ALIGNED
    # Of an aligned pod, a part may still not be pinned.
    if part := pinning.partial(demand, intent, node.scope):
        return replace(ALIGNED, partial=replace(part, applies_to=seen.names))
    exclusive = tuple(filter(intent.concerns, demand.whole.exclusive))
    if not exclusive or any(name in demand.whole.exclusive for name in seen.names):
        return ALIGNED
    part = PartialAlignment(intent.policy, seen.names, exclusive, "its node pins only devices")
    return replace(ALIGNED, partial=part)


def why(alignment: Alignment) -> str:
    """Return why a pod is misaligned, not judged, or aligned in part, in at most 512 bytes; "" if aligned."""
    text = str(alignment.partial or alignment.spread or NOT_JUDGED.get(alignment.judgement, ""))
    return text.encode()[:LONGEST_BYTES].decode(errors="ignore")


_VERDICTS: Mapping[Policy, str] = MappingProxyType(
    {
        Policy.SINGLE_NUMA_NODE: "{zones} NUMA zones, and single-numa-node allows {most}",
        Policy.RESTRICTED: "{zones} NUMA zones, and restricted allows only as many as this node needs,"
        " {most}",
        Policy.BEST_EFFORT: "{zones} NUMA zones where {most} would do; best-effort allows this",
    }
)


@dataclass(frozen=True, slots=True)
class _Observed:
    """What was observed of a pod, for the resources that its intent concerns, on the healthy node."""

    node: Node
    demand: Demand
    policy: Policy
    held: Mapping[tuple[str, ...], Mapping[str, int]]

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that it holds."""
        return tuple(sorted({name for bag in self.held.values() for name in bag}))

    def allowed(self, step: Step) -> int | None:
        """Return the number of zones that the policy allows for a step; None if that is not known."""
        names = [name for name in self.names if name in step.requests]
        return fewest_zones(self.node, step, self.policy, names)

    def judged(self, step: Step) -> Alignment:
        """Return the alignment of all that is held, if it belongs to this step."""
        most = self.allowed(step)
        if most is None:
            return Alignment(Judgement.NOT_CLEAR)
        spread = self.spread([name for name in self.names if name in step.requests], step.container, most)
        return Alignment(Judgement.MISALIGNED, spread) if len(spread.zones) > most else ALIGNED

    def spread(self, names: Iterable[str], container: str, most: int) -> Spread:
        """Return the zones of these resources."""
        places = (
            (name, {zone for several, bag in self.held.items() if name in bag for zone in several})
            for name in names
        )
        return Spread(
            container, tuple((name, tuple(sorted(zones))) for name, zones in places), most, self.policy
        )


def _by_container(observed: _Observed) -> Alignment:
    """Return the alignment by amounts: which container has which part of what the pod holds is not known."""
    names, held = observed.names, observed.held
    asking = [step for step in observed.demand.steps if any(name in step.requests for name in names)]
    if len(asking) == 1:
        return observed.judged(asking[0])
    # Finished init containers may still hold resources, unless the requests of the others are all there is.
    running = [step for step in asking if step.role is not Role.INIT]
    for name in names:
        requested = sum(step.requests.get(name, 0) for step in running)
        if sum(bag.get(name, 0) for bag in held.values()) != requested:
            return Alignment(Judgement.NOT_CLEAR)
    if len(running) == 1:
        return observed.judged(running[0])
    # They hold exactly what they request together, each of them in zones of its own.
    zones = {zone for several in held for zone in several}
    allowed = [observed.allowed(step) for step in running]
    if None not in allowed and all(len(zones) <= (most or 0) for most in allowed):
        return ALIGNED
    if set(allowed) == {1} and all(len(several) == 1 for several in held):
        asked = [{name: step.requests[name] for name in names if name in step.requests} for step in running]
        if fit_apart(held.values(), asked) is False:
            return Alignment(Judgement.MISALIGNED, observed.spread(names, WHOLE_POD, 1))
    return Alignment(Judgement.NOT_CLEAR)
