"""The sentence a person reads when no node can take a pod, as exact tables."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.fleet import Fleet, Group, Question
from numalign.fleet.survey import LONGEST, OTHERS, TELLING, refusal_text
from numalign.rules.evaluate import evaluate
from numalign.rules.intent import Intent, Policy
from numalign.rules.topology import Node
from numalign.rules.verdict import Cause
from tests.naming import named
from tests.notation import GPU, asks, means, node, options, table

SINGLE, RESTRICTED = "single-numa-node", "restricted"

TWO_GPUS = node("cpu=16 mem=64Gi gpu=2", "cpu=16 mem=64Gi gpu=2", policy=SINGLE)
FOUR_GPUS = node("cpu=32 mem=64Gi gpu=4", "cpu=32 mem=64Gi gpu=4", policy=SINGLE)
NARROW = node("cpu=16 mem=64Gi gpu=4", "cpu=16 mem=64Gi gpu=4", policy=RESTRICTED)
LOOSE = node("cpu=16 mem=64Gi gpu=4", "cpu=16 mem=64Gi gpu=4", policy="none")
APART = node("cpu=16 mem=8Gi gpu=0", "cpu=1 mem=8Gi gpu=1", policy=SINGLE)
WIDE = node("cpu=16 mem=64Gi gpu=8", "cpu=16 mem=64Gi gpu=8", policy=RESTRICTED)
NO_MEMORY = node("cpu=64 gpu=8", "cpu=64 gpu=8", policy=RESTRICTED)

EIGHT = "cpu=8 mem=8Gi gpu=8"
SIX = "cpu=8 mem=8Gi gpu=6"
ALIGNED = means(SINGLE)

# {0} is the class of the first node, {1} of the second, and so on.
EIGHT_OF_FOUR = (
    'no node can align container "c0": single-numa-node needs 8 nvidia.com/gpu in one zone;'
    " the most any zone has is 4 (class {0}, 1 node)."
)
SIX_OF_FOUR = (
    'no node can align container "c0": single-numa-node needs 6 nvidia.com/gpu in one zone;'
    " the most any zone has is 4 (class {0}, 1 node)."
)
AT_MOST_FOUR = " Ask for at most 4 nvidia.com/gpu"

WHY_NOT = [
    # what it shows, the nodes, the containers, the intent, how many are unknown
    ("one thing is short everywhere",
        [TWO_GPUS] * 40, ["cpu=8 mem=8Gi gpu=4"], ALIGNED, 0,
        ('no node can align container "c0": single-numa-node needs 4 nvidia.com/gpu in one zone;'
        " the most any zone has is 2 (class {0}, 40 nodes). Ask for at most 2 nvidia.com/gpu.")),
    ("several things are short: no single advice",
        [FOUR_GPUS], ["cpu=40 mem=80Gi gpu=8"], ALIGNED, 0,
        ('no node can align container "c0": single-numa-node needs 40 cpu, 80Gi memory and 8 nvidia.com/gpu'
        " in one zone; the most any zone has is 32, 64Gi and 4 (class {0}, 1 node).")),
    ("the container that is refused is named",
        [TWO_GPUS], ["cpu=4 mem=8Gi gpu=1", "cpu=20 mem=8Gi"], ALIGNED, 0,
        ('no node can align container "c1": single-numa-node needs 20 cpu in one zone;'
        " the most any zone has is 16 (class {0}, 1 node). Ask for at most 16 cpu.")),
    ("so is what sort of container it is",
        [TWO_GPUS], ["init cpu=20 mem=8Gi", "cpu=2 mem=8Gi"], ALIGNED, 0,
        ('no node can align init container "c0": single-numa-node needs 20 cpu in one zone;'
        " the most any zone has is 16 (class {0}, 1 node). Ask for at most 16 cpu.")),
    ("the pod as a whole is refused, and a looser policy helps",
        [NARROW], ["cpu=12 mem=8Gi", "cpu=12 mem=8Gi"], means(SINGLE, scope="pod"), 0,
        ("no node can align the pod: single-numa-node needs 24 cpu in one zone; the most any zone has is 16"
        ' (class {0}, 1 node). Ask for at most 16 cpu, or use policy "best-effort".')),
    ("the node with the most comes first",
        [FOUR_GPUS, TWO_GPUS, TWO_GPUS], [SIX], ALIGNED, 0,
        f"{SIX_OF_FOUR} 2 nodes have too little as a whole.{AT_MOST_FOUR}."),
    ("others that are short of the same",
        [TWO_GPUS, FOUR_GPUS], ["cpu=8 mem=65Gi gpu=1"], ALIGNED, 0,
        ('no node can align container "c0": single-numa-node needs 65Gi memory in one zone;'
        " the most any zone has is 64Gi (class {0}, 1 node). 1 node has no more."
        " Ask for at most 64Gi memory.")),
    ("several others that are short of the same",
        [FOUR_GPUS, FOUR_GPUS, TWO_GPUS, TWO_GPUS, TWO_GPUS], ["cpu=33 mem=1Gi"], ALIGNED, 0,
        ('no node can align container "c0": single-numa-node needs 33 cpu in one zone;'
        " the most any zone has is 32 (class {0}, 2 nodes). 3 nodes have too little as a whole."
        " Ask for at most 32 cpu.")),
    ("every other cause is counted",
        [FOUR_GPUS, NARROW, TWO_GPUS], [SIX], ALIGNED, 0,
        (f"{SIX_OF_FOUR} 1 node would need different numbers of zones."
        f" 1 node has too little as a whole.{AT_MOST_FOUR}.")),
    ("nodes that align nothing are counted, and save a looser policy",
        [FOUR_GPUS] + [LOOSE] * 12, [EIGHT], ALIGNED, 0,
        f'{EIGHT_OF_FOUR} 12 nodes have kubelet policy "none".{AT_MOST_FOUR}, or use policy "best-effort".'),
    ("one node that aligns nothing",
        [FOUR_GPUS, LOOSE], [EIGHT], ALIGNED, 0,
        f'{EIGHT_OF_FOUR} 1 node has kubelet policy "none".{AT_MOST_FOUR}, or use policy "best-effort".'),
    ("all nodes align nothing",
        [LOOSE, LOOSE], [EIGHT], ALIGNED, 0,
        ('no node can align container "c0": single-numa-node cannot be kept where kubelet policy "none"'
        ' aligns nothing (class {0}, 2 nodes). Use policy "best-effort".')),
    ("nodes without topology are counted",
        [FOUR_GPUS], [EIGHT], ALIGNED, 5,
        f"{EIGHT_OF_FOUR} 5 nodes without topology not counted.{AT_MOST_FOUR}."),
    ("one node without topology",
        [FOUR_GPUS], [EIGHT], ALIGNED, 1,
        f"{EIGHT_OF_FOUR} 1 node without topology not counted.{AT_MOST_FOUR}."),
    ("the resources would need different numbers of zones",
        [WIDE], ["cpu=20 mem=8Gi gpu=1"], means(RESTRICTED), 0,
        ('no node can align container "c0": restricted needs the same zones for all resources; 20 cpu takes'
        " 2 zones, 8Gi memory takes one zone and 1 nvidia.com/gpu takes one zone (class {0}, 1 node).")),
    ("no zone has everything",
        [APART], ["cpu=8 mem=1Gi gpu=1"], ALIGNED, 0,
        ('no node can align container "c0": single-numa-node needs 8 cpu, 1Gi memory and 1 nvidia.com/gpu'
        " in one zone; no zone has all of it (class {0}, 1 node).")),
    ("the kubelet asks for more than the pod does",
        [TWO_GPUS], ["cpu=1 mem=8Gi gpu=3"], means("best-effort"), 0,
        ("no node can align container \"c0\": the kubelet's own single-numa-node needs 3 nvidia.com/gpu in"
        " one zone; the most any zone has is 2 (class {0}, 1 node). Ask for at most 2 nvidia.com/gpu.")),
    ("the pod as a whole is larger than the node in several things",
        [TWO_GPUS], ["cpu=80 mem=8Gi gpu=9"], ALIGNED, 0,
        ("no node can align the pod: it asks for 80 cpu and the node has 32; asks for 9 nvidia.com/gpu and"
        " the node has 4 (class {0}, 1 node).")),
    ("CPUs that are not a container's own cannot be aligned",
        [TWO_GPUS], ["cpu=1500m mem=8Gi gpu=1"], means("single-numa-node cpu"), 0,
        ('no node can align container "c0": single-numa-node of cpu cannot be kept: a container gets CPUs of'
        ' its own only for a whole number of them (class {0}, 1 node). Use policy "best-effort", or give'
        " every container equal requests and limits, and whole CPUs.")),
    ("the kubelet does not align what is named",
        [NO_MEMORY], ["cpu=1 mem=8Gi gpu=1"], means("restricted memory"), 0,
        ('no node can align container "c0": restricted cannot be kept where the kubelet does not align memory'
        ' (class {0}, 1 node). Use policy "best-effort".')),
    ("no node has the very same policy",
        [TWO_GPUS, TWO_GPUS], ["cpu=1 mem=8Gi"], means(RESTRICTED, match="equal"), 0,
        ("no node can align the pod: restricted must be the node's own policy, which is \"single-numa-node\""
        " (class {0}, 2 nodes).")),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "containers", "intent", "unknown", "text"), table(WHY_NOT))
def test_it_is_said_why_not(
    nodes: list[Node], containers: list[str], intent: Intent, unknown: int, text: str
) -> None:
    fleet = Fleet(named(nodes), unknown=unknown)

    said = fleet.why_not(Question(asks(*containers), intent))

    assert said == text.format(*map(fleet.class_of, nodes))


# Whoever reads it must find the advice true.

AMOUNTS = [
    # what is short                     the node   asked for                advised
    ("the devices of a zone",           FOUR_GPUS, ("cpu=8 mem=8Gi gpu={}", 8, 4)),
    ("the CPUs of a zone",              FOUR_GPUS, ("cpu={} mem=8Gi gpu=1", 40, 32)),
]  # fmt: skip


@pytest.mark.parametrize(("member", "asked"), table(AMOUNTS))
def test_an_amount_that_is_advised_fits(member: Node, asked: tuple[str, int, int]) -> None:
    container, much, little = asked
    fleet = Fleet([member])

    text = fleet.why_not(Question(asks(container.format(much)), ALIGNED))
    said = re.search(r"Ask for at most ([0-9]+)", text)

    assert said
    assert int(said[1]) == little
    assert fleet.ever(Question(asks(container.format(little)), ALIGNED)).able


members = st.sampled_from([TWO_GPUS, FOUR_GPUS, NARROW, LOOSE, APART, WIDE, NO_MEMORY])
pods = st.builds("cpu={} mem={}Gi gpu={}".format, st.integers(1, 70), st.integers(1, 140), st.integers(0, 17))


@given(st.lists(members, min_size=1, max_size=5), pods, st.sampled_from(Policy), st.sampled_from(Policy))
def test_a_policy_that_is_advised_is_allowed_and_helps(
    nodes: list[Node], container: str, policy: Policy, floor: Policy
) -> None:
    fleet = Fleet(named(nodes))
    asked = Question(asks(container), means(policy))
    if fleet.ever(asked).able:
        return

    advised = re.findall(r'se policy "(.*?)"', fleet.why_not(asked, floor=floor))

    for word in map(Policy, advised):
        assert word.at_least(floor)
        assert fleet.ever(Question(asked.demand, means(word))).able


FLOORS = [
    # floor         policies that the text may name for a pod that best-effort would save
    ("best-effort", ["best-effort"]),
    ("restricted",  []),
    (SINGLE,        []),
]  # fmt: skip


@pytest.mark.parametrize(("floor", "advised"), FLOORS, ids=[floor for floor, _ in FLOORS])
def test_no_policy_below_the_floor_is_advised(floor: str, advised: list[str]) -> None:
    text = Fleet(named([FOUR_GPUS, LOOSE])).why_not(Question(asks(EIGHT), ALIGNED), floor=Policy(floor))

    assert re.findall(r'use policy "(.*?)"', text) == advised


def test_each_namespace_hears_its_own_floor() -> None:
    fleet, asked = Fleet(named([FOUR_GPUS, LOOSE])), Question(asks(EIGHT), ALIGNED)

    lax, strict = fleet.why_not(asked), fleet.why_not(asked, floor=Policy.SINGLE_NUMA_NODE)

    assert 'use policy "best-effort"' in lax
    assert "use policy" not in strict


# Length.

words = st.text(st.sampled_from("ab-."), min_size=1, max_size=40)


@given(st.lists(words, min_size=1, max_size=40, unique=True), st.integers(0, 10**6))
def test_it_never_exceeds_what_an_event_can_hold(names: list[str], unknown: int) -> None:
    devices = [f"example.com/{name}" for name in names]
    empty = node(" ".join(["cpu=8 mem=8Gi", *(f"{name}=1" for name in devices)]), policy=SINGLE)
    asked = asks(" ".join(["cpu=1 mem=1Gi", *(f"{name}=2" for name in devices)]))

    text = Fleet(named([empty] * 3), unknown=unknown).why_not(Question(asked, ALIGNED))

    assert len(text) <= LONGEST
    assert text.startswith("no node can align ")


def test_what_is_cut_is_the_end() -> None:
    classes = [
        Group(f"class-{number}", 1, evaluate(member, asks(EIGHT), ALIGNED))
        for number, member in enumerate([FOUR_GPUS, NARROW, LOOSE])
    ]
    whole = refusal_text(classes, ALIGNED, unknown=1, looser=None, enough=never)
    long = [replace(each, node_class="a" * LONGEST) for each in classes]
    cut = refusal_text(long, ALIGNED, unknown=1, looser=None, enough=never)

    assert len(cut) <= LONGEST
    assert cut.startswith(whole.partition(" (class")[0])
    assert cut.endswith(" ...")


def test_a_pod_that_fits_has_no_refusal() -> None:
    fits = Group("class", 1, evaluate(FOUR_GPUS, asks("cpu=1 mem=1Gi"), ALIGNED))

    with pytest.raises(ValueError, match="has no refusal"):
        refusal_text([fits], ALIGNED, unknown=0, looser=None, enough=never)


def never(_container: str, _resource: str, _amount: int) -> bool:
    return False


def test_an_amount_that_would_not_fit_either_is_not_advised() -> None:
    """Eight GPUs are in one zone, but with too few CPUs beside them."""
    apart = node("cpu=8 mem=64Gi gpu=4", "cpu=2 mem=64Gi gpu=8", policy="single-numa-node")

    said = Fleet([apart]).why_not(Question(asks("cpu=4 mem=8Gi gpu=9"), ALIGNED))

    assert "the most any zone has is 8" in said
    assert "sk for at most" not in said


def test_the_order_of_the_nodes_changes_nothing() -> None:
    nodes = named([TWO_GPUS, FOUR_GPUS, NARROW, LOOSE])
    asked = Question(asks(EIGHT), ALIGNED)

    assert Fleet(nodes).why_not(asked) == Fleet(nodes[::-1]).why_not(asked)


def test_the_closest_is_the_one_that_has_the_largest_share_of_what_is_shortest() -> None:
    half = node("cpu=32 mem=64Gi gpu=3", "cpu=32 mem=64Gi gpu=5", policy=SINGLE)
    asked = Question(asks("cpu=40 mem=8Gi gpu=8"), ALIGNED)
    fleet = Fleet(named([half, FOUR_GPUS]))
    shares = {GPU: (Fraction(5, 8), Fraction(4, 8)), "cpu": (Fraction(32, 40), Fraction(32, 40))}

    assert min(share for share, _ in shares.values()) > min(share for _, share in shares.values())
    assert f"(class {fleet.class_of(half)}, 1 node). 1 node has no more" in fleet.why_not(asked)


def test_every_cause_can_be_told_of_the_closest_nodes_and_of_the_others() -> None:
    assert set(TELLING) == set(OTHERS) == set(Cause)


def test_a_pod_that_no_core_can_hold_hears_why() -> None:
    cores = node("cpu=16", "cpu=16", policy="restricted", options=options("full-pcpus-only"))
    small = node("cpu=2", policy="restricted")
    fleet = Fleet([cores, replace(small, name="small")])
    text = fleet.why_not(Question(asks("cpu=3 mem=1Gi"), means("restricted")))

    assert "gives out whole cores, 2 CPUs each, and 3 cpu breaks one" in text
    assert "1 node has too little as a whole" in text
