"""
Whole fleets, and what pods ask of them, for laws that hold on all nodes at once.

What is drawn is small, so that pods often fit and often do not. Nodes come in kinds: those of a kind differ
in what is free alone, as the nodes of a cluster do that were bought together. There is every corner that the
rules know: zones without a resource and zones that list none of it, ids with gaps, amounts that are no
multiples of anything, groups of memory, nodes with pods on them, described machines, every option.

Everything is built with `pick`, which takes one of several things. So the same fleets are drawn by
Hypothesis, which makes a counterexample small (`drawn`), and by the thousand from a seed (`seeded`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from hypothesis import strategies as st

from numalign.cache import Question, dra
from numalign.decision.scoring import EVEN, Weights
from numalign.kubelet.admit import admit, charge
from numalign.model import demand as demands
from numalign.model.bitset import bits, members, union
from numalign.model.intent import Intent, Match, Policy, Scope
from numalign.model.machine import CpuSet, render_list
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone, managers
from numalign.model.options import DEFAULTS, Options
from numalign.model.pod import Container, Pod, Role, peak
from numalign.model.resources import CPU, EMPTY, MEMORY, Resources, ZoneId
from tests.worlds.notation import GPU, HUGE, HUGE_2M, NIC, machine, options, zone_ids

T = TypeVar("T")
UNITS = {CPU: 1000, MEMORY: 2**30, HUGE: 2**30, HUGE_2M: 2**21, GPU: 1, NIC: 1}
NOWHERE = "example.com/nowhere"
"""A device that no node has."""

STORAGE = "ephemeral-storage"


class Pick(Protocol):
    """Takes one of several things."""

    def __call__(self, options: Sequence[T], /) -> T:
        """One of them; the first ones are the simplest."""
        ...


def drawn(build: Callable[[Pick], T]) -> st.SearchStrategy[T]:
    """What is built, as a strategy."""

    @st.composite
    def strategy(draw: st.DrawFn) -> T:
        return build(lambda options: draw(st.sampled_from(options)))

    return strategy()


def seeded(build: Callable[[Pick], T], seed: int) -> T:
    """What is built from the number of a seed: far faster, and never made small."""
    return build(Random(seed).choice)  # noqa: S311 - inputs of tests keep no secret


# Nodes of which amounts are known.

FEW_IDS = [(0, 1), (0, 1), (0, 1, 2, 3), (0,), (0, 3), (2, 5, 7), (0, 1, 2, 3), (0, 4, 8, 9)]
IDS = [*FEW_IDS, tuple(range(8)), (0, 1, 2, 3, 4, 9), tuple(range(5)), tuple(range(7))]
VAST_IDS = [tuple(range(10)), tuple(range(17)), tuple(range(18))]
"""More zones than columns have, and more than anybody answers for."""

NAMES = [
    (CPU, MEMORY, GPU), (CPU, MEMORY, GPU), (CPU, MEMORY), (CPU, MEMORY, GPU, NIC), (CPU, GPU), (MEMORY, GPU),
    (CPU, MEMORY, HUGE), (CPU, MEMORY, HUGE, HUGE_2M, GPU, NIC),
]  # fmt: skip

PLENTY = {CPU: 32 * UNITS[CPU], MEMORY: 32 * UNITS[MEMORY]}
"""What a node has as a whole whose zones list none of it."""

Hardware = tuple[int, int] | None
"""Capacity and allocatable of one resource on one zone, in its unit; None if the zone does not list it."""

HARDWARE: list[Hardware] = [(4, 4), (8, 8), (8, 7), (6, 6), (4, 3), (2, 2), (12, 12), (16, 15)]
UNEVEN: list[Hardware] = [*HARDWARE, *HARDWARE, (1, 1), (3, 1), (0, 0), None, None, (2, 0)]
WITHOUT: list[Hardware] = [None, None, (0, 0)]

VAST = [2**24, 2**27 - 1, 2**27, 2**28, 2**31 - 1, 2**31, 2**32]
"""So many GiB and devices are still read; those of some zones are more than 31, 53 or 63 bits hold."""

WEAR: list[Callable[[int], int]] = [
    *[lambda most: most] * 2, lambda most: most // 2, lambda most: min(most, 1), lambda _: 0,
    lambda most: max(0, most - 1),
]  # fmt: skip
INCREDIBLE = [*WEAR, lambda most: most + 1]
"""What is free of an amount; one of these says more than there is."""

FRACTIONS = [*[0] * 12, 500, 1]
"""How far amounts lie below whole units."""

_TRYING = [Policy.RESTRICTED, Policy.BEST_EFFORT]
POLICIES = [Policy.SINGLE_NUMA_NODE, *_TRYING, Policy.NONE, *_TRYING]
SCORED = [
    options("prefer-most-allocated-numa-node TopologyManagerPolicyAlphaOptions", minor=38),
    options(strategy="most-allocated", weights="cpu=3 gpu=0"),
    options(strategy="least-allocated", minor=38),
    options("prefer-closest-numa-nodes full-pcpus-only", strategy="most-allocated"),
]
PLAIN = [
    DEFAULTS,
    *(options(minor=minor) for minor in (32, 34, 36)),
    options("prefer-closest-numa-nodes"),
    options("strict-cpu-reservation"),
    *SCORED,
]
OPTIONS = [
    *PLAIN,
    *(
        options(words, minor=minor)
        for words in (
            "full-pcpus-only", "distribute-cpus-across-numa", "distribute-cpus-across-cores",
            "align-by-socket", "prefer-align-cpus-by-uncorecache",
            "distribute-cpus-across-numa full-pcpus-only align-by-socket", "prefer-closest-numa-nodes",
            "PodLevelResourceManagers", "PodLevelResourceManagers full-pcpus-only",
        )
        for minor in (None, 36, 34, 32)
    ),
    *SCORED * 2,
]  # fmt: skip
UNCERTAIN = [*[()] * 12, (GPU,), (CPU,), (MEMORY, HUGE), (GPU, NIC)]
"""What is not known for certain, whether or not zones list it."""

MOST_ZONES = [8, 8, 8, 8, 8, 8, 16, 2, 5]
NEAR = [10, 11, 12, 21, 32]

OFTEN, SOMETIMES, SELDOM = ([True] * 3 + [False], [False] * 3 + [True], [False] * 9 + [True])
RARELY = [False] * 29 + [True]


def counted(pick: Pick) -> Node:
    """A node of which amounts are known, with nothing on it; mostly one of a plain kubelet and even CPUs."""
    plain, names = pick(OFTEN), pick(NAMES)
    ids = zone_ids(*pick(IDS if not pick(RARELY) else VAST_IDS))
    hardware = _ordinary(pick, ids, names) if plain else _any_hardware(pick, ids, names)
    made = [_zone(pick, at, listed, plain=plain) for at, listed in hardware.items()]
    cpu, memory = managers(made)
    managed = pick([memory] * 6 + [MemoryManager.STATIC, MemoryManager.NONE])
    bare = managed is MemoryManager.NONE and pick(SELDOM)
    return Node(
        "node",
        tuple(_with_costs(pick, made)),
        policy=pick(POLICIES),
        scope=pick(list(Scope)),
        cpu_manager=pick([cpu] * 6 + [CpuManager.STATIC, CpuManager.NONE]),
        memory_manager=managed,
        totals=_totals(pick, made),
        max_zones=pick(MOST_ZONES),
        known=pick([Known.COUNTS, Known.CONFIGURED]),
        label=pick([None, "a-class"]),
        options=pick(PLAIN if plain else OPTIONS),
        threads=pick([None, None, None, 1, 2, 4]),
        others=(Zone(ZoneId(99), "node-99", EMPTY, EMPTY, EMPTY),) if bare else (),
        uncertain=frozenset(pick(UNCERTAIN)),
    )


Listed = Mapping[str, Hardware]
"""What a zone lists, by resource."""


def _ordinary(pick: Pick, ids: Sequence[ZoneId], names: Sequence[str]) -> Mapping[ZoneId, Listed]:
    """Zones that are alike; or alike in CPUs, where they have any, for others are a special case."""
    alike, even = {name: pick(HARDWARE) for name in names}, pick(OFTEN)
    if even:
        return dict.fromkeys(ids, alike)
    cpus = [*[alike.get(CPU)] * 6, *WITHOUT]
    return {at: {name: pick(cpus if name == CPU else UNEVEN) for name in names} for at in ids}


def _any_hardware(pick: Pick, ids: Sequence[ZoneId], names: Sequence[str]) -> Mapping[ZoneId, Listed]:
    if pick(SELDOM):
        vast = {name: pick(VAST) for name in names}
        return {at: {name: (8, 8) if name == CPU else (vast[name],) * 2 for name in names} for at in ids}
    return {at: {name: pick(UNEVEN) for name in names} for at in ids}


def _zone(pick: Pick, at: ZoneId, listed: Listed, *, plain: bool) -> Zone:
    amounts = {name: amounts for name, amounts in listed.items() if amounts}
    in_pieces = {CPU, GPU, NIC} if plain else {GPU, NIC}
    capacity, most = (
        {
            name: max(0, hardware[which] * UNITS[name] - (0 if name in in_pieces else pick(FRACTIONS)))
            for name, hardware in amounts.items()
        }
        for which in range(2)
    )
    allocatable = Resources({name: min(amount, capacity[name]) for name, amount in most.items()})
    return Zone(at, f"node-{at}", Resources(capacity), allocatable, allocatable)


def _with_costs(pick: Pick, zones: Sequence[Zone]) -> Iterator[Zone]:
    """Zones with distances: mostly none, else all, or some of them."""
    distant, gaps = pick(SOMETIMES), pick(SELDOM)
    for zone in zones:
        to = [other.id for other in zones if not gaps or other.id >= zone.id]
        costs = tuple((other, 10 if other == zone.id else pick(NEAR)) for other in to) if distant else ()
        yield replace(zone, costs=costs)


def _totals(pick: Pick, zones: Sequence[Zone]) -> Resources | None:
    """What the node as a whole may give out: nobody told, what its zones have, or less, or of less."""
    if pick(OFTEN):
        return None
    in_pieces = Resources()
    for zone in zones:
        in_pieces = in_pieces.plus(zone.allocatable)
    totals = {name: pick([amount, amount, 2 * amount, amount // 2]) for name, amount in in_pieces.items()}
    reserved = {name: amount for name, amount in totals.items() if not pick(SELDOM)}
    return Resources(pick([PLENTY, PLENTY, {}]) | reserved | pick([{}, {"pods": 110, STORAGE: 4 * 2**30}]))


def worn(pick: Pick, node: Node) -> Node:
    """The node with other amounts free, and blocks of memory on some of its zones."""
    credible = not pick(SELDOM)
    zones = tuple(
        replace(zone, free=_left(pick, zone) if credible else _strangely_left(pick, zone))
        for zone in node.zones
    )
    return replace(node, zones=_grouped(pick, zones) if pick(SOMETIMES) else zones)


def credible(pick: Pick, policies: Sequence[Policy], reported: Sequence[Options]) -> Node:
    """A worn node of which nothing is uncertain, and whose managers are those that its zones show."""
    ids, names = zone_ids(*pick(FEW_IDS)), pick(NAMES)
    # Where sockets or cores are uneven, kubelets give CPUs that they do not have.
    made = [_zone(pick, at, listed, plain=True) for at, listed in _ordinary(pick, ids, names).items()]
    zones = tuple(replace(zone, free=_left(pick, zone)) for zone in made)
    cpu, memory = managers(zones)
    return Node(
        "node",
        _grouped(pick, zones) if pick(SOMETIMES) else zones,
        policy=pick(policies),
        scope=pick(list(Scope)),
        cpu_manager=cpu,
        memory_manager=memory,
        options=pick(reported),
    )


def _left(pick: Pick, zone: Zone, wear: Sequence[Callable[[int], int]] = WEAR) -> Resources:
    free = {}
    for name, amount in zone.allocatable.items():
        in_pieces = pick(wear)(amount // UNITS[name]) * UNITS[name]
        free[name] = max(0, in_pieces - (pick(FRACTIONS) if UNITS[name] > 1 else 0))
    return Resources(free)


def _strangely_left(pick: Pick, zone: Zone) -> Resources:
    """More than there is, of what is nowhere else, or nothing told."""
    free = _left(pick, zone, INCREDIBLE)
    listed = {name: amount for name, amount in free.items() if not pick(SELDOM)}
    return Resources(listed | ({GPU: 2, MEMORY: UNITS[MEMORY]} if pick(SELDOM) else {}))


def _grouped(pick: Pick, zones: tuple[Zone, ...]) -> tuple[Zone, ...]:
    """Zones of which some hold a block of their own, and some one together; or held it."""
    marks, gone = [pick([0, 1, 1, 2]) for _ in zones], pick(SELDOM)
    together = frozenset(zone.id for zone, mark in zip(zones, marks, strict=True) if mark == 1)
    made = []
    for zone, mark in zip(zones, marks, strict=True):
        cells = (frozenset[ZoneId](), together, frozenset({zone.id}))[mark]
        made.append(replace(zone, cells=cells, assignments=0 if gone else min(mark, 1)))
    return tuple(made)


# Nodes of which the machine is known.

SOME_MEMORY = ["8Gi", "8Gi/7Gi/3Gi", "4Gi//0", "8Gi/7Gi", "2Gi"]
STATES = ["", "", "", "*", "x"]
DESCRIBED_IDS = [*FEW_IDS, *FEW_IDS, tuple(range(8))]
WHOLE_CORES = [options("full-pcpus-only", minor=minor) for minor in (None, 34)]


def described(pick: Pick) -> Node:
    """A node of which somebody described the machine, with even cores, and sockets of one or two zones."""
    ids = pick(DESCRIBED_IDS)
    threads, count = pick([1, 2, 2, 2]), pick([1, 2, 4, 3])
    owned = _threads(len(ids), count * threads, devices=pick([True, False]))
    every = range(count * threads * len(ids))
    reserved, busy = _kept(pick, owned, count), _some(pick, every, SOMETIMES)
    placed = pick(OFTEN)
    return machine(
        *(f"cpu={render_list(own)} mem={pick(SOME_MEMORY)}" for own in owned),
        ids=ids,
        threads=threads,
        sockets=pick([(), *([at // 2 * way for at in range(len(ids))] for way in (1, -1))]),
        reserved=render_list(reserved),
        free=render_list(bits(every) & ~reserved & ~busy),
        devices=" ".join(f"{name}={','.join(_devices(pick, ids, placed=placed))}" for name in ("gpu", "nic")),
        costs={(one, other): pick(NEAR) for one in ids for other in ids},
        policy=pick(POLICIES),
        scope=pick(list(Scope)),
        options=pick([*PLAIN, *WHOLE_CORES]) if pick(OFTEN) else pick(OPTIONS),
    )


def _kept(pick: Pick, owned: Sequence[CpuSet], cores: int) -> CpuSet:
    """No CPU, the lowest ones, the first core of a zone or of each, or any."""
    every = [*members(union(owned))]
    firsts = [bits([*members(own)][::cores]) for own in owned]
    return pick([0, bits(every[:1]), bits(every[:2]), firsts[0], union(firsts), _some(pick, every, SELDOM)])


def _threads(zones: int, count: int, *, devices: bool) -> list[CpuSet]:
    """The CPUs of each zone: one zone after another, or each with every so manieth one."""
    every = range(count * zones)
    return [
        bits(every[at::zones] if devices else every[at * count : (at + 1) * count]) for at in range(zones)
    ]


def _some(pick: Pick, every: Sequence[int], often: Sequence[bool]) -> CpuSet:
    return bits(one for one in every if pick(often))


def _devices(pick: Pick, ids: Sequence[int], *, placed: bool) -> list[str]:
    """Devices on zones, a few elsewhere unless all are `placed`, or all unknown; broken, or given out."""
    count, unknown = pick([1, 2, 4]), pick(SELDOM if placed else SOMETIMES)
    places = ("?" if unknown else str(pick(ids)) if placed else _place(pick, ids) for _ in range(count))
    return [place + pick(STATES) for place in places]


def _place(pick: Pick, ids: Sequence[int]) -> str:
    zones = {pick(ids), pick(ids)} if pick(SELDOM) else {pick(ids)}
    return "-" if pick(SELDOM) else "".join(map(str, sorted(zones)))


# Fleets.


def charged(pick: Pick, node: Node) -> Node:
    """The node with a pod or two on it, as its kubelet would have it: its stock is known from then on."""
    for _ in range(pick([1, 2])):
        node = charge(node, admit(node, demands.of(pod(pick))))
    return node


def forgotten(node: Node) -> Node:
    """A node with pods of which only the amounts are known that are left."""
    return replace(node, stock=node.stock if node.machine else None)


CONDITIONS: list[Callable[[Pick, Node], Node]] = [
    *[worn] * 4,
    lambda _, node: node,
    charged,
    lambda pick, node: forgotten(charged(pick, node)),
    lambda pick, node: worn(pick, charged(pick, node)) if node.stock is None else charged(pick, node),
]
LESS: list[Callable[[int], int | None]] = [lambda _: 0, lambda _: None, lambda most: most // 2]
"""What is left of the devices of an ill node; None if nobody tells of them any more."""


def ill(pick: Pick, node: Node) -> Node:
    """The node without some of the devices that it has in health, which may still be in sight."""
    gone, less = frozenset(name for name in (GPU, NIC) if pick(OFTEN)), pick(LESS)
    sight = pick([True, False])

    def rest_of(amounts: Resources) -> Resources:
        amount_left = {name: less(amount) if name in gone else amount for name, amount in amounts.items()}
        return Resources({name: amount for name, amount in amount_left.items() if amount is not None})

    zones = tuple(
        replace(
            zone,
            capacity=zone.capacity if sight else rest_of(zone.capacity),
            allocatable=rest_of(zone.allocatable),
            free=rest_of(zone.free),
        )
        for zone in node.zones
    )
    totals = node.totals and rest_of(node.totals)
    return replace(node, zones=zones, totals=totals, stock=None, health=node.emptied())


def fleet(pick: Pick, *, kinds: Sequence[int] = (1, 2), count: Sequence[int] = (1, 2, 3)) -> tuple[Node, ...]:
    """Nodes of one or several kinds, each under a name of its own."""
    made: list[Node] = []
    for _ in range(pick(kinds)):
        empty = (described if pick(SELDOM) else counted)(pick)
        made += (like(pick, empty) for _ in range(pick(count)))
    return _with_names(made)


def _with_names(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(replace(node, name=f"n{at}") for at, node in enumerate(nodes))


def like(pick: Pick, empty: Node) -> Node:
    """A node of the kind of this one, in some condition."""
    condition = charged if empty.machine else pick(CONDITIONS)
    return in_some_health(pick, condition(pick, empty))


def in_some_health(pick: Pick, node: Node) -> Node:
    """The node as it is, or ill; of one whose machine is described nobody says what it was."""
    return occupied(pick, ill(pick, node) if pick(SELDOM) and not node.machine else node)


def occupied(pick: Pick, node: Node) -> Node:
    """The node with pods with an intent on some of its zones, of which some are to be alone."""
    if not pick(SOMETIMES):
        return node
    zones = frozenset(zone for zone in node.ids if pick(OFTEN))
    alone = frozenset(zone for zone in zones if pick(SOMETIMES))
    return replace(node, occupied=zones, exclusive=alone)


# What pods ask.

CPUS = [1000, 1000, 2000, 2000, 3000, 4000, 1000, 500, 1500, 2000, 5000, 7000]
SIZES = [*[1, 1, 1, 2, 2, 3, 5, 1, 1, 2, 3, 4] * 4, 7, 9, VAST[2], VAST[6]]
PIECES = [*[1, 1, 1, 2, 2, 0, 3, 1, 2, 1, 1, 4] * 4, 6, 9, VAST[4]]
MADE_OF = [
    *[(GPU,), ()] * 4, (NIC,), (GPU, NIC), (HUGE,), (HUGE_2M, GPU), (HUGE, HUGE_2M), (NOWHERE,),
    (STORAGE, GPU),
]  # fmt: skip
ROLES = [Role.APP, Role.APP, Role.INIT, Role.SIDECAR]
BESIDE = {HUGE: 2**30, HUGE_2M: 2**21, GPU: 1, NIC: 1, NOWHERE: 1, STORAGE: 2**30}


def pod(pick: Pick) -> Pod:
    """A pod with an app among its containers: Guaranteed mostly, and sometimes with resources as a whole."""
    original = _of_containers(pick, guaranteed=pick(OFTEN))
    return _as_a_whole(pick, original) if pick(SELDOM) else original


def lone_pod(pick: Pick) -> Pod:
    """A pod of one container."""
    return _of_containers(pick, guaranteed=pick(OFTEN), count=1)


def _of_containers(pick: Pick, *, guaranteed: bool, count: int = 0) -> Pod:
    made = [_container(pick, at, guaranteed=guaranteed) for at in range(count or pick([1, 1, 1, 2, 2, 3]))]
    made[-1] = replace(made[-1], role=Role.APP)
    order = sorted(made, key=lambda container: container.role is Role.APP)
    overhead = Resources({CPU: 250}) if pick(SELDOM) else EMPTY
    return Pod("pod", containers=tuple(order), overhead=overhead)


def _container(pick: Pick, at: int, *, guaranteed: bool) -> Container:
    devices = {name: pick(PIECES) * BESIDE[name] for name in pick(MADE_OF)}
    own = {CPU: pick(CPUS), MEMORY: pick(SIZES) * UNITS[MEMORY] - pick([0, 0, 0, 1])}
    role, amounts = pick(ROLES), Resources(own | devices)
    if guaranteed:
        return Container(f"c{at}", role, amounts, amounts)
    requests = pick([own, {CPU: own[CPU]}, {MEMORY: own[MEMORY]}, {}])
    return Container(f"c{at}", role, Resources(requests | devices), Resources(devices))


def _as_a_whole(pick: Pick, original: Pod) -> Pod:
    """The pod with resources of its own; what some of its containers leave, if anything, others share."""
    own = peak((one.role, one.requests) for one in original.containers)
    more = pick([0, 0, 1, 2])
    stated = Resources({name: own.get(name, 0) + more * UNITS[name] for name in (CPU, MEMORY)})
    limits = pick([stated, stated, stated, Resources({CPU: stated[CPU]})])
    sharing = Container("beside", Role.APP)
    containers = pick([original.containers, (*original.containers, sharing)])
    return replace(original, containers=containers, pod_requests=pick([None, stated]), pod_limits=limits)


NO_INTENT = Intent(Policy.NONE)
RESOURCES: list[tuple[str, ...]] = [
    *[()] * 3, (CPU,), (GPU, CPU), ("*",), (MEMORY, "example.com/*"), ("hugepages-*",), (NOWHERE,),
]  # fmt: skip


def intent(pick: Pick) -> Intent:
    """What the owner of a pod means: often nothing."""
    if pick([True, True, False, False, False]):
        return NO_INTENT
    policy = pick([Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT, Policy.SINGLE_NUMA_NODE])
    return Intent(
        policy,
        pick(RESOURCES),
        pick([None, Scope.POD, None, Scope.POD, Scope.CONTAINER]),
        pick([*[Match.SATISFIES] * 7, Match.EQUAL]),
        exclusive=policy.at_least(Policy.RESTRICTED) and pick(SOMETIMES),
    )


def question(pick: Pick) -> Question:
    """What one pod asks of every node."""
    return _of_dra(pick, Question(demands.of(pick([pod, pod, _tight_pod])(pick)), intent(pick)))


_SERVED = [*[frozenset[str]()] * 7, frozenset({GPU}), frozenset({GPU, NIC}), frozenset({NOWHERE})]
"""What DRA serves on nodes that list none of it."""


def _of_dra(pick: Pick, requested: Question) -> Question:
    """The same where DRA may serve some of the devices."""
    return dra.by_node(requested, pick(_SERVED))


WEIGHTS: list[Weights] = [EVEN, EVEN, {GPU: 3, CPU: 2}, {MEMORY: 0, CPU: 97, NIC: 100, NOWHERE: 7}]


class Case(NamedTuple):
    """A fleet, and one question to all of it."""

    nodes: tuple[Node, ...]
    question: Question
    weights: Weights = EVEN


Size = tuple[Sequence[int], Sequence[int]]
"""How many kinds of nodes, and how many of each."""

SMALL: Size = ((1, 2), (1, 2, 3))
LARGE: Size = ((2, 3), (6, 12))
HUNDREDS: Size = ((1,), (300,))


def case(pick: Pick, *, size: Size = SMALL) -> Case:
    """A fleet and a question: any, some that make it tight, or such that pods are served as a whole."""
    return pick([_any_case, _any_case, _any_case, _tight_case, _tight_case, _whole_case])(pick, size)


def machines(pick: Pick, size: Size) -> Case:
    """Nodes whose machines are described, many of them with pods on them, and a question to all of them."""
    empty = [described(pick) for _ in range(pick(size[0]))]
    nodes = [charged(pick, one) if pick(OFTEN) else one for one in empty for _ in range(pick(size[1]))]
    return Case(_with_names(nodes), question(pick), pick(WEIGHTS))


def _any_case(pick: Pick, size: Size) -> Case:
    return Case(fleet(pick, kinds=size[0], count=size[1]), question(pick), pick(WEIGHTS))


def _tight_case(pick: Pick, size: Size) -> Case:
    kinds = [_tight(pick) for _ in range(pick(size[0]))]
    nodes = (in_some_health(pick, worn(pick, empty)) for empty in kinds for _ in range(pick(size[1])))
    requested = _of_dra(pick, Question(demands.of(_tight_pod(pick)), intent(pick)))
    return Case(_with_names(nodes), requested, pick(WEIGHTS))


def _whole_case(pick: Pick, size: Size) -> Case:
    nodes = fleet(pick, kinds=size[0], count=size[1])
    demand = demands.of(_as_a_whole(pick, _of_containers(pick, guaranteed=True)))
    heeding = tuple(map(_heeding, nodes))
    return Case(heeding, _of_dra(pick, Question(demand, intent(pick))), pick(WEIGHTS))


def _heeding(node: Node) -> Node:
    """The node with a kubelet that serves pods as a whole."""
    health = node.health and _heeding(node.health)
    return replace(node, options=options("PodLevelResourceManagers"), health=health)


# Zones hold about what one container asks for, so that pods take several of them, or do not fit by little.

TIGHT: list[Hardware] = [(2, 2), (4, 4), (3, 3), (4, 3)]
LOOSE: list[Hardware] = [*TIGHT, *TIGHT, (1, 1), (6, 6), None]
SPACIOUS = [(0, 1), (0, 1, 2, 3), (0, 1, 2, 3), (0, 3, 4), tuple(range(8))]
FEW = [1, 1, 1, 2, 2, 2, 3, 3, 4, 6]
BESIDE_CPUS = [(MEMORY, GPU), (MEMORY, GPU), (MEMORY, GPU, NIC), (MEMORY, HUGE), (MEMORY, HUGE, HUGE_2M, GPU)]


def _tight(pick: Pick) -> Node:
    ids, names, cpus = zone_ids(*pick(SPACIOUS)), pick(BESIDE_CPUS), pick(TIGHT)
    alike, even = {name: pick(TIGHT) for name in names}, pick(OFTEN)
    listed = ({CPU: cpus, **(alike if even else {name: pick(LOOSE) for name in names})} for _ in ids)
    made = [_zone(pick, at, has, plain=True) for at, has in zip(ids, listed, strict=True)]
    return Node(
        "node",
        tuple(_with_costs(pick, made)),
        policy=pick(POLICIES),
        scope=pick(list(Scope)),
        options=pick(PLAIN),
        max_zones=pick(MOST_ZONES),
    )


def _tight_pod(pick: Pick) -> Pod:
    made = (_tight_container(pick, at) for at in range(pick([1, 1, 1, 2, 2, 3])))
    return Pod("pod", containers=tuple(made))


def _tight_container(pick: Pick, at: int) -> Container:
    devices = pick([(GPU,), (), (GPU, NIC), (HUGE,), (HUGE, HUGE_2M, GPU)])
    own = {CPU: pick(FEW) * UNITS[CPU], MEMORY: pick(FEW) * UNITS[MEMORY]}
    amounts = Resources(own | {name: pick(FEW) * BESIDE[name] for name in devices})
    return Container(f"c{at}", Role.APP, amounts, amounts)
