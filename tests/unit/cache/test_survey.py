"""The sentence a person reads when no node can take a pod, as exact tables."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import ClusterCache, Group, Question
from numalign.cache.survey import refusal_text
from numalign.decision.evaluate import evaluate
from numalign.decision.wording import LONGEST
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.shapes import KnownShape, UnknownNode
from numalign.shapes.shape import of
from tests.worlds.naming import named
from tests.worlds.notation import asks, means, node, table

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

EIGHT_OF_FOUR = (
    'no node can align container "c0" as single-numa-node (0 of {} nodes): 1 has at most 4'
    " nvidia.com/gpu in one NUMA zone"
)
AT_MOST_FOUR = ". Request at most 4 nvidia.com/gpu"

WHY_NOT = [
    # what it shows, the nodes, the containers, the intent, how many are unknown
    ("one thing is short everywhere",
        [TWO_GPUS] * 40, ["cpu=8 mem=8Gi gpu=4"], ALIGNED, 0,
        ('no node can align container "c0" as single-numa-node (0 of 40 nodes): 40 have at most 2'
         " nvidia.com/gpu in one NUMA zone. Request at most 2 nvidia.com/gpu.")),
    ("the container that is refused is named",
        [TWO_GPUS], ["cpu=4 mem=8Gi gpu=1", "cpu=20 mem=8Gi"], ALIGNED, 0,
        ('no node can align container "c1" as single-numa-node (0 of 1 node): 1 has at most 16 cpu in one'
         " NUMA zone. Request at most 16 cpu.")),
    ("the pod as a whole is refused, and a looser policy helps",
        [NARROW], ["cpu=12 mem=8Gi", "cpu=12 mem=8Gi"], means(SINGLE, scope="pod"), 0,
        ("no node can align the pod as single-numa-node (0 of 1 node): 1 has at most 16 cpu in one NUMA zone."
        ' Request at most 16 cpu, or set annotation numalign.io/policy to "best-effort".')),
    ("the most telling comes first",
        [FOUR_GPUS, TWO_GPUS, TWO_GPUS], [SIX], ALIGNED, 0,
        f"{EIGHT_OF_FOUR.format(3)}, 2 have at most 4 nvidia.com/gpu in total{AT_MOST_FOUR}."),
    ("what makes a kubelet refuse whatever is asked has its policy beside it",
        [FOUR_GPUS, NARROW, TWO_GPUS], [SIX], ALIGNED, 0,
        (f"{EIGHT_OF_FOUR.format(3)}, 1 would use a different number of NUMA zones per resource (1 for 8"
         ' cpu and 8Gi memory, 2 for 6 nvidia.com/gpu) (Topology Manager policy "restricted"), 1 has at'
         f" most 4 nvidia.com/gpu in total{AT_MOST_FOUR}.")),
    ("nodes that align nothing are counted, and save a looser policy",
        [FOUR_GPUS] + [LOOSE] * 12, [EIGHT], ALIGNED, 0,
        (f'{EIGHT_OF_FOUR.format(13)}, 12 have Topology Manager policy "none"{AT_MOST_FOUR}, or set'
         ' annotation numalign.io/policy to "best-effort".')),
    ("nodes without topology are counted",
        [FOUR_GPUS], [EIGHT], ALIGNED, 5,
        f"{EIGHT_OF_FOUR.format(6)}, 5 publish no NUMA topology{AT_MOST_FOUR}."),
]  # fmt: skip


def hidden(count: int) -> Mapping[str, UnknownNode]:
    return {f"hidden{at}": UnknownNode(f"hidden{at}") for at in range(count)}


@pytest.mark.parametrize(("nodes", "containers", "intent", "unknown", "text"), table(WHY_NOT))
def test_a_denial_explains(
    nodes: list[Node], containers: list[str], intent: Intent, unknown: int, text: str
) -> None:
    cache = ClusterCache.of(named(nodes), unknown=hidden(unknown))

    assert cache.why_not(Question(asks(*containers), intent)) == text


def test_an_advised_amount_fits() -> None:
    cache = ClusterCache.of([FOUR_GPUS])
    advice = re.search(r"Request at most ([0-9]+)", cache.why_not(Question(asks(EIGHT), ALIGNED)))

    assert advice
    assert cache.ever(Question(asks(f"cpu=8 mem=8Gi gpu={advice[1]}"), ALIGNED)).able


members = st.sampled_from([TWO_GPUS, FOUR_GPUS, NARROW, LOOSE, APART, WIDE, NO_MEMORY])
pods = st.builds("cpu={} mem={}Gi gpu={}".format, st.integers(1, 70), st.integers(1, 140), st.integers(0, 17))


@given(st.lists(members, min_size=1, max_size=5), pods, st.sampled_from(Policy), st.sampled_from(Policy))
def test_an_advised_policy_is_allowed_and_helps(
    nodes: list[Node], container: str, policy: Policy, floor: Policy
) -> None:
    cache = ClusterCache.of(named(nodes))
    requested = Question(asks(container), means(policy))
    if cache.ever(requested).able:
        return

    advice = re.findall(r'se policy "(.*?)"', cache.why_not(requested, floor=floor))

    for word in map(Policy, advice):
        assert word.at_least(floor)
        assert cache.ever(Question(requested.demand, means(word))).able


@pytest.mark.parametrize(
    ("floor", "advice"), [("best-effort", ["best-effort"]), ("restricted", []), (SINGLE, [])]
)
def test_no_policy_below_the_floor_is_advised(floor: str, advice: list[str]) -> None:
    cache = ClusterCache.of(named([FOUR_GPUS, LOOSE]))
    text = cache.why_not(Question(asks(EIGHT), ALIGNED), floor=Policy(floor))

    assert re.findall(r'set annotation numalign.io/policy to "(.*?)"', text) == advice


# Length.

words = st.text(st.sampled_from("ab-."), min_size=1, max_size=40)


@given(st.lists(words, min_size=1, max_size=40, unique=True), st.integers(0, 99))
def test_a_text_fits_in_an_event(names: list[str], unknown: int) -> None:
    devices = [f"example.com/{name}" for name in names]
    empty = node(" ".join(["cpu=8 mem=8Gi", *(f"{name}=1" for name in devices)]), policy=SINGLE)
    requested = asks(" ".join(["cpu=1 mem=1Gi", *(f"{name}=2" for name in devices)]))

    text = ClusterCache.of(named([empty] * 3), unknown=hidden(unknown)).why_not(Question(requested, ALIGNED))

    assert len(text) <= LONGEST
    assert text.startswith("no node can align ")
    assert f"(0 of {unknown + 3} nodes)" in text


def test_a_pod_that_fits_has_no_refusal() -> None:
    fits = Group(KnownShape(of(FOUR_GPUS)), 1, evaluate(FOUR_GPUS, asks("cpu=1 mem=1Gi"), ALIGNED))

    assert refusal_text([fits], ALIGNED, unknown=0, looser=None, enough=lambda *_: False) == ""


def test_an_amount_that_does_not_fit_is_not_advised() -> None:
    """Eight GPUs are in one zone, but with too few CPUs beside them."""
    apart = node("cpu=8 mem=64Gi gpu=4", "cpu=2 mem=64Gi gpu=8", policy="single-numa-node")

    text = ClusterCache.of([apart]).why_not(Question(asks("cpu=4 mem=8Gi gpu=9"), ALIGNED))

    assert "has at most 8 nvidia.com/gpu in one NUMA zone" in text
    assert "sk for at most" not in text
