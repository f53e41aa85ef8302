"""The node that a pod is pinned to has zones and room for it, admits it, and has not just rejected it."""

from dataclasses import replace

import pytest

from controller.gates.choosing import AT_HAND, MOST_KEPT, ZONE_LABEL, Chooser, ChosenNode, NoNode, kept_to
from controller.gates.pin import HOSTNAME_LABEL
from numalign.model.attributes import Attributes, Labels
from numalign.model.node import Node
from numalign.scheduling.node_fit import NodeFit
from numalign.scheduling.ranking import Ranker, RankingRules
from tests.worlds.notation import node
from tests.worlds.scorer import ALL, EMPTY, FOUR, SINGLE, SMALL, Raw, Scorer, on, raw

BROAD = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE, totals="cpu=8 mem=16Gi gpu=2")
"""As many CPUs in total as in its one zone."""

TINY = node("cpu=1 mem=1Gi", policy=SINGLE)

SHARED = on("broad", raw("cpu=4500m..5 mem=1Gi", name="shared", policy=None))
"""A pod of no zone that has more than half of that."""


def labelled(made: Node, name: str) -> Node:
    return replace(made, attributes=Attributes(Labels({HOSTNAME_LABEL: f"host-{name}"})))


async def choose(
    scorer: Scorer, made: Raw, *, spread: bool = False, refusing: tuple[str, ...] = ()
) -> ChosenNode | NoNode:
    scorer.see(made)
    fit, pod = NodeFit(scorer.state), scorer.state.pods[made["metadata"]["uid"]]
    chooser = Chooser(scorer.state, scorer.nodes, Ranker(RankingRules()), fit, lambda *_pod: refusing)
    return await chooser.choose(pod, scorer.subject(made), spread=spread)


async def target(scorer: Scorer, made: Raw, *, refusing: tuple[str, ...] = ()) -> str:
    chosen = await choose(scorer, made, refusing=refusing)
    assert isinstance(chosen, ChosenNode)
    return chosen.target.node


async def test_three_most_frequent_reasons_are_given(scorer: Scorer) -> None:
    await scorer.know({"broad": BROAD})
    scorer.see(SHARED)
    why = "0/1 nodes are available: 1 node(s) have too little free in total (numalign)"
    assert await choose(scorer, raw(FOUR)) == NoNode(why)

    await scorer.know({"broad": BROAD, "small": SMALL, "tiny": SMALL, "other": TINY}, unknown=["bare"])
    chosen = await choose(scorer, raw(FOUR))
    assert isinstance(chosen, NoNode)
    assert chosen.why.startswith("0/5 nodes are available: 2 node(s) have no NUMA zone with 4 cpu")
    assert chosen.why.count("node(s)") == 3


async def test_node_must_match_the_selector(scorer: Scorer) -> None:
    await scorer.know({"a": labelled(EMPTY, "a"), "b": labelled(EMPTY, "b")})

    assert await target(scorer, raw(FOUR, spec={"nodeSelector": {HOSTNAME_LABEL: "host-b"}})) == "b"
    nowhere = raw(FOUR, spec={"nodeSelector": {HOSTNAME_LABEL: "host-c"}})
    why = "0/2 nodes are available: 2 node(s) didn't match the pod's node affinity/selector"
    assert await choose(scorer, nowhere) == NoNode(why)


async def test_ready_node_comes_before_one_with_a_wait(scorer: Scorer) -> None:
    """Where the second pod of a zone goes on a node is unknown until the first one is admitted."""
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.reserve(raw(ALL, name="first"), "a")
    scorer.reservations.mark_unconfirmed("uid-of-first")

    assert await target(scorer, raw(ALL, name="second")) == "b"


@pytest.mark.parametrize("count", [0, 1, AT_HAND, AT_HAND + 4, AT_HAND + 5])
async def test_node_that_just_rejected_such_a_pod_comes_last(scorer: Scorer, count: int) -> None:
    names = [f"n{number}" for number in range(AT_HAND + 5)]
    await scorer.know(dict.fromkeys(names, EMPTY))

    assert await target(scorer, raw(FOUR), refusing=tuple(names[:count])) == names[count % len(names)]


async def test_spread_pod_is_restricted_to_all_fitting_nodes(scorer: Scorer) -> None:
    members = {name: labelled(EMPTY, name) for name in "abc"}
    labels = {name: dict(made.attributes.labels) for name, made in members.items()}
    await scorer.know({**members, "small": labelled(SMALL, "small")}, labels=labels)

    chosen = await choose(scorer, raw(FOUR), spread=True)
    assert isinstance(chosen, ChosenNode)
    assert (chosen.target.node, sorted(chosen.target.hostnames)) == ("a", ["host-a", "host-b", "host-c"])


def test_restriction_has_nodes_of_every_zone() -> None:
    labels = {
        f"{zone}-{number}": {HOSTNAME_LABEL: f"host-{zone}-{number}", ZONE_LABEL: zone}
        for zone, count in {"a": 1000, "b": 10, "c": 400}.items()
        for number in range(count)
    }
    hosts = kept_to([*labels, "nameless"], {**labels, "nameless": {}})

    assert (len(hosts), hosts[0]) == (MOST_KEPT, "host-a-0")
    assert sum(name.startswith("host-b") for name in hosts) == 10
    assert abs(sum(name.startswith("host-a") for name in hosts) - 123) <= 1
