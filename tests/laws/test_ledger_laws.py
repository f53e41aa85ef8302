"""
Laws of what is reserved on nodes, for whatever happens to them.

The first ones are about facts, in any number and however little sense they make together: records of more
than there is, zones that are not there, topologies of other pods. The last ones are about a node as it really
is (`ledger_world`): whatever a ledger hears late, no pod with a reservation is ever refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from numalign.kubelet import admit as kubelet
from numalign.ledger.free import MOST_RECENT, free_capacity
from numalign.ledger.model import (
    AssignedPod,
    Basis,
    FingerprintReader,
    FreeCapacity,
    NodeInfo,
    PlacementRecord,
    Source,
    Stage,
)
from numalign.ledger.observations import ObservedPods
from numalign.ledger.ordering import predict
from numalign.ledger.reservations import KEPT_SECONDS, Reservations
from numalign.model.demand import Demand
from numalign.model.node import Node, Zone
from numalign.model.placement import Held
from numalign.model.resources import CPU, MEMORY
from tests.laws.ledger_world import MENU, Course, World, empty_ledger
from tests.unit.ledger.conftest import fingerprint_of
from tests.worlds.notation import GPU, bag, machine, means, node, options

NOW, LAG = 1000.0, 60.0
AGES = [0.0, 5.0, 30.0, LAG, 500.0]

ZONES = [
    "cpu=4 mem=4Gi gpu=1",
    "cpu=4 mem=4Gi gpu=2",
    "cpu=5/4 mem=4Gi gpu=1",
    "cpu=6 mem=6Gi",
    "cpu=3 mem=4Gi gpu=2",
    "cpu=4/3 mem=3Gi",
]
WORN = ["cpu=4//2 mem=4Gi//1Gi gpu=1//0", "cpu=4//0 mem=4Gi gpu=2//1"]
POLICIES = ["none", "best-effort", "restricted", "single-numa-node"]
SCOPES = ["container", "pod"]


def nodes(zones: Sequence[str] = ZONES) -> st.SearchStrategy[Node]:
    """Nodes of one to four zones."""
    return st.builds(
        lambda zones, policy, scope: node(*zones, policy=policy, scope=scope),
        st.lists(st.sampled_from(zones), min_size=1, max_size=4),
        st.sampled_from(POLICIES),
        st.sampled_from(SCOPES),
    )


any_node = nodes([*ZONES, *WORN])

HELD: list[Held | None] = [
    None,
    {},
    {("node-0",): bag("cpu=2 mem=1Gi")},
    {("node-0",): bag("gpu=1"), ("node-1",): bag("cpu=3")},
    {("node-1",): bag("cpu=1"), ("node-0", "node-1"): bag("mem=5Gi")},
    {("node-2", "node-1"): bag("mem=2Gi nic=1")},
    {("node-0",): bag("cpu=9 mem=90Gi gpu=9")},
    {("nowhere",): bag("cpu=1"), ("node-0",): bag("cpu=1")},
]


@st.composite
def assigned_pods(draw: st.DrawFn, uid: str) -> AssignedPod:
    """A pod, and whatever may be said of it."""
    held, source = draw(st.sampled_from(HELD)), draw(st.sampled_from(Source))
    return AssignedPod(
        uid,
        ("team", draw(st.sampled_from([uid, "web-0"]))),
        draw(st.sampled_from([None, *MENU])),
        draw(st.sampled_from(Stage)),
        since=NOW - draw(st.sampled_from(AGES)),
        created=draw(st.integers(0, 3)),
        record=None if held is None else PlacementRecord(held, source),
        guess=draw(st.sampled_from(HELD)),
        turn=draw(st.integers(0, 9)),
        terminating=draw(st.booleans()),
    )


@st.composite
def accounts(draw: st.DrawFn) -> NodeInfo:
    """What may be known of a node, whether or not it makes sense."""
    count, gone = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    pods = [draw(assigned_pods(f"pod-{at}")) for at in range(count + gone)]
    names = st.sampled_from([each.name for each in pods] or [("team", "nobody")])
    accounted = draw(st.none() | st.frozensets(names))
    fingerprint = None if accounted is None else fingerprint_of(accounted)
    complete = draw(st.integers(0, 4)) > 0
    return NodeInfo(draw(any_node), tuple(pods[:count]), tuple(pods[count:]), fingerprint, complete)


def within(found: Node) -> bool:
    """Whether no zone has less free than nothing, or more than it may give out."""
    return all(
        0 <= amount <= zone.allocatable[name] for zone in found.zones for name, amount in zone.free.items()
    )


@given(accounts())
def test_free_amounts_are_within_bounds(account: NodeInfo) -> None:
    found = free_capacity(account, now=NOW, lag=LAG)

    assert within(found.node)
    assert found.node.emptied() == account.node.emptied()


@given(accounts(), st.sampled_from(MENU), st.integers(0, 3))
def test_what_a_node_is_predicted_to_give_it_has(account: NodeInfo, demand: Demand, created: int) -> None:
    found = predict(account, demand, created=created, now=NOW, lag=LAG)

    assert (found.held is None) is not found.verdict.admitted
    assert found.record is None or found.record.held == found.held
    if found.held:
        admission = kubelet.admit(found.node, demand)
        assert within(kubelet.charge(found.node, admission))


@given(accounts(), st.randoms(use_true_random=False))
def test_it_does_not_matter_in_which_order_pods_are_listed(account: NodeInfo, chance: Random) -> None:
    pods, gone = list(account.assigned_pods), list(account.departed)
    chance.shuffle(pods)
    chance.shuffle(gone)
    other = replace(account, assigned_pods=tuple(pods), departed=tuple(gone))

    assert free_capacity(other, now=NOW, lag=LAG) == free_capacity(account, now=NOW, lag=LAG)


# What is reported of nodes and pods, one thing after another.

Report = Callable[[Reservations], None]
"""Tells a ledger one thing."""


def put(assigned_pod: AssignedPod) -> Report:
    return lambda reservations: reservations.update_pod("node", assigned_pod)


def show(observed: ObservedPods) -> Report:
    return lambda reservations: reservations.update_observed("node", observed, now=NOW)


def drop(uid: str) -> Report:
    return lambda reservations: reservations.remove_pod(uid, now=NOW)


def report(found: Node, fingerprint: FingerprintReader | None) -> Report:
    return lambda reservations: reservations.update_node(found, fingerprint)


@dataclass(frozen=True)
class History:
    """All that is reported of one pod, or of the node, in this order; `last` is what is true in the end."""

    reports: Sequence[Report]
    last: Report | None


@st.composite
def lives(draw: st.DrawFn, uid: str) -> History:
    """The life of a pod as far as it has come; what it holds is seen, or nobody knows."""
    whole = draw(assigned_pods(uid))
    seen = whole.record and replace(whole.record, source=Source.OBSERVED)
    bound = replace(whole, stage=Stage.BOUND, record=None, guess=None, turn=0)
    admitted = replace(bound, stage=Stage.ADMITTED, record=seen)
    stages = [put(bound), put(admitted)][: draw(st.integers(1, 2))]
    gone = draw(st.booleans())
    return History([*stages, drop(uid)] if gone else stages, None if gone else stages[-1])


@st.composite
def reports(draw: st.DrawFn, *, fingerprints: bool) -> History:
    """What is published of a node: always of the same zones."""
    shape = draw(any_node)
    names = st.frozensets(st.sampled_from([("team", f"pod-{at}") for at in range(5)]))
    fingerprints_of = [fingerprint_of(draw(names)) if fingerprints else None for _ in range(2)]
    every = [report(replace(shape), fingerprints_of[0]), report(shape.emptied(), fingerprints_of[1])]
    return History(every, every[-1])


@st.composite
def shown(draw: st.DrawFn) -> History:
    """What an agent says, time after time, of pods that it never leaves out again."""
    pods = [f"pod-{at}" for at in range(5)]
    held = st.sampled_from([each for each in HELD if each is not None])
    first = draw(st.dictionaries(st.sampled_from(pods), held, max_size=3))
    second = first | draw(st.dictionaries(st.sampled_from(pods), held, max_size=3))
    every = [
        show({uid: PlacementRecord(has, Source.KUBELET) for uid, has in observed.items()})
        for observed in (first, second)
    ]
    return History(every, every[-1])


def histories(*, fingerprints: bool) -> st.SearchStrategy[list[History]]:
    lived = (lives(f"pod-{at}") for at in range(5))
    return st.tuples(reports(fingerprints=fingerprints), shown(), *lived).map(list)


def replay(stories: Sequence[History], chance: Random) -> Reservations:
    """Report everything, of each object in its order, of all objects in any; the node comes first."""
    reservations, left = Reservations(lag=LAG), [list(each.reports) for each in stories]
    left[0].pop(0)(reservations)
    while any(left):
        chance.choice([each for each in left if each]).pop(0)(reservations)
    return reservations


def found(reservations: Reservations) -> FreeCapacity:
    known = reservations.free_capacity("node", now=NOW)
    assert known
    return known


def present(reservations: Reservations) -> set[str]:
    return {repr(each) for each in reservations.counted_pods()}


@given(histories(fingerprints=True), st.randoms(use_true_random=False))
def test_order_of_news_does_not_matter(stories: list[History], chance: Random) -> None:
    one, other = replay(stories, chance), replay(stories, chance)
    # Where a report is impossible, an earlier one counts if the pod was there by then.
    assume(not other.count_refuted())

    assert found(one) == found(other)
    assert present(one) == present(other)


@given(histories(fingerprints=False), st.randoms(use_true_random=False))
def test_who_hears_only_the_end_comes_to_the_same(stories: list[History], chance: Random) -> None:
    lived, late = replay(stories, chance), Reservations(lag=LAG)
    for each in stories:
        if each.last:
            each.last(late)
    # Where a report is impossible, an earlier one of the same pod counts.
    assume(not late.count_refuted())

    assert found(lived) == found(late)
    assert present(lived) == present(late)


# Everything that is ever called.

PODS = [f"pod-{at}" for at in range(12)]
PLACES = ["node", "other", "nowhere"]


@st.composite
def askers(draw: st.DrawFn) -> tuple[Node, list[tuple[str, int]]]:
    """A node, and who asks it or gives back what it has, with which demand."""
    return draw(nodes()), draw(
        st.lists(st.tuples(st.sampled_from(PODS), st.integers(0, len(MENU) + 3)), max_size=30)
    )


@given(askers())
def test_no_two_pods_get_the_same_reservation(
    question: tuple[Node, list[tuple[str, int]]],
) -> None:
    host, questions = question
    reservations = Reservations()
    reservations.update_node(host)
    for at, (uid, which) in enumerate(questions):
        reservations.unreserve(uid)
        if which < len(MENU):
            _reserve_if_admitted(reservations, "node", _pod(uid, which, created=at), now=NOW)
        held = [each.expected for each in reservations.reserved()]
        assert _fit(host, [each for each in held if each is not None])


def _pod(uid: str, which: int, *, created: int = 0, since: float = NOW) -> AssignedPod:
    return AssignedPod(uid, ("team", uid), MENU[which], Stage.RESERVED, since=since, created=created)


def _reserve_if_admitted(reservations: Reservations, place: str, pod: AssignedPod, *, now: float) -> None:
    assert pod.demand
    here = reservations.predict(place, pod.demand, created=pod.created, now=now, without=(pod.uid,))
    if here is None or here.verdict.admitted:
        reservations.reserve(place, pod, here)


def _fit(host: Node, every: list[Held]) -> bool:
    """Whether zones have so much together, whichever of them are looked at."""
    sets = (some for count in range(1, 5) for some in combinations(host.zones, count))
    return all(_held(every, some, name) <= _most(some, name) for some in sets for name in (CPU, MEMORY, GPU))


def _held(every: list[Held], some: Sequence[Zone], name: str) -> int:
    """What is held of these zones alone."""
    names = {zone.name for zone in some}
    return sum(bag.get(name, 0) for held in every for zones, bag in held.items() if names >= {*zones})


def _most(some: Sequence[Zone], name: str) -> int:
    return sum(zone.allocatable.get(name, 0) for zone in some)


CALLS: list[Callable[[Reservations, Random, float], object]] = [
    lambda reservations, chance, _: reservations.update_node(
        node(*chance.sample(ZONES, 2), policy=chance.choice(POLICIES)),
        chance.choice([None, fingerprint_of(frozenset({("team", chance.choice(PODS))}))]),
    ),
    lambda reservations, chance, _: [*map(reservations.remove_node, chance.sample(PLACES, 2))],
    lambda reservations, chance, now: reservations.update_pod(chance.choice(PLACES), _anyhow(chance, now)),
    lambda reservations, chance, now: reservations.update_pod(chance.choice(PLACES), _anyhow(chance, now)),
    lambda reservations, chance, now: reservations.remove_pod(chance.choice(PODS), now=now),
    lambda reservations, chance, now: reservations.update_observed(
        chance.choice(PLACES), _shown_anyhow(chance), now=now
    ),
    lambda reservations, chance, now: reservations.reserve(chance.choice(PLACES), _anyhow(chance, now), None),
    lambda reservations, chance, now: _reserve_if_admitted(
        reservations,
        chance.choice(PLACES),
        _pod(chance.choice(PODS), chance.randrange(len(MENU)), since=now),
        now=now,
    ),
    lambda reservations, chance, _: reservations.unreserve(chance.choice(PODS)),
    lambda reservations, chance, _: reservations.mark_unconfirmed(chance.choice(PODS)),
    lambda reservations, chance, _: reservations.reserved_since(chance.choice(PODS)),
    lambda reservations, chance, now: reservations.expire(now - chance.choice([0.0, 5.0])),
]


def _shown_anyhow(chance: Random) -> ObservedPods:
    """What an agent may say, of pods that may be anywhere."""
    held = [each for each in HELD if each is not None]
    uids = chance.sample(PODS, chance.randrange(5))
    return {uid: PlacementRecord(chance.choice(held), Source.KUBELET) for uid in uids}


def _anyhow(chance: Random, now: float) -> AssignedPod:
    """A pod as it may be reported, whatever was reported before."""
    held = chance.choice(HELD)
    return replace(
        _pod(chance.choice(PODS), chance.randrange(len(MENU)), since=now),
        stage=chance.choice([Stage.BOUND, Stage.ADMITTED]),
        record=None if held is None else PlacementRecord(held, chance.choice(list(Source))),
        terminating=chance.random() < 0.2,
    )


@given(st.randoms(use_true_random=True))
@settings(max_examples=1)
def test_no_call_leaks_state(chance: Random) -> None:
    """Thousands of calls that make no sense together."""
    reservations, now = Reservations(), NOW
    for at in range(250 * settings().max_examples):
        now += chance.choice([0.0, 0.1, 3.0])
        chance.choice(CALLS)(reservations, chance, now)
        if at % 20 == 0:
            _agrees(reservations, now)

    for uid in PODS:
        reservations.remove_pod(uid, now=now)
    assert reservations.expire(now + KEPT_SECONDS) == ()
    assert (list(reservations.assigned_pods()), reservations.reserved()) == ([], ())
    for name in PLACES:
        host = replace(node(*ZONES), name=name)
        reservations.update_node(host)
        account, empty = reservations.node_info(name), reservations.free_capacity(name, now=now)
        assert account
        assert empty
        assert (account.assigned_pods, empty.node) == ((), host)
        assert len(account.departed) <= MOST_RECENT


def _agrees(reservations: Reservations, now: float) -> None:
    """All ways of asking say the same."""
    every = list(reservations.assigned_pods())
    there = {each.uid: each for each in every}
    assert len(there) == len(every)
    assert {uid for uid in PODS if reservations.node_of(uid)} == there.keys()
    assert all(reservations.assigned_pod(uid) == there.get(uid) for uid in PODS)
    assert {each.uid for each in reservations.reserved()} == {
        uid for uid, each in there.items() if each.stage is Stage.RESERVED
    }
    known = reservations.free_capacity("node", now=now)
    assert known is None or within(known.node)


# A node as it really is.

tapes = st.lists(st.integers(0, 5039), min_size=60, max_size=150)
courses = st.builds(
    Course,
    strangers=st.sampled_from([0, 0, 1, 2]),
    exporter=st.booleans(),
    fingerprints=st.booleans(),
    names_return=st.booleans(),
    binds_get_lost=st.booleans(),
)


@given(nodes(), courses, tapes)
@settings(max_examples=2 * settings().max_examples)
def test_no_pod_with_a_reservation_is_refused(host: Node, course: Course, tape: list[int]) -> None:
    World(host, iter(tape), course).run()


INTENTS = (
    means("none"),
    means("best-effort"),
    means("restricted"),
    means("single-numa-node gpu"),
    means("restricted", exclusive=True),
    means("restricted cpu", exclusive=True),
)
exclusive_courses = st.builds(
    Course,
    exporter=st.booleans(),
    fingerprints=st.booleans(),
    names_return=st.booleans(),
    intents=st.just(INTENTS),
)


@given(nodes(), exclusive_courses, tapes)
@settings(max_examples=2 * settings().max_examples)
def test_no_pod_shares_the_zones_of_an_exclusive_one(host: Node, course: Course, tape: list[int]) -> None:
    World(host, iter(tape), course).run()


@given(nodes(), tapes)
def test_restart_in_a_quiet_moment_gives_the_same_ledger(host: Node, tape: list[int]) -> None:
    world, anew = World(host, iter(tape), Course()), empty_ledger()
    world.run()
    world.settle()
    world.retell(anew)
    now, believed = world.now, not any(each.doubtful for each in world.ledger.assigned_pods())
    lived, began = (ledger.free_capacity("node", now=now) for ledger in (world.ledger, anew))

    assert lived
    assert began
    # Nobody has written down that a record is in doubt.
    assert not believed or (lived.node, lived.basis, lived.exact) == (began.node, began.basis, began.exact)


# A node with an agent beside its kubelet.


@st.composite
def machines(draw: st.DrawFn) -> Node:
    """Nodes whose machine is known, and whose policies insist on the fewest zones.

    The others let a zone of a group serve by itself, which no list of what pods hold shows any more.
    """
    zones, threads, reserved = draw(
        st.sampled_from(
            [
                (("cpu=0-3,8-11 mem=6Gi", "cpu=4-7,12-15 mem=6Gi"), 2, "0,8"),
                (("cpu=0-3 mem=4Gi", "cpu=4-7 mem=4Gi", "cpu=8-11 mem=4Gi"), 1, "0"),
            ]
        )
    )
    return machine(
        *zones,
        threads=threads,
        reserved=reserved,
        devices=draw(st.sampled_from(["gpu=0,1", "gpu=0,0,1"])),
        policy=draw(st.sampled_from(["restricted", "single-numa-node"])),
        scope=draw(st.sampled_from(SCOPES)),
        options=options(draw(st.sampled_from(["", "full-pcpus-only"]))),
    )


@given(machines(), st.builds(replace, courses, agent=st.just(value=True)), tapes)
def test_reserved_pod_is_never_rejected_with_an_agent(host: Node, course: Course, tape: list[int]) -> None:
    World(host, iter(tape), course).run()


@given(machines(), st.sampled_from([0, 1, 2]), tapes)
def test_agent_report_makes_the_ledger_equal_the_kubelet(host: Node, strangers: int, tape: list[int]) -> None:
    world = World(host, iter(tape), Course(strangers, agent=True, names_return=True))
    world.run()
    world.settle()
    truth = world.look_again()
    anew = empty_ledger()
    world.retell(anew)

    for ledger in (world.ledger, anew):
        known = ledger.free_capacity("node", now=world.now)
        assert known
        assert (known.basis, known.exact, known.node.stock) == (Basis.OBSERVED, True, truth.stock)
        assert [zone.cells for zone in known.node.zones] == [zone.cells for zone in truth.zones]
