"""
Laws of members of a pod group, of any sizes, that a scheduler tries one after another.

It may use some of the nodes for each, and takes the best of those that are left. Whoever is refused
everywhere could not have been placed by any other choice; and equal members that can use all nodes get what
they were offered.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import admit as kubelet
from numalign.model.node import Node
from numalign.runtime.cooperative import result_of
from scorer.handlers import CallContext
from tests.worlds.notation import asks, node
from tests.worlds.scorer import SINGLE, Raw, Scorer, raw

ZONES = ["cpu=8 mem=8Gi gpu=2", "cpu=4 mem=8Gi gpu=1"]
SIZES = ["cpu=8 mem=1Gi gpu=2", "cpu=4 mem=1Gi gpu=1", "cpu=3 mem=1Gi"]
NODES = ("a", "b", "c")


@dataclass(frozen=True)
class Round:
    """Nodes, and members with the nodes that a scheduler can use for them."""

    nodes: Mapping[str, Node]
    members: Sequence[tuple[str, Sequence[str]]]


def some(size: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, list[str]]]]:
    """Members of these sizes."""
    names = st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True)
    return st.lists(st.tuples(size, names), min_size=2, max_size=5)


any_node = st.lists(st.sampled_from(ZONES), min_size=1, max_size=2).map(
    lambda zones: node(*zones, policy=SINGLE)
)
ROUNDS = st.builds(
    Round,
    st.fixed_dictionaries(dict.fromkeys(NODES, any_node)),
    st.one_of(some(st.sampled_from(SIZES)), *(some(st.just(size)) for size in SIZES)),
)


def member(at: int, size: str) -> Raw:
    """The pod, as the API server has it."""
    return raw(size, name=f"m{at}", spec={"schedulingGroup": {"podGroupName": "gang"}})


async def tried(context: CallContext, made: Raw, names: Sequence[str]) -> str | None:
    """The node that a scheduler takes; None if there is none."""
    pod = context.pending_pod(made)
    alone, _ = context.nodes.filtered(names, pod)
    remaining = (await result_of(context.groups.filtered(pod, alone))).fit
    ranks = await context.ranks(remaining, pod)
    best = ranks.best(remaining)
    if best is None:
        return None
    context.take(pod, remaining[best])
    return remaining[best]


async def offered(case: Round) -> tuple[Scorer, list[str | None]]:
    """A scorer, and the node of each member."""
    scorer = Scorer()
    await scorer.know(case.nodes)
    made = [member(at, size) for at, (size, _) in enumerate(case.members)]
    scorer.see(*made)
    pairs = zip(made, case.members, strict=True)
    return scorer, [await tried(scorer.context, pod, names) for pod, (_, names) in pairs]


def placeable(case: Round, count: int) -> bool:
    """Whether so many of the members could all be placed, one after another."""
    members = case.members[:count]
    for places in product(*(names for _, names in members)):
        remaining = dict(case.nodes)
        for (size, _), place in zip(members, places, strict=True):
            admission = kubelet.admit(remaining[place], asks(size))
            if admission.refusal:
                break
            remaining[place] = kubelet.charge(remaining[place], admission)
        else:
            return True
    return False


@given(ROUNDS)
def test_no_member_that_could_be_placed_is_refused(case: Round) -> None:
    _, places = asyncio.run(offered(case))
    refused = next((at for at, place in enumerate(places) if place is None), None)

    assert refused is None or not placeable(case, refused + 1)


@given(ROUNDS)
def test_equal_members_get_the_zones_that_they_were_offered(case: Round) -> None:
    [(size, _), *_] = case.members
    scorer, places = asyncio.run(offered(Round(case.nodes, [(size, NODES)] * len(case.members))))
    remaining = dict(case.nodes)
    for place in filter(None, places):
        admission = kubelet.admit(remaining[place], asks(size))
        assert not admission.refusal
        remaining[place] = kubelet.charge(remaining[place], admission)
    assert scorer.kept() == {}
