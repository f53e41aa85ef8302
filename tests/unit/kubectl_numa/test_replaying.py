"""A node as things happen to it: what is charged, what comes back, and when."""

from dataclasses import replace

import pytest

from kubectl_numa.events import BadLine, Created, Deleted, NodeEvent, Observed, Started
from kubectl_numa.replaying import PredictedAdmission, Session, follow
from numalign.kubelet.observed_state import FreeByZone, ObservedContainer
from numalign.model.bitset import bits
from numalign.model.demand import WHOLE_POD
from numalign.model.machine import Core, Machine, device_places
from numalign.model.node import Known, Node
from numalign.model.options import CpuOption, FeatureGate, Options
from numalign.model.resources import Resources, ZoneId
from tests.worlds.notation import GPU, bag, free_of, node, pod, table, zone_ids

# Two zones of which each keeps one of its four CPUs for the system.
ZONE = "cpu=4/3 mem=8Gi/7Gi"
LEVEL = bag("cpu=2 mem=2Gi")
GATED = Options(gates=frozenset(FeatureGate))
PLAIN = node("cpu=4/3 mem=8Gi/7Gi gpu=2", "cpu=4/3 mem=8Gi/7Gi gpu=2", policy="single-numa-node")


def described(plain: Node = PLAIN) -> Node:
    """The node with its machine: cores of one thread, GPUs in their zones."""
    ids = zone_ids(0, 1)
    cores = (Core(ZoneId(at // 4), at // 4, at // 4, bits([at])) for at in range(8))
    gpus = device_places(ids, [(frozenset({zone}), True) for zone in ids for _ in range(2)])
    made = Machine(ids, tuple(cores), reserved=bits([0, 4]), devices=((GPU, gpus),))
    return replace(plain, machine=made, known=Known.MACHINE)


def create(name: str, *containers: str) -> Created:
    return Created(replace(pod(*containers), name=name))


def walk(start: Node, *happened: NodeEvent) -> tuple[Session, list[PredictedAdmission]]:
    """What is in the end, and every answer on the way."""
    session, answers = follow(None, Started(start))[0], []
    for event in happened:
        session, answer = follow(session, event)
        answers += [answer] if answer else []
    return session, answers


def cpu_left(session: Session) -> list[int]:
    return free_of(session.node, "cpu")


def seen(container: str, zone: int, **amounts: int) -> ObservedContainer:
    return ObservedContainer(container, None, {zone_ids(zone): Resources(amounts)})


def took(name: str, *containers: ObservedContainer, left: FreeByZone | None = None) -> Observed:
    return Observed(name, containers, left)


def refused(name: str) -> Observed:
    return Observed(name, None)


BIG = create("big", "cpu=3 mem=1Gi")
SMALL = create("small", "cpu=2 mem=1Gi")
# Its first container is served before its second one is refused.
HALF = create("half", "cpu=2 mem=1Gi | cpu=9 mem=1Gi")


def test_an_admitted_pod_is_charged() -> None:
    session, [answer] = walk(PLAIN, BIG)
    assert (answer.reason, cpu_left(session)) == (None, [0, 3])


def test_a_new_node_starts_over() -> None:
    session, answers = walk(PLAIN, BIG, Started(PLAIN), BIG)
    assert [answer.reason for answer in answers] == [None, None]
    assert cpu_left(session) == [0, 3]


def test_a_deleted_pod_gives_back_when_the_next_one_asks() -> None:
    session, _ = walk(PLAIN, BIG, Deleted("big"))
    assert cpu_left(session) == [0, 3]
    session, _ = walk(PLAIN, BIG, Deleted("big"), create("none", "mem=1Gi"))
    assert cpu_left(session) == [3, 3]
    session, _ = walk(PLAIN, BIG, Deleted("big"), BIG)
    assert cpu_left(session) == [0, 3]


def test_what_a_refused_pod_was_given_is_gone_until_the_next_one_asks() -> None:
    session, [answer] = walk(PLAIN, HALF)
    assert (answer.reason, cpu_left(session)) == ("TopologyAffinityError", [1, 3])
    session, answers = walk(PLAIN, HALF, BIG)
    assert (answers[1].reason, cpu_left(session)) == (None, [0, 3])


def test_a_refused_pod_can_be_deleted_or_asked_for_again() -> None:
    session, answers = walk(PLAIN, HALF, HALF, Deleted("half"), BIG)
    assert [bool(answer.reason) for answer in answers] == [True, True, False]
    assert cpu_left(session) == [0, 3]


@pytest.mark.parametrize(
    ("happened", "left"),
    table(
        [
            ("at once", [SMALL, took("small", seen("c0", 1, cpu=2000, memory=5))], [3, 1]),
            (
                "twice",
                [
                    SMALL,
                    took("small", seen("c0", 0, cpu=2000)),
                    took("small", seen("c0", 1, cpu=2000)),
                ],
                [3, 1],
            ),
            (
                "after another pod came",
                [SMALL, BIG, took("small", seen("c0", 1, cpu=2000))],
                [0, 1],
            ),
            ("as refused", [SMALL, refused("small")], [3, 3]),
            ("as refused, after another pod came", [SMALL, BIG, refused("small")], [0, 3]),
            (
                "as refused, and then as admitted",
                [SMALL, refused("small"), took("small", seen("c0", 1, cpu=2000))],
                [3, 1],
            ),
            ("as refused, as it was", [HALF, refused("half")], [1, 3]),
            (
                "as admitted, where it was refused",
                [HALF, took("half", seen("c0", 1, cpu=2000), seen("c1", 0, cpu=3000))],
                [0, 1],
            ),
            (
                "as admitted, where it was refused, and then another pod comes",
                [
                    HALF,
                    took("half", seen("c0", 1, cpu=2000), seen("c1", 0, cpu=1000)),
                    create("more", "cpu=2 mem=1Gi"),
                ],
                [0, 1],
            ),
            (
                "without any container",
                [SMALL, took("small")],
                [3, 3],
            ),
            (
                "and then deleted",
                [
                    SMALL,
                    took("small", seen("c0", 1, cpu=2000)),
                    Deleted("small"),
                    create("none", "mem=1Gi"),
                ],
                [3, 3],
            ),
            (
                "where one that was predicted to fit does not any more",
                [SMALL, BIG, took("small", seen("c0", 0, cpu=1000), seen("c0", 1, cpu=1000))],
                [2, 2],
            ),
            (
                "one after the other, the older one last",
                [
                    SMALL,
                    BIG,
                    took("big", seen("c0", 0, cpu=3000)),
                    took("small", seen("c0", 1, cpu=2000)),
                ],
                [0, 1],
            ),
            (
                "one after the other, the older one first",
                [
                    SMALL,
                    BIG,
                    took("small", seen("c0", 1, cpu=2000)),
                    took("big", seen("c0", 0, cpu=3000)),
                ],
                [0, 1],
            ),
        ]
    ),
)
def test_a_pod_is_observed(happened: list[NodeEvent], left: list[int]) -> None:
    session, _ = walk(PLAIN, *happened)
    assert cpu_left(session) == left


def test_what_is_left_right_after_a_pod_settles_how_memory_was_split() -> None:
    wide = replace(PLAIN, policy=node("cpu=1", policy="best-effort").policy)
    given = ObservedContainer("c0", None, {zone_ids(0, 1): Resources({"memory": 8 * 2**30})})
    left = {
        zone_ids(0): Resources({"memory": 6 * 2**30}),
        zone_ids(1): Resources({"memory": 0}),
    }
    both = create("wide", "cpu=500m mem=8Gi")
    session, _ = walk(wide, both, took("wide", given, left=left))
    assert free_of(session.node, "mem") == [6, 0]

    late, _ = walk(wide, both, create("none", "cpu=500m"), took("wide", given, left=left))
    assert free_of(late.node, "mem") == [6, 0], "the same, however late it is told"


FIRST = ObservedContainer("c0", bits([1, 2]), {zone_ids(0): bag("cpu=2 mem=1Gi")})
ASKS = "cpu=2 mem=1Gi"


def test_a_guess_that_has_left_gives_back_nothing_that_was_really_given_to_another() -> None:
    """It turns out that the second has what the first one was thought to have."""
    session, _ = walk(
        described(), create("a", ASKS), create("b", ASKS), Deleted("a"), took("b", FIRST), create("c", ASKS)
    )

    assert session.now.pods["b"].held is not None
    assert session.now.pods["c"].held is not None
    assert not session.now.pods["b"].held.cpus & session.now.pods["c"].held.cpus


def test_on_uneven_sockets_two_pods_can_really_hold_the_same_cpu() -> None:
    """So what is seen of one says nothing against what was guessed of the other."""
    cores = (Core(ZoneId(at // 4), at // 4, at // 4, bits([at])) for at in range(6))
    made = Machine(zone_ids(0, 1), tuple(cores), reserved=bits([5]))
    uneven = replace(described(), machine=made, stock=None)
    both = ObservedContainer("c0", bits([0, 1]), {zone_ids(0): bag("cpu=2 mem=1Gi")})
    session, _ = walk(uneven, create("a", "cpu=1 mem=1Gi"), create("b", ASKS), took("b", both))

    held = session.now.pods["a"].held
    assert held is not None
    assert held.cpus == bits([0])


def test_who_is_observed_twice_is_charged_once() -> None:
    truth = took("b", FIRST)
    once, _ = walk(described(), create("a", ASKS), create("b", ASKS), truth)
    twice, _ = walk(described(), create("a", ASKS), create("b", ASKS), truth, truth)
    gone, _ = walk(described(), create("b", ASKS), truth, truth, Deleted("b"), create("c", "cpu=500m.."))

    assert once.node == twice.node
    assert gone.node.stock == described().stock


def test_turns_that_nothing_can_change_are_forgotten() -> None:
    truth = took("a", FIRST)
    once: list[NodeEvent] = [create("a", ASKS), truth, Deleted("a")]
    session, _ = walk(described(), *once * 50)

    assert len(session.turns) <= 2


def test_observed_cpus_count_on_a_described_machine_and_their_number_elsewhere() -> None:
    told = took("small", ObservedContainer("c0", bits([5, 7]), {zone_ids(1): Resources({"cpu": 2000})}))
    session, _ = walk(described(), SMALL, told)
    assert session.node.stock is not None
    assert session.node.stock.cpus == bits([1, 2, 3, 6])
    plain, _ = walk(PLAIN, SMALL, told)
    assert cpu_left(plain) == cpu_left(session) == [3, 1]


def test_containers_are_observed_in_the_order_of_their_admission() -> None:
    """An app container uses the CPUs of the init container again, however they are listed."""
    asked = create("two", "init cpu=2 mem=1Gi | cpu=2 mem=1Gi")
    init, app = (
        ObservedContainer(name, bits([1, 2]), {zone_ids(0): Resources({"cpu": 2000})})
        for name in ("c0", "c1")
    )
    for listed in ((init, app), (app, init)):
        session, _ = walk(described(), asked, took("two", *listed))
        assert cpu_left(session) == [1, 3]


@pytest.mark.parametrize(
    ("happened", "said"),
    table(
        [
            ("deleted, and never came", [Deleted("x")], 'delete: there is no pod "x" on the node'),
            (
                "deleted twice",
                [BIG, Deleted("big"), Deleted("big")],
                'delete: there is no pod "big" on the node',
            ),
            (
                "observed, and never came",
                [BIG, took("x")],
                'observed.pod: there is no pod "x" on the node',
            ),
            (
                "observed on another node",
                [BIG, Started(PLAIN), took("big")],
                'observed.pod: there is no pod "big" on the node',
            ),
            (
                "created twice",
                [BIG, BIG],
                'create.metadata.name: "big" is already on the node: delete it first',
            ),
            (
                "observed with what is not there",
                [
                    BIG,
                    took(
                        "big",
                        ObservedContainer("x", bits([1]), {zone_ids(0, 3): Resources()}),
                        ObservedContainer("c0", bits([9]), {}),
                        left={zone_ids(2): Resources()},
                    ),
                ],
                (
                    "observed.containers.x: the pod has no such container\nobserved.containers.x.amounts:"
                    " there is no zone 3 on this node\nobserved.containers.c0.cpus: CPU 9 is not on this"
                    " machine\nobserved.free: there is no zone 2 on this node"
                ),
            ),
        ]
    ),
)
def test_what_cannot_be_is_told(happened: list[NodeEvent], said: str) -> None:
    with pytest.raises(BadLine) as raised:
        walk(described(), *happened)
    assert str(raised.value) == said


@pytest.mark.parametrize("event", [BIG, Deleted("x"), took("x")], ids=["create", "delete", "observed"])
def test_nothing_can_happen_before_there_is_a_node(event: NodeEvent) -> None:
    with pytest.raises(BadLine, match="there is no node yet: the first event must be a node"):
        follow(None, event)


def test_an_answer_tells_what_every_container_gets() -> None:
    asked = create("p", "cpu=2 mem=1Gi gpu=1 | cpu=500m mem=1Gi")
    _, [answer] = walk(described(), asked)
    assert answer.to_json() == {
        "pod": "p",
        "admitted": True,
        "containers": {
            "c0": {
                "affinity": (0,),
                "preferred": True,
                "cpus": "1-2",
                "amounts": {"0": {"cpu": 2000, "memory": 2**30, GPU: 1}},
            },
            "c1": {"affinity": (0,), "preferred": True, "amounts": {"0": {"memory": 2**30}}},
        },
        "known": "machine",
        "doubts": ["no-version"],
    }


def test_an_answer_names_no_cpus_of_a_machine_that_is_only_assumed() -> None:
    _, [answer] = walk(PLAIN, SMALL)
    assert answer.to_json()["containers"]["c0"] == {
        "affinity": (0,),
        "preferred": True,
        "amounts": {"0": {"cpu": 2000, "memory": 2**30}},
    }
    assert answer.to_json()["known"] == "counts"


def test_an_answer_says_where_the_kubelet_picks_at_random() -> None:
    loose = replace(PLAIN, policy=node("cpu=1", policy="none").policy)
    _, [answer] = walk(loose, create("p", "gpu=1"))
    assert answer.to_json()["containers"]["c0"]["choices"] == (GPU,)


def test_a_refusal_has_the_kubelets_reason_and_a_sentence() -> None:
    _, [answer] = walk(PLAIN, create("p", "cpu=4 mem=1Gi"))
    assert answer.to_json() == {
        "pod": "p",
        "admitted": False,
        "reason": "TopologyAffinityError",
        "message": (
            'container "c0": the node has at most 3 cpu free in one NUMA zone (Topology Manager policy'
            ' "single-numa-node")'
        ),
        "containers": {},
        "known": "counts",
        "doubts": ["options", "no-version"],
    }


def test_an_answer_without_doubts_speaks_of_none() -> None:
    known = replace(described(), options=Options(minor=34))
    for asked in ("cpu=2 mem=1Gi", "cpu=9 mem=1Gi"):
        _, [answer] = walk(known, create("p", asked))
        assert "doubts" not in answer.to_json()


def test_doubts_are_about_the_pod_as_its_node_reads_it() -> None:
    """With their gate on, the managers no longer leave the containers of such a pod alone."""
    counted = node(*[ZONE] * 2, policy="restricted", scope="pod")
    asked = replace(pod("cpu=1 mem=1Gi | cpu=500m.."), name="p", pod_requests=LEVEL, pod_limits=LEVEL)
    whole_cores = frozenset({CpuOption.FULL_PCPUS_ONLY})
    said = []
    for gates in (frozenset[FeatureGate](), frozenset(FeatureGate)):
        told = replace(counted, options=Options(whole_cores, gates=gates, minor=36))
        _, [answer] = walk(told, Created(asked))
        said.append("threads" in answer.to_json().get("doubts", []))
    assert said == [False, True]


@pytest.mark.parametrize(
    ("policy", "asked", "reason", "message"),
    table(
        [
            (
                "not of the node as a whole, which has too little as well",
                "none",
                "cpu=1000 mem=1Gi",
                "SMTAlignmentError",
                'container "c0": the node has at most 2 cpu free in whole cores',
            ),
            (
                "not of the node while it was empty, which had too little as well",
                "single-numa-node",
                "cpu=4 mem=1Gi",
                "TopologyAffinityError",
                (
                    'container "c0": the node has at most 1 cpu free in one NUMA zone'
                    ' (Topology Manager policy "single-numa-node")'
                ),
            ),
        ]
    ),
)
def test_a_refusal_speaks_of_the_admission(policy: str, asked: str, reason: str, message: str) -> None:
    plain = replace(PLAIN, policy=node("cpu=1", policy=policy).policy)
    strict = replace(described(plain), options=Options(frozenset({CpuOption.FULL_PCPUS_ONLY}), minor=34))
    also = replace(SMALL, pod=replace(SMALL.pod, name="also"))
    _, answers = walk(strict, SMALL, also, create("huge", asked))
    assert (answers[2].reason, answers[2].message) == (reason, message)


def test_a_container_that_gets_nothing_of_its_own_has_no_amounts() -> None:
    _, [answer] = walk(described(), create("p", "cpu=1.."))
    assert answer.to_json()["containers"] == {"c0": {"affinity": None, "preferred": True, "amounts": {}}}


def test_a_pod_that_is_served_as_a_whole_says_what_its_containers_divide() -> None:
    """From Kubernetes 1.36 on, behind a gate."""
    gated = replace(described(node(*[ZONE] * 2, policy="restricted", scope="pod")), options=GATED)
    asked = replace(pod("cpu=1 mem=1Gi | cpu=500m.."), name="p", pod_requests=LEVEL, pod_limits=LEVEL)
    session, [answer] = walk(gated, Created(asked))
    told = answer.to_json()
    assert told["shared"] == {"cpus": "1-2", "amounts": {"0": {"cpu": 2000, "memory": 2 * 2**30}}}
    assert told["containers"]["c0"]["cpus"] == "1"
    assert cpu_left(session) == [1, 3]

    shared = ObservedContainer(WHOLE_POD, bits([5, 6]), {zone_ids(1): LEVEL})
    session, _ = walk(gated, Created(asked), took("p", seen("c0", 1, cpu=1000), shared))
    assert cpu_left(session) == [3, 1]
