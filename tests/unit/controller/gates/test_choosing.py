"""The node that a pod is pinned to has zones and room for it, lets it in, and has not just refused it."""

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
"""As many CPUs as a whole as in its one zone."""

TINY = node("cpu=1 mem=1Gi", policy=SINGLE)

SHARED = on("broad", raw("cpu=4500m..5 mem=1Gi", name="shared", policy=None))
"""A pod of no zone that has more than half of that."""


def labelled(made: Node, name: str, zone: str = "") -> Node:
    """The node with a hostname, and a zone."""
    labels = Labels({HOSTNAME_LABEL: f"host-{name}", **({ZONE_LABEL: zone} if zone else {})})
    return node_with(made, Attributes(labels))


def node_with(made: Node, attributes: Attributes) -> Node:
    return replace(made, attributes=attributes)


async def choose(
    scorer: Scorer, made: Raw, *, spread: bool = False, refusing: tuple[str, ...] = ()
) -> ChosenNode | NoNode:
    """What is chosen for a pod."""
    scorer.see(made)
    chooser = Chooser(
        scorer.state,
        scorer.nodes,
        Ranker(RankingRules()),
        NodeFit(scorer.state),
        lambda _pod, _pending: refusing,
    )
    return await chooser.choose(
        scorer.state.pods[made["metadata"]["uid"]], scorer.subject(made), spread=spread
    )


async def test_the_best_node_that_fits(scorer: Scorer) -> None:
    await scorer.know({"small": SMALL, "a": EMPTY})
    chosen = await choose(scorer, raw(FOUR))

    assert isinstance(chosen, ChosenNode)
    assert (chosen.target.node, chosen.target.hostnames) == ("a", ())
    assert chosen.prediction
    assert chosen.prediction.record


async def test_a_node_without_room_as_a_whole_is_none(scorer: Scorer) -> None:
    await scorer.know({"broad": BROAD})
    scorer.see(SHARED)
    chosen = await choose(scorer, raw(FOUR))

    assert chosen == NoNode("0/1 nodes are available: 1 node(s) have too little free in total (numalign)")


async def test_nobody_is_told_of_more_than_the_most_frequent_reasons(scorer: Scorer) -> None:
    await scorer.know({"broad": BROAD, "small": SMALL, "tiny": SMALL, "other": TINY}, unknown=["bare"])
    scorer.see(SHARED)
    chosen = await choose(scorer, raw(FOUR))

    assert isinstance(chosen, NoNode)
    assert chosen.why.startswith("0/5 nodes are available: 2 node(s) have no NUMA zone with 4 cpu")
    assert chosen.why.count("node(s)") == 3


async def test_labels_keep_it_away(scorer: Scorer) -> None:
    await scorer.know({"a": labelled(EMPTY, "a"), "b": labelled(EMPTY, "b")})
    only = raw(FOUR, spec={"nodeSelector": {HOSTNAME_LABEL: "host-b"}})
    nowhere = raw(FOUR, spec={"nodeSelector": {HOSTNAME_LABEL: "host-c"}})

    chosen = await choose(scorer, only)
    assert isinstance(chosen, ChosenNode)
    assert chosen.target.node == "b"
    assert await choose(scorer, nowhere) == NoNode(
        "0/2 nodes are available: 2 node(s) didn't match the pod's node affinity/selector"
    )


async def test_a_node_that_has_just_refused_such_a_pod_comes_last(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})

    first, second = await choose(scorer, raw(FOUR)), await choose(scorer, raw(FOUR), refusing=("a",))
    only = await choose(scorer, raw(FOUR), refusing=("a", "b"))
    for chosen, right in ((first, "a"), (second, "b"), (only, "a")):
        assert isinstance(chosen, ChosenNode)
        assert chosen.target.node == right


async def test_of_nodes_at_hand_the_first_where_nobody_is_waited_for(scorer: Scorer) -> None:
    """Of two pods of all of a zone it is open which comes where, until the first is in."""
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.reserve(raw(ALL, name="first"), "a")
    scorer.reservations.mark_unconfirmed("uid-of-first")

    chosen = await choose(scorer, raw(ALL, name="second"))
    assert isinstance(chosen, ChosenNode)
    assert chosen.target.node == "b"


async def test_who_cannot_be_judged_is_kept_to_all_that_fit(scorer: Scorer) -> None:
    members = {name: labelled(EMPTY, name) for name in "abc"}
    labels = {name: dict(made.attributes.labels) for name, made in members.items()}
    await scorer.know({**members, "small": labelled(SMALL, "small")}, labels=labels)

    chosen = await choose(scorer, raw(FOUR), spread=True)
    assert isinstance(chosen, ChosenNode)
    assert (chosen.target.node, sorted(chosen.target.hostnames)) == ("a", ["host-a", "host-b", "host-c"])


def hosts(zones: dict[str, int]) -> dict[str, dict[str, str]]:
    """So many nodes of each zone, by name."""
    return {
        f"{zone}-{number}": {HOSTNAME_LABEL: f"host-{zone}-{number}", ZONE_LABEL: zone}
        for zone, count in zones.items()
        for number in range(count)
    }


def test_of_very_many_nodes_no_zone_is_left_out() -> None:
    labels = hosts({"a": 1000, "b": 10, "c": 400})
    kept = kept_to(labels, labels)

    assert (len(kept), kept[0]) == (MOST_KEPT, "host-a-0")
    assert sum(name.startswith("host-b") for name in kept) == 10
    assert len({name.split("-")[1] for name in kept}) == 3
    assert abs(sum(name.startswith("host-a") for name in kept) - 123) <= 1


def test_who_has_no_hostname_cannot_be_kept_to() -> None:
    assert kept_to(["a", "b", "a"], {"a": {}, "b": {HOSTNAME_LABEL: "host-b"}}) == ("host-b",)


@pytest.mark.parametrize("count", [1, AT_HAND, AT_HAND + 4])
async def test_any_number_of_nodes_may_have_refused(scorer: Scorer, count: int) -> None:
    names = [f"n{number}" for number in range(AT_HAND + 5)]
    await scorer.know(dict.fromkeys(names, EMPTY))
    chosen = await choose(scorer, raw(FOUR), refusing=tuple(names[:count]))

    assert isinstance(chosen, ChosenNode)
    assert chosen.target.node == names[count]
