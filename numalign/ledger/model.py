"""
Who holds what on a node, and what is free beside that.

A topology object lags behind its kubelet by seconds or a minute, and a scheduler places pods in between. So
what is free is worked out from the best that is known, in one of three ways, and the way is told:

1. observed: of every pod on the node it is known what it holds, so that is subtracted from what the kubelet
   may give out, and no topology needs to be waited for;
2. anchored: the topology carries a fingerprint of the pods that it accounts for, so only the others are
   subtracted, and those that left since are added;
3. reported: what the topology says is free, less all that came since and may not be in it yet.

Nothing is ever guessed in favour of a pod. One that holds nobody knows what counts in full on every zone, and
what leaves is given back only where it is known to have been taken; of two bounds from below the higher one
counts. All of it follows from facts about pods and topologies, so it does not matter in which order they are
learned, and a process that starts anew comes to the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations, pairwise, permutations
from math import factorial, perm
from types import MappingProxyType
from typing import NamedTuple

from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.verdict import Verdict
from numalign.kubelet import admit as kubelet
from numalign.kubelet import work_limit
from numalign.kubelet.observed_state import ObservedContainer, observe
from numalign.ledger import claims
from numalign.ledger.claims import given_out
from numalign.model.demand import WHOLE_POD, Demand, Step
from numalign.model.intent import Intent, Policy
from numalign.model.node import MemoryManager, Node, Zone
from numalign.model.placement import Held, ZoneSet
from numalign.model.pod import Qos, Role
from numalign.model.resources import CPU, EMPTY, Kind, Resources, ZoneId, kind

_Wanted = tuple[Demand | None, Held | None]
"""What a pod asks for, and what it was promised."""

PodName = tuple[str, str]
"""Namespace and name."""

MOST_UNSETTLED = 3
"""Pods of which it may be open in which order a kubelet takes them: with n there are n! orders to try."""

MOST_TRIED = 2 * work_limit.LIMIT
"""So much work it may be at the most to try what else could have happened; beyond that it is not known."""

MOST_RECENT = 6
"""So many pods that came last, and so many that left last, may or may not be in a topology yet."""


class Source(StrEnum):
    """How it is known what a pod holds; the first one known counts."""

    OBSERVED = "observed"
    RECORDED = "recorded"
    PREDICTED = "predicted"


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """What a pod holds, and how that is known; of what is `unknown` nobody knows from which zones it is."""

    held: Held
    source: Source
    unknown: frozenset[str] = frozenset()


class Stage(StrEnum):
    """How far a pod has come on its node."""

    PROMISED = "promised"
    BOUND = "bound"
    ADMITTED = "admitted"


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod on a node, or one that was promised to it.

    `demand` is None for a pod that cannot be read. `created` is in whole seconds since 1970, as the kubelet
    compares it; `since` is when the pod came to its stage, in the seconds of whoever keeps the ledger. Of a
    pod without `record`, `guess` may be what it was promised on uncertain ground: it is kept free for it,
    and nothing is built on it. `turn` tells promises of one node apart: the earlier one is bound earlier.
    What was predicted or recorded of a `doubtful` pod is not believed. One that is `leaving` was deleted, and
    its kubelet may let go of it at any moment. Of one that is `adrift` nobody knew whether it was bound, or
    when: its kubelet may take it before others, after them, or never. `refuted` are resources of which its
    record said what cannot be, once it was `judged`.
    """

    uid: str
    name: PodName
    demand: Demand | None
    stage: Stage
    since: float = 0.0
    created: int = 0
    record: PlacementRecord | None = None
    guess: Held | None = None
    turn: int = 0
    doubtful: bool = False
    leaving: bool = False
    adrift: bool = False
    refuted: frozenset[str] = frozenset()

    @property
    def settled(self) -> bool:
        """Whether its kubelet has taken it."""
        return self.stage is Stage.ADMITTED

    @property
    def seen(self) -> bool:
        """Whether it was seen on its node, and not only promised to it."""
        return self.stage is not Stage.PROMISED

    @property
    def promised(self) -> Held | None:
        """What is kept for it; None if nobody knows."""
        return self.record.held if self.record and not self.record.unknown else self.guess

    def holds(self, node: Node) -> bool:
        """Whether the managers of this node's kubelet give it anything of its own."""
        return self.demand is None or holds(node, self.demand)


class Basis(StrEnum):
    """What the free amounts of a node rest on, the best first."""

    OBSERVED = "observed"
    ANCHORED = "anchored"
    REPORTED = "reported"


FingerprintReader = Callable[[Node, Sequence[AssignedPod], Sequence[AssignedPod]], frozenset[PodName] | None]
"""Reads the fingerprint in a node's topology: the names of all pods that it stands for, those that must be
among them and those that may be given; None if it stands for others."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """All that is known of one node: the topology as it was published, and the pods.

    `node` has the free amounts that its topology reports, and `told` reads the fingerprint of the pods that
    these account for; None if it has none. `left` are pods that are gone. All pods are `judged` on the node.
    If not `complete`, there may be pods that nobody told of, so that nothing can be counted up from what the
    kubelet may give out.
    """

    node: Node
    assigned_pods: tuple[AssignedPod, ...] = ()
    left: tuple[AssignedPod, ...] = ()
    told: FingerprintReader | None = None
    complete: bool = True

    def without(self, uids: Iterable[str]) -> "NodeInfo":
        """The same without some of its pods, as if they had never come."""
        gone = frozenset(uids)
        return replace(self, assigned_pods=tuple(each for each in self.assigned_pods if each.uid not in gone))

    def after(self, uids: Iterable[str]) -> "NodeInfo":
        """The same once some of its pods have left."""
        gone = frozenset(uids)
        leaving = tuple(each for each in self.assigned_pods if each.uid in gone)
        return replace(self.without(gone), left=(*self.left, *leaving))


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """A node with what is free on it at the moment.

    `sure` says that the free amounts are exactly the kubelet's, as far as records are right; otherwise there
    may be more. `unsettled` are pods whose kubelet has not taken them yet, in the order of their promises.
    """

    node: Node
    basis: Basis
    sure: bool
    unsettled: tuple[AssignedPod, ...] = ()


class Prediction(NamedTuple):
    """What a node says to a pod at the moment; `node` is as it was asked, before the pod.

    An admitted verdict with `waits_for` pods holds only once their kubelet has taken these. With `leavers` it
    holds, but where the pod comes to depends on whether these are gone by then. `place` is what the pod would
    hold as far as is known, None where it is not admitted; `record` the same, where that is certain.
    """

    node: Node
    verdict: Verdict
    basis: Basis
    waits_for: tuple[AssignedPod, ...] = ()
    leavers: tuple[AssignedPod, ...] = ()
    place: Held | None = None
    record: PlacementRecord | None = None

    @property
    def stands(self) -> bool:
        """Whether the pod can be promised its placement now."""
        return self.verdict.admitted and not self.waits_for and not self.leavers


def holds(node: Node, demand: Demand) -> bool:
    """Whether the managers of this node's kubelet would give the pod anything of its own."""
    return any(given_out(node, name) for _, asks in claims.steps(node, demand) for name in asks)


def exclusive(node: Node, demand: Demand) -> bool:
    """Whether an exporter counts a pod among those with exclusive resources; it sees no init containers."""
    return any(
        kind(name) is not Kind.DEVICE or name in node.devices
        for step in demand.steps
        if step.role is not Role.INIT
        for name in step.asks
    )


def judged(node: Node, assigned_pod: AssignedPod) -> AssignedPod:
    """The pod as it counts on this node: of its record what is believed, see `claims`."""
    record, demand = assigned_pod.record, assigned_pod.demand
    if record is None:
        return assigned_pod
    if demand is None:
        return replace(assigned_pod, record=None)
    held, refuted = claims.believed(node, demand, record.held)
    if held is record.held and not refuted:
        return assigned_pod
    due = claims.due(node, demand).all
    unknown = refuted & due.keys()
    kept = None if due and unknown == due.keys() else PlacementRecord(held, record.source, unknown)
    return replace(assigned_pod, record=kept, refuted=refuted)


def free_capacity(
    account: NodeInfo, *, now: float, lag: float, before: tuple[NodeInfo, FreeCapacity] | None = None
) -> FreeCapacity:
    """What is free on a node; `lag` is after how many seconds a topology accounts for a pod at the latest.

    `before` is what was known of the node a while ago, and what followed from it.
    """
    holding = tuple(each for each in account.assigned_pods if each.holds(account.node))
    unsettled = tuple(sorted((each for each in holding if not each.settled), key=_in_turn))
    if before and before[1].basis is Basis.OBSERVED and _hold_the_same(before[0], account):
        return replace(before[1], unsettled=unsettled)
    counted = _observed(account, holding) or _anchored(account, holding)
    node, basis, sure = counted or _reported(account, holding, before=now - lag)
    return FreeCapacity(node, basis, sure, unsettled)


def _hold_the_same(one: NodeInfo, other: NodeInfo) -> bool:
    """Whether the pods are the same, and no topology accounts for them: stages alone may differ."""
    pods, others = one.assigned_pods, other.assigned_pods
    grounds = one.node is other.node and one.complete and other.complete and not one.told and not other.told
    return grounds and len(pods) == len(others) and all(map(_holds_the_same, pods, others))


def _holds_the_same(one: AssignedPod, other: AssignedPod) -> bool:
    mine, theirs = (each.record and (each.record.held, each.record.unknown) for each in (one, other))
    return one.demand == other.demand and mine == theirs


def predict(  # noqa: PLR0913  an account, a pod, and the time
    account: NodeInfo,
    demand: Demand,
    intent: Intent = NO_INTENT,
    *,
    created: int = 0,
    now: float,
    lag: float,
    place: FreeCapacity | None = None,
) -> Prediction:
    """What a node says to a pod that was `created` then; `place` is its standing, if that is known already.

    A kubelet takes pods in the order in which they were bound, but what it hears of at once it sorts by the
    second of creation (HandlePodAdditions of pkg/kubelet/kubelet.go). So a pod waits for those that are on
    their way to the node unless each was created before it, or all come to the same places in every order.
    """
    found = place or free_capacity(account, now=now, lag=lag)
    verdict = evaluate(found.node, demand, intent)
    if not verdict.admitted:
        return Prediction(found.node, verdict, found.basis)
    placement, rivals = verdict.placement, _rivals(found, created)
    kept = named(placement.kept, found.node)
    certain = found.sure and not any(grant.chosen for grant in placement.grants)
    record = PlacementRecord(kept, Source.PREDICTED) if certain else None
    if not holds(account.node, demand):
        return Prediction(found.node, verdict, found.basis, place=kept, record=record)
    base = free_capacity(account.without(each.uid for each in rivals), now=now, lag=lag) if rivals else found
    waits_for = () if base.sure and _commute(base.node, rivals, demand, kept) else rivals
    leavers = tuple(each for each in account.assigned_pods if each.leaving and each.holds(account.node))
    if _indifferent(account, leavers, demand, kept, now=now, lag=lag):
        leavers = ()
    return Prediction(found.node, verdict, found.basis, waits_for, leavers, kept, None if leavers else record)


def named(kept: Mapping[ZoneSet, Resources], node: Node) -> Held:
    """What is kept, by the names of the node's zones."""
    names = {zone.id: zone.name for zone in node.zones}
    return MappingProxyType(
        {tuple(names[zone] for zone in zones): amounts for zones, amounts in kept.items() if amounts}
    )


def doubted(account: NodeInfo, leaver: str, *, now: float, within: float) -> tuple[str, ...]:
    """The uids of pods that may have come to other zones than they were promised, for a pod has left.

    A kubelet lets go of a pod before the API server hears of its end. What it admitted `within` so many
    seconds may have found the room of the `leaver` already; its record holds only if that is no difference,
    neither to itself nor to those that came before it.
    """
    gone = next((each for each in account.assigned_pods if each.uid == leaver), None)
    if gone is None or not gone.holds(account.node):
        return ()
    late = sorted(_late(account, leaver, since=now - within), key=_in_turn)
    base = free_capacity(account.without(each.uid for each in late).after([leaver]), now=now, lag=0.0)
    known = _surely_there(base.node, late) if base.basis is Basis.OBSERVED else frozenset[str]()
    return tuple(each.uid for each in late if each.uid not in known)


def at_risk(account: NodeInfo, demand: Demand, *, now: float, within: float) -> tuple[AssignedPod, ...]:
    """Pods that were taken in lately, and may sit where this one would be refused for them.

    As long as nobody has heard of the end of a pod, its room may have gone to one that came after it, which
    then left free what it was promised. So with any single pod gone before they came, the late ones and this
    one after them have to be admitted all the same; otherwise this one waits until they are late no more.
    """
    late = sorted(_late(account, "", since=now - within), key=_in_turn)
    if not late or not holds(account.node, demand):
        return ()
    before = account.without(each.uid for each in late)
    demands = [*(each.demand for each in late if each.demand), demand]
    leavers = _distinct(before)
    if not _triable(account.node, demands, len(leavers)):
        return tuple(late)
    nodes = (free_capacity(before.after([uid]), now=now, lag=0.0).node for uid in leavers)
    return () if all(_all_admitted(node, demands) for node in nodes) else tuple(late)


def _distinct(account: NodeInfo) -> list[str]:
    """One uid of all pods that would leave the same behind if they left, of those that hold anything.

    A fingerprint is of names, so where a topology carries one no two pods are alike.
    """
    alike: dict[object, str] = {}
    for each in account.assigned_pods:
        if each.holds(account.node):
            alike.setdefault(each.uid if account.told else _share(each), each.uid)
    return list(alike.values())


def _share(assigned_pod: AssignedPod) -> object:
    """What a pod adds to what is taken on its node; equal pods add the same."""
    record = assigned_pod.record
    held = record and (frozenset(record.held.items()), record.unknown)
    return assigned_pod.demand, held, assigned_pod.settled


def _triable(node: Node, demands: Iterable[Demand | None], times: int) -> bool:
    """Whether so many trials of admitting all of these are not too much work."""
    units = (work_limit.units(node, kubelet.effective_demand(node, demand)) for demand in demands if demand)
    return times * sum(units) <= MOST_TRIED


def _all_admitted(node: Node, demands: Iterable[Demand]) -> bool:
    for demand in demands:
        admission = kubelet.admit(node, demand)
        if admission.refusal:
            return False
        node = kubelet.charge(node, admission)
    return True


def _late(account: NodeInfo, leaver: str, *, since: float) -> Iterator[AssignedPod]:
    """Pods that came so late, of which it was only predicted what they hold."""
    for each in account.assigned_pods:
        believed = each.record is not None and each.record.source is not Source.OBSERVED
        recent = not each.settled or each.since >= since
        if believed and recent and each.uid != leaver and each.holds(account.node):
            yield each


def _surely_there(base: Node, late: Sequence[AssignedPod]) -> frozenset[str]:
    """The uids of those that come to where they were promised, in whichever order the kubelet takes them."""
    wanted = [(each.demand, each.promised) for each in late]
    ordered = [each for each in late if not each.adrift]
    if not all(one.turn < other.turn and one.created < other.created for one, other in pairwise(ordered)):
        same = len(late) <= MOST_UNSETTLED and _in_any_order(base, wanted)
        return frozenset(each.uid for each in late if same)
    adrift = [each for each in late if each.adrift]
    if adrift and not _triable(base, [each.demand for each in late], perm(len(late), len(adrift))):
        return frozenset()
    sure = frozenset(each.uid for each in late)
    for order in _orders(ordered, adrift):
        count = _come_true(base, [(each.demand, each.promised) for each in order])
        sure &= {each.uid for each in order[:count]}
    return sure


def _orders(
    ordered: Sequence[AssignedPod], adrift: Sequence[AssignedPod]
) -> Iterator[tuple[AssignedPod, ...]]:
    """All orders in which some come in their turn, and others at any time; whoever is last may never come."""
    count = len(ordered) + len(adrift)
    for places in permutations(range(count), len(adrift)):
        at, rest = dict(zip(places, adrift, strict=True)), iter(ordered)
        yield tuple(at[place] if place in at else next(rest) for place in range(count))


def _in_any_order(base: Node, wanted: Sequence[_Wanted]) -> bool:
    """Whether all of these come to where they were promised, whichever comes first."""
    if not _triable(base, [demand for demand, _ in wanted], factorial(len(wanted))):
        return False
    return all(_come_true(base, order) == len(wanted) for order in permutations(wanted))


# How pods on their way may meet.


def _in_turn(assigned_pod: AssignedPod) -> tuple[int, str]:
    return assigned_pod.turn, assigned_pod.uid


def _rivals(found: FreeCapacity, created: int) -> tuple[AssignedPod, ...]:
    """Pods on their way whose places were predicted, and that the kubelet may take after this one."""
    known = (each for each in found.unsettled if each.promised is not None)
    return tuple(each for each in known if (each.adrift and not each.seen) or not each.created < created)


def _indifferent(  # noqa: PLR0913  an account, a pod, and the time
    account: NodeInfo, leavers: Sequence[AssignedPod], demand: Demand, kept: Held, *, now: float, lag: float
) -> bool:
    """Whether the pod comes to the same place, whichever of the leavers are gone by then."""
    if not leavers:
        return True
    if len(leavers) > MOST_UNSETTLED:
        return False
    uids = [each.uid for each in leavers]
    if not _triable(account.node, [demand], 2 ** len(uids)):
        return False
    gone = (some for count in range(1, len(uids) + 1) for some in combinations(uids, count))
    nodes = (free_capacity(account.after(some), now=now, lag=lag).node for some in gone)
    return all(_come_true(node, [(demand, kept)]) for node in nodes)


def _commute(base: Node, rivals: tuple[AssignedPod, ...], demand: Demand, kept: Held) -> bool:
    """Whether each pod comes to the same place, whichever of them the kubelet takes first."""
    if not rivals:
        return True
    if len(rivals) > MOST_UNSETTLED:
        return False
    return _in_any_order(base, [*((each.demand, each.promised) for each in rivals), (demand, kept)])


def _come_true(base: Node, order: Iterable[_Wanted]) -> int:
    """How many pods, one after another, come to the places that they were promised."""
    node, count = base, 0
    for demand, held in order:
        admission = kubelet.admit(node, demand) if demand else None
        if not admission or admission.refusal:
            return count
        if not _same(named(admission.placement.kept, node), held or {}):
            return count
        node, count = kubelet.charge(node, admission), count + 1
    return count


def _same(one: Held, other: Held) -> bool:
    return {frozenset(zones): amounts for zones, amounts in one.items()} == {
        frozenset(zones): amounts for zones, amounts in other.items()
    }


# What is free.

_Counted = tuple[Node, Basis, bool]


def _observed(account: NodeInfo, holding: Iterable[AssignedPod]) -> _Counted | None:
    """What the kubelet may give out, less what every pod holds; None unless all of that is known and fits."""
    if not account.complete:
        return None
    bags, unknown = _told_apart(account.node, holding)
    if unknown or _overdrawn(account.node, bags):
        return None
    node = _taken(account.node.emptied(), _merged(bags))
    negative = any(amount < 0 for zone in node.zones for amount in zone.free.values())
    return None if negative or _contradicted(account, node) else (node, Basis.OBSERVED, True)


def _overdrawn(node: Node, bags: Iterable[Mapping[ZoneSet, Resources]]) -> bool:
    """Whether pods are said to hold more of some zones than these may give out: something is wrong then."""
    most = {zone.id: zone.allocatable for zone in node.zones}
    return any(
        amount > (sum(most[zone].get(name, 0) for zone in zones) if zones else claims.nowhere(node, name))
        for zones, name, amount in _entries(_merged(bags))
        if given_out(node, name)
    )


def _contradicted(account: NodeInfo, node: Node) -> bool:
    """Whether a topology that accounts for exactly the pods that are there has less to give.

    It may have more: exporters do not see what finished init containers leave to their pod. Memory is left
    out, for exporters differ in what they make of a block that lies on several zones.
    """
    settled = [each for each in account.assigned_pods if each.settled]
    if account.told is None or len(settled) < len(account.assigned_pods):
        return False
    if account.told(account.node, settled, ()) is None:
        return False
    return any(
        zone.free.get(name, 0) > amount
        for zone, told in zip(node.zones, account.node.zones, strict=True)
        for name, amount in told.free.items()
        if given_out(node, name) and kind(name) is not Kind.MEMORY
    )


def _anchored(account: NodeInfo, holding: Sequence[AssignedPod]) -> _Counted | None:
    """What the topology says is free, less what came since, with what left since; None if nobody can tell."""
    accounted = account.told and account.told(account.node, *_accountable(account))
    if accounted is None:
        return None
    # Of two pods of one name, one gone and one there, it is not known which it accounts for.
    again = {each.name for each in account.left} & {each.name for each in account.assigned_pods}
    came = [each for each in holding if each.name not in accounted or each.name in again]
    gone = (each for each in account.left if each.holds(account.node))
    left = [each for each in gone if each.name in accounted and each.name not in again]
    back, lost = _told_apart(account.node, (each for each in left if not _unlisted(account.node, each)))
    known = not again & accounted and len(back) == len(left) and not lost
    node = _credited(account.node, _merged(back))
    node, listed = _less_unlisted(node, (each for each in holding if each not in came))
    node, sure = _less(node, came)
    node, grouped = _grouped(node, holding)
    return node, Basis.ANCHORED, known and listed and sure and grouped


def _accountable(account: NodeInfo) -> tuple[list[AssignedPod], list[AssignedPod]]:
    """The pods that a topology surely accounts for, and those that it may."""
    settled = sorted((each for each in account.assigned_pods if each.settled), key=lambda each: each.since)
    bound = [each for each in account.assigned_pods if each.stage is Stage.BOUND]
    recent = [*settled[-MOST_RECENT:], *bound, *account.left[: -MOST_RECENT - 1 : -1]]
    return settled[:-MOST_RECENT], recent


def _reported(account: NodeInfo, holding: Sequence[AssignedPod], *, before: float) -> _Counted:
    """What the topology says is free, less all that may not be in it yet; what left counts when it tells."""
    recent = [each for each in holding if not each.settled or each.since > before]
    listed, _ = _less_unlisted(account.node, (each for each in holding if each not in recent))
    told, _ = _less(listed, recent)
    told, _ = _grouped(told, holding)
    if not account.complete or _overdrawn(account.node, _told_apart(account.node, holding)[0]):
        return told, Basis.REPORTED, False
    # What is given out at the most says as well what is free at the least.
    counted, _ = _less(account.node.emptied(), holding)
    return _higher(told, counted), Basis.REPORTED, False


def _higher(one: Node, other: Node) -> Node:
    """The node with the higher of two free amounts everywhere."""
    zones = {zone.id: zone.free for zone in other.zones}
    return _with_free(one, lambda zone: zone.free.most(zones[zone.id]))


def _less(node: Node, assigned_pods: Iterable[AssignedPod]) -> tuple[Node, bool]:
    """The node less what pods hold, in full on every zone where that is not known; and whether it was."""
    known, unknown = _told_apart(node, assigned_pods)
    node = _debited(node, _merged(known))
    for each in unknown:
        node = _everywhere(node, each)
    return node, not unknown


def _told_apart(
    node: Node, assigned_pods: Iterable[AssignedPod]
) -> tuple[list[Mapping[ZoneSet, Resources]], list[AssignedPod]]:
    """What is held as far as that is known, and those of which it is not, or not of all that they hold."""
    known, unknown = list[Mapping[ZoneSet, Resources]](), list[AssignedPod]()
    for each in assigned_pods:
        held = _by_id(each.record.held, node) if each.record else None
        if held is not None:
            known.append(held)
        if held is None or (each.record and each.record.unknown):
            unknown.append(each)
    return known, unknown


def _grouped(node: Node, assigned_pods: Iterable[AssignedPod]) -> tuple[Node, bool]:
    """The node with the memory manager's groups, which no topology tells; and whether they are all known.

    Where it is not known which zones a pod's memory lies on, none is free to join others. And if that may be
    a group, zones of it serve nothing else under a policy that insists on narrow hints.
    """
    if node.memory_manager is not MemoryManager.STATIC:
        return node, True
    groups: dict[ZoneId, frozenset[ZoneId]] = {}
    known, unknown = _told_apart(node, assigned_pods)
    for zones, name, _ in _entries(_merged(known)):
        if kind(name) is Kind.MEMORY:
            groups |= dict.fromkeys(zones, frozenset(zones))
    holding = [each for each in unknown if _hides_memory(node, each)]
    if holding:
        groups = {zone: frozenset((zone,)) for zone in node.ids} | groups
    marked = (
        replace(zone, cells=groups[zone.id], assignments=1) if zone.id in groups else zone
        for zone in node.zones
    )
    node = replace(node, zones=tuple(marked))
    if node.policy in _LENIENT or all(_narrow(node, each.demand) for each in holding):
        return node, not (holding and node.policy in _LENIENT)
    return _with_free(node, lambda zone: _without_memory(zone.free)), False


_LENIENT = frozenset({Policy.NONE, Policy.BEST_EFFORT})
"""Under these the zones of a group still serve whoever is content with all of them."""


def _narrow(node: Node, demand: Demand | None) -> bool:
    """Whether a single zone could hold the memory that a pod asks for at once."""
    if demand is None:
        return False
    asked = kubelet.effective_demand(node, demand)
    widths = (kubelet.min_widths(node, step) for step in (*asked.steps, asked.whole))
    return all(wide <= 1 for each in widths for name, wide in each.items() if kind(name) is Kind.MEMORY)


def _without_memory(free: Resources) -> Resources:
    return Resources({name: 0 if kind(name) is Kind.MEMORY else free[name] for name in free})


def _less_unlisted(node: Node, assigned_pods: Iterable[AssignedPod]) -> tuple[Node, bool]:
    """The node less what it accounts for and does not list of these pods; and whether there is nothing."""
    known = True
    for each in assigned_pods:
        hidden = _unlisted(node, each)
        known = known and not hidden
        node = _less_of_each(node, hidden)
    return node, known


def _unlisted(node: Node, assigned_pod: AssignedPod) -> Resources:
    """What finished init containers may keep at the most; exporters see only containers that run."""
    return EMPTY if assigned_pod.demand is None else claims.due(node, assigned_pod.demand).left_behind


def _everywhere(node: Node, assigned_pod: AssignedPod) -> Node:
    """The node without all that a pod could get from any of its zones, where that is not known."""
    if assigned_pod.demand is None:
        return _with_free(node, lambda zone: Resources(dict.fromkeys(zone.free, 0)))
    return _less_of_each(node, _not_known(node, assigned_pod.demand, assigned_pod.record))


def _not_known(node: Node, demand: Demand, record: PlacementRecord | None) -> Resources:
    """What a pod may get on a node, and nobody knows from which zones."""
    asked = claims.due(node, demand).all
    return _of(asked, record.unknown) if record and record.unknown else asked


def _of(amounts: Resources, names: frozenset[str]) -> Resources:
    return Resources({name: amounts[name] for name in amounts if name in names})


def _hides_memory(node: Node, assigned_pod: AssignedPod) -> bool:
    """Whether a pod of which not all is known may hold memory anywhere."""
    if assigned_pod.demand is None:
        return True
    return any(
        kind(name) is Kind.MEMORY for name in _not_known(node, assigned_pod.demand, assigned_pod.record)
    )


def _less_of_each(node: Node, amounts: Resources) -> Node:
    return _with_free(node, lambda zone: _minus(zone.free, amounts))


def _debited(node: Node, held: Mapping[ZoneSet, Resources]) -> Node:
    """The node less amounts; what lies on several zones is drawn from the first that have it."""
    free = {zone.id: dict(zone.free) for zone in node.zones}
    for zones, name, amount in _entries(held):
        rest = amount
        for zone in zones:
            drawn = min(free[zone].get(name, 0), rest)
            free[zone][name] = free[zone].get(name, 0) - drawn
            rest -= drawn
    return _with_free(node, lambda zone: _listed(zone, free[zone.id]))


def _credited(node: Node, held: Mapping[ZoneSet, Resources]) -> Node:
    """The node with amounts given back, no zone ever above what it may give out."""
    free = {zone.id: dict(zone.free) for zone in node.zones}
    most = {zone.id: zone.allocatable for zone in node.zones}
    for zones, name, amount in _entries(held):
        rest = amount
        for zone in zones:
            back = min(most[zone].get(name, 0) - free[zone].get(name, 0), rest)
            free[zone][name] = free[zone].get(name, 0) + back
            rest -= back
    return _with_free(node, lambda zone: _listed(zone, free[zone.id]))


def _entries(held: Mapping[ZoneSet, Resources]) -> Iterator[tuple[ZoneSet, str, int]]:
    # What lies on one zone has no choice.
    for zones, amounts in sorted(held.items(), key=lambda entry: (len(entry[0]), entry[0])):
        for name, amount in amounts.items():
            yield zones, name, amount


def _listed(zone: Zone, free: Mapping[str, int]) -> Resources:
    """Of what the zone reports."""
    return Resources({name: free[name] for name in zone.free})


def _with_free(node: Node, free: Callable[[Zone], Resources]) -> Node:
    return replace(node, zones=tuple(replace(zone, free=free(zone)) for zone in node.zones), stock=None)


def _minus(free: Resources, asked: Resources) -> Resources:
    return Resources({name: max(0, amount - asked.get(name, 0)) for name, amount in free.items()})


_NOBODY = Demand(Qos.BEST_EFFORT, (), Step(WHOLE_POD, Role.APP), EMPTY)


def _taken(node: Node, held: Mapping[ZoneSet, Resources]) -> Node:
    """The empty node with all of it given out, in the managers' own books."""
    if not held:
        return node
    cpus = None if any(CPU in amounts for amounts in held.values()) else 0
    return observe(node, _NOBODY, [ObservedContainer(WHOLE_POD, cpus, held)])[0]


def _merged(bags: Iterable[Mapping[ZoneSet, Resources]]) -> Mapping[ZoneSet, Resources]:
    total: dict[ZoneSet, Resources] = {}
    for bag in bags:
        for zones, amounts in bag.items():
            total[zones] = total.get(zones, EMPTY).plus(amounts)
    return {zones: total[zones] for zones in sorted(total)}


def _by_id(held: Held, node: Node) -> Mapping[ZoneSet, Resources] | None:
    """What is held, by the ids of zones; None if it names a zone that is not there: all of it is void."""
    ids = {zone.name: zone.id for zone in node.zones}
    if any(name not in ids for names in held for name in names):
        return None
    return _merged({tuple(sorted(ids[name] for name in names)): amounts} for names, amounts in held.items())
