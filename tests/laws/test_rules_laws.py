"""
Laws of the rules, for every node and pod that may come.

Half of the nodes are described down to their cores and devices, of the others the rules assume a machine.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from hypothesis import assume, event, given
from hypothesis import strategies as st

from numalign.decision import wording
from numalign.decision.evaluate import evaluate, keeps
from numalign.decision.scoring import HIGHEST, Strategy, aligned, score
from numalign.decision.verdict import Cause, Refusal, Refuser, Verdict
from numalign.kubelet import assumed_machine as assumed
from numalign.kubelet import cpu_manager
from numalign.kubelet.admit import admit, after_admission, charge, release
from numalign.kubelet.hinted_zones import apart
from numalign.ledger import claims
from numalign.ledger.arithmetic import named
from numalign.model import demand as demands
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Match, Policy, Scope
from numalign.model.machine import Core, CpuSet, DevicePlace, Machine, Stock, all_places
from numalign.model.node import MemoryManager, Node, Zone
from numalign.model.options import DEFAULTS, KubeletChange, Options
from numalign.model.placement import Grant, Placement, ZoneSet
from numalign.model.pod import Pod, Role
from numalign.model.quantity import LARGEST
from numalign.model.resources import CPU, EMPTY, MEMORY, Kind, Resources, ZoneId, kind, parse_amount, render
from tests.laws import fleets
from tests.laws.fleets import UNITS, drawn
from tests.worlds.notation import GPU, HUGE, options, zone_ids


def nodes(*policies: Policy, options: Sequence[Options] = fleets.OPTIONS) -> st.SearchStrategy[Node]:
    return drawn(lambda pick: fleets.credible(pick, policies or fleets.POLICIES, options))


pods = drawn(fleets.pod)
any_demand = pods.map(demands.of)
"""The demand of any pod."""

any_node = nodes() | drawn(fleets.described)


@st.composite
def intents(draw: st.DrawFn) -> Intent:
    return Intent(
        draw(st.sampled_from(Policy)),
        draw(st.sampled_from([(), (CPU,), (GPU, CPU), ("*",), (MEMORY, "example.com/*")])),
        draw(st.sampled_from([None, *Scope])),
        draw(st.sampled_from([Match.SATISFIES, Match.SATISFIES, Match.EQUAL])),
    )


# Names are only names.


def renamed(node: Node, new: Mapping[ZoneId, ZoneId]) -> Node:
    return replace(
        node,
        zones=tuple(
            replace(
                zone,
                id=new[zone.id],
                cells=frozenset(new[cell] for cell in zone.cells),
                costs=tuple((new[other], cost) for other, cost in zone.costs),
            )
            for zone in node.zones
        ),
        machine=node.machine and machine_renamed(node.machine, new),
    )


def machine_renamed(reported: Machine, new: Mapping[ZoneId, ZoneId]) -> Machine:
    devices = tuple(
        (name, tuple(replace(one, zones=tuple(new.get(zone, zone) for zone in one.zones)) for one in places))
        for name, places in reported.devices
    )
    cores = tuple(replace(core, zone=new[core.zone]) for core in reported.cores)
    return replace(reported, zones=tuple(new[zone] for zone in reported.zones), cores=cores, devices=devices)


def verdict_renamed(verdict: Verdict, new: Mapping[ZoneId, ZoneId]) -> Verdict:
    refusal = verdict.refusal and replace(
        verdict.refusal,
        shortages=tuple(replace(short, zone=new[short.zone]) for short in verdict.refusal.shortages),
    )
    grants = tuple(_grant_renamed(grant, new) for grant in verdict.placement.grants)
    whole = verdict.placement.whole and _grant_renamed(verdict.placement.whole, new)
    placement = Placement(grants, _sets_renamed(verdict.placement.kept, new), whole)
    return replace(verdict, refusal=refusal, placement=placement)


def _grant_renamed(grant: Grant, new: Mapping[ZoneId, ZoneId]) -> Grant:
    affinity = None if grant.affinity is None else tuple(new[zone] for zone in grant.affinity)
    return replace(grant, affinity=affinity, amounts=_sets_renamed(grant.amounts, new))


def _sets_renamed(
    amounts: Mapping[ZoneSet, Resources], new: Mapping[ZoneId, ZoneId]
) -> dict[ZoneSet, Resources]:
    return {tuple(new[zone] for zone in zones): bag for zones, bag in amounts.items()}


def scores(node: Node, wanted: Demand, placement: Placement) -> list[int]:
    return [score(strategy, node, wanted, placement) for strategy in Strategy]


@given(any_node, any_demand, intents(), st.sampled_from([range(8), (1, 4, 6, 99, 100, 105, 120, 121)]))
def test_other_ids_in_the_same_order_change_nothing(
    node: Node, wanted: Demand, intent: Intent, others: Sequence[int]
) -> None:
    new = dict(zip((zone.id for zone in node.zones), zone_ids(*others), strict=False))
    before, after = evaluate(node, wanted, intent), evaluate(renamed(node, new), wanted, intent)

    assert after == verdict_renamed(before, new)
    if before.admitted:
        assert scores(renamed(node, new), wanted, after.placement) == scores(node, wanted, before.placement)


@given(any_node, pods, intents(), st.randoms(use_true_random=False))
def test_the_order_of_zones_and_resources_changes_nothing(
    node: Node, pod: Pod, intent: Intent, random: Random
) -> None:
    def mixed(bag: Resources) -> Resources:
        return Resources(dict(random.sample(list(bag.items()), len(bag))))

    reported = [
        replace(
            zone, capacity=mixed(zone.capacity), allocatable=mixed(zone.allocatable), free=mixed(zone.free)
        )
        for zone in random.sample(node.zones, len(node.zones))
    ]
    written = tuple(
        replace(container, requests=mixed(container.requests), limits=mixed(container.limits))
        for container in pod.containers
    )
    again = evaluate(
        replace(node, zones=tuple(reported)), demands.of(replace(pod, containers=written)), intent
    )

    assert again == evaluate(node, demands.of(pod), intent)


# Zones that no hint can include.


def with_bare_zones(node: Node, bare: tuple[ZoneId, ...]) -> Node:
    """The empty node, its memory not managed, with more zones without CPUs and devices."""
    free = replace(node, memory_manager=MemoryManager.NONE, options=options(minor=36)).emptied()
    zones = (*free.zones, *(Zone(at, f"node-{at}", EMPTY, EMPTY, EMPTY) for at in bare))
    reported = free.machine
    if reported is None:
        return replace(free, zones=zones)
    ids = tuple(sorted((*reported.zones, *bare)))
    devices = tuple((name, all_places(ids, places)) for name, places in reported.devices)
    return replace(free, zones=zones, machine=replace(reported, zones=ids, devices=devices), stock=None)


@given(
    any_node,
    st.lists(any_demand, min_size=1, max_size=3),
    intents(),
    st.sampled_from([(1,), (5, 6), (1, 6, 10)]),
)
def test_zones_that_no_hint_can_include_change_nothing(
    node: Node, pods: list[Demand], intent: Intent, bare: tuple[ZoneId, ...]
) -> None:
    complete = with_bare_zones(node, tuple(at for at in bare if at not in node.ids))
    split = apart(complete)

    for wanted in pods:
        one, other = admit(complete, wanted), admit(split, wanted)
        assert (one.refusal, one.placement) == (other.refusal, other.placement)
        assert evaluate(complete, wanted, intent).admitted is evaluate(split, wanted, intent).admitted
        complete, split = charge(complete, one), charge(split, other)
        assert complete.zones == split.every_zone


# Records.


@given(any_node, any_demand)
def test_what_a_pod_gets_is_what_its_record_may_say(node: Node, wanted: Demand) -> None:
    placement = evaluate(node, wanted).placement
    record = named(placement.kept, node)
    # Where no zone has devices of a resource, its manager is not known to give them out.
    bags = {
        zones: Resources({name: bag[name] for name in bag if claims.given_out(node, name)})
        for zones, bag in record.items()
    }
    trusted = {zones: bag for zones, bag in bags.items() if bag}

    assert claims.checked(node, wanted, record) == (trusted, frozenset()) or placement == Placement()


@given(any_node, any_demand, any_demand)
def test_records_are_within_requests(node: Node, wanted: Demand, other: Demand) -> None:
    due, theirs = claims.due(node, wanted), evaluate(node, other).placement.kept
    cpus, refuted = claims.checked(node, wanted, named(theirs, node))
    total = sum((Counter(dict(bag)) for bag in cpus.values()), Counter[str]())

    assert not refuted & total.keys()
    for name in due.all.keys() - refuted:
        assert due.running.get(name, 0) <= total[name] <= due.all[name]
    assert total.keys() <= due.all.keys()


# Yes and no.


@given(any_node, any_demand, intents())
def test_any_question_has_an_answer_in_words(node: Node, wanted: Demand, intent: Intent) -> None:
    verdict = evaluate(node, wanted, intent)

    event(str(verdict.refusal and verdict.refusal.cause))
    assert verdict.admitted is (verdict.refusal is None)
    assert verdict.admitted or wording.sentence(verdict)


@given(any_node, any_demand, intents())
def test_a_permanent_refusal_is_one_of_the_empty_node(node: Node, wanted: Demand, intent: Intent) -> None:
    now, ever = evaluate(node, wanted, intent), evaluate(node.emptied(), wanted, intent)

    assert now.permanent is (not now.admitted and not ever.admitted and not ever.not_when_empty)
    assert not now.permanent or now.refusal == ever.refusal


@given(any_node, any_demand)
def test_policies_that_bind_nothing_refuse_nothing(node: Node, wanted: Demand) -> None:
    free = evaluate(node, wanted)

    for policy in (Policy.NONE, Policy.BEST_EFFORT):
        verdict = evaluate(node, wanted, Intent(policy))
        assert verdict == free
        assert verdict.refusal is None or verdict.refusal.refuser is not Refuser.INTENT


@given(any_node, any_demand, intents())
def test_a_tighter_policy_never_turns_a_no_into_a_yes(node: Node, wanted: Demand, intent: Intent) -> None:
    assume(intent.match is Match.SATISFIES)
    verdicts = [evaluate(node, wanted, replace(intent, policy=policy)).admitted for policy in Policy]

    assert verdicts == sorted(verdicts, reverse=True)


@given(nodes(Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE), any_demand)
def test_what_a_tight_kubelet_admits_keeps_the_same_intent(node: Node, wanted: Demand) -> None:
    assume(evaluate(node, wanted).admitted)
    verdict = evaluate(node, wanted, Intent(node.policy))

    event("satisfied" if verdict.admitted else "not satisfied")
    assert verdict.admitted or nothing_aligned(verdict.refusal) or beyond_affinity(node, verdict.placement)


def nothing_aligned(refusal: Refusal | None) -> bool:
    """The kubelet promises nothing of what it does not align."""
    return refusal is not None and refusal.cause is Cause.NOT_ALIGNED


def beyond_affinity(node: Node, placement: Placement) -> bool:
    """In pod scope a container's memory may lie outside the affinity of the pod, whose sum fits nowhere."""
    return node.scope is Scope.POD and any(
        not grant.zones_of([MEMORY, HUGE]) <= set(grant.affinity or ()) for grant in placement.grants
    )


@given(nodes(Policy.SINGLE_NUMA_NODE, options=[DEFAULTS]), drawn(fleets.lone_pod).map(demands.of), st.data())
def test_more_in_a_zone_never_breaks_single_numa_node(
    node: Node, wanted: Demand, data: st.DataObject
) -> None:
    assume(evaluate(node, wanted).admitted)
    lucky = data.draw(st.sampled_from(node.zones))
    listed = [name for name, amount in lucky.allocatable.items() if amount]
    more = Resources({name: data.draw(st.integers(0, 4)) * UNITS[name] for name in listed})
    grown = replace(
        lucky,
        capacity=lucky.capacity.plus(more),
        allocatable=lucky.allocatable.plus(more),
        free=lucky.free.plus(more),
    )
    others = tuple(zone for zone in node.zones if zone.id != lucky.id)

    assert evaluate(replace(node, zones=(grown, *others)), wanted).admitted


@given(any_node, any_demand, intents())
def test_a_placement_keeps_what_would_be_admitted_with_it(node: Node, wanted: Demand, intent: Intent) -> None:
    satisfying = replace(intent, match=Match.SATISFIES)
    free, verdict = evaluate(node, wanted), evaluate(node, wanted, satisfying)

    event(f"admitted {free.admitted}, kept {verdict.admitted}")
    if free.admitted and satisfying.binding:
        assert keeps(node, wanted, satisfying, free.placement) is verdict.admitted


@given(any_node, any_demand, intents())
def test_nothing_is_refused_for_what_is_uncertain(node: Node, wanted: Demand, intent: Intent) -> None:
    zones = tuple(
        replace(
            zone, capacity=_less(zone.capacity), allocatable=_less(zone.allocatable), free=_less(zone.free)
        )
        for zone in node.zones
    )
    lost = replace(node, zones=zones, totals=None, machine=None, stock=None, uncertain=frozenset({GPU}))
    verdict, others = evaluate(lost, wanted, intent), evaluate(lost, demands.without(wanted, {GPU}), intent)

    event(f"admitted {verdict.admitted}, asked {GPU in wanted.whole.requests}")
    # What is uncertain may be what an intent binds, and nothing else need be aligned then.
    by_intent = others.refusal is not None and others.refusal.refuser is Refuser.INTENT
    assert verdict.admitted is others.admitted or (by_intent and verdict.admitted)


def _less(amounts: Resources) -> Resources:
    return Resources({name: amount for name, amount in amounts.items() if name != GPU})


@given(any_node, any_demand, intents())
def test_best_effort_is_aligned_where_restricted_is_kept(node: Node, wanted: Demand, intent: Intent) -> None:
    loose, tight = (
        replace(intent, policy=policy, match=Match.SATISFIES)
        for policy in (Policy.BEST_EFFORT, Policy.RESTRICTED)
    )
    node = replace(node, uncertain=frozenset())
    verdict, zones_of = evaluate(node, wanted, loose), evaluate(node, wanted, tight).admitted

    event(f"admitted {verdict.admitted}, kept {zones_of}")
    if verdict.admitted:
        assert aligned(node, wanted, verdict.placement, loose) is zones_of


@given(nodes(Policy.BEST_EFFORT), any_demand)
def test_best_effort_nodes_align_what_restricted_ones_admit(node: Node, wanted: Demand) -> None:
    node = replace(node, uncertain=frozenset())
    verdict, tight = evaluate(node, wanted), evaluate(replace(node, policy=Policy.RESTRICTED), wanted)

    event(f"admitted {verdict.admitted}, by restricted {tight.admitted}")
    if verdict.admitted:
        assert aligned(node, wanted, verdict.placement) is tight.admitted


# What a pod gets.


@given(any_node, any_demand)
def test_a_container_gets_what_it_requests(node: Node, wanted: Demand) -> None:
    placement = admit(node, wanted).placement

    for step, grant in zip(wanted.steps, placement.grants, strict=False):
        got = Counter[str]()
        for amounts in grant.amounts.values():
            got.update(amounts)
        for name, amount in step.requests.items():
            shrinks = step.role is Role.INIT and kind(name) is Kind.MEMORY
            given_out = managed(node, name)
            assert got[name] <= amount if shrinks else got[name] == amount * given_out


def managed(node: Node, name: str) -> bool:
    """Whether a manager of this node gives out a resource, under whatever policy."""
    if node.machine and kind(name) is Kind.DEVICE:
        return name in dict(node.machine.devices)
    return replace(node, policy=Policy.RESTRICTED).aligns(name)


@given(any_node, any_demand)
def test_what_is_kept_is_what_has_left_the_free_amounts(node: Node, wanted: Demand) -> None:
    admission = admit(node, wanted)
    after = charge(node, admission)
    zones_of = admission.placement.kept
    event("admitted" if admission.refusal is None else "refused")

    for name in (MEMORY, HUGE):
        assert total(node, name) == total(after, name) + sum(bag.get(name, 0) for bag in zones_of.values())
    for zone, was in zip(after.zones, node.zones, strict=True):
        mine = [bag for zones, bag in zones_of.items() if zone.id in zones]
        for name, amount in zone.free.items():
            assert 0 <= amount <= zone.allocatable[name]
            if kind(name) is not Kind.MEMORY and not (name == CPU and takes_whole_sockets(node)):
                assert was.free[name] - amount == sum(bag.get(name, 0) for bag in mine)


def takes_whole_sockets(node: Node) -> bool:
    """Whether the kubelet may take a socket with CPUs that are in use: up to 1.37, if sockets are uneven."""
    topology = cpu_manager.topology(node)
    sizes = {socket.bit_count() for socket in topology.sockets} if topology else set()
    return len(sizes) > 1 and KubeletChange.OWN_SIZE not in node.options.changes


def total(node: Node, name: str) -> int:
    return sum(zone.free.get(name, 0) for zone in node.zones)


@given(any_node, any_demand)
def test_what_goes_leaves_cpus_and_devices_as_they_were(node: Node, wanted: Demand) -> None:
    """Even what a refused pod leaves behind. Memory of a group comes back too, but to other zones of it."""
    admission = admit(node, wanted)
    back = release(after_admission(node, admission), [admission.held])
    event("admitted" if admission.refusal is None else "refused")

    assert back.stock == node.stock or node.stock is None or not even(node)
    for zone, was in zip(back.zones, node.zones, strict=True):
        for name, amount in was.free.items():
            lost = kind(name) is Kind.MEMORY or (name == CPU and not even(node))
            assert lost or zone.free[name] == amount


def even(node: Node) -> bool:
    """Whether all sockets are alike; on others a kubelet can give CPUs that it does not have."""
    laid = node.machine.topology if node.machine else assumed.assume(node).topology
    return len({cpus.bit_count() for cpus in laid.sockets}) <= 1


@given(any_node, any_demand)
def test_cpus_are_given_to_one_pod_alone(node: Node, wanted: Demand) -> None:
    """What a pod holds that runs, no other is given, whatever becomes of that one."""
    first = admit(node, wanted)
    second = admit(charge(node, first), wanted)
    event("again" if second.held.cpus else "once")

    assert first.refusal or not even(node) or not first.held.cpus & second.held.cpus


@given(nodes(), any_demand)
def test_an_assumed_machine_is_as_the_same_one_described(node: Node, wanted: Demand) -> None:
    counted, described = admit(node, wanted), admit(as_described(node), wanted)
    event("admitted" if counted.refusal is None else "refused")

    assert (described.refusal, described.placement) == (counted.refusal, counted.placement)
    assert charge(as_described(node), described).zones == charge(node, counted).zones


def as_described(node: Node) -> Node:
    """The same node, with the machine that the rules assume told as if somebody had looked."""
    laid, zones_of = assumed.assume(node)
    cores = (
        Core(
            node.zones[where(laid.zones, core)].id, where(laid.sockets, core), where(laid.caches, core), core
        )
        for core in laid.cores
    )
    devices = sorted(node.devices)
    places = ((name, tuple(_place(zone, name) for zone in node.zones)) for name in devices)
    free = ((name, tuple(zone.free.get(name, 0) for zone in node.zones)) for name in devices)
    return replace(
        node,
        machine=Machine(tuple(zone.id for zone in node.zones), tuple(cores), zones_of, tuple(places)),
        stock=Stock(assumed.free_cpus(node, laid), tuple(free)),
    )


def where(sets: tuple[CpuSet, ...], core: CpuSet) -> int:
    return next(at for at, cpus in enumerate(sets) if cpus & core)


def _place(zone: Zone, name: str) -> DevicePlace:
    return DevicePlace((zone.id,), zone.capacity.get(name, 0), zone.allocatable.get(name, 0))


@given(any_node, any_demand)
def test_scores_are_percents(node: Node, wanted: Demand) -> None:
    admission = admit(node, wanted)
    assume(admission.refusal is None)

    assert all(0 <= value <= HIGHEST for value in scores(node, wanted, admission.placement))


# Amounts.


@given(st.sampled_from(sorted(UNITS)), st.integers(0, LARGEST))
def test_an_amount_reads_back_as_it_was_written(name: str, amount: int) -> None:
    assert parse_amount(name, render(name, amount)) == amount
