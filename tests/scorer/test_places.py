"""Which nodes a pod may go to is known of nodes with a topology and without, as the last snapshot tells."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from numalign.kube.cluster_state import Snapshot
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.constraints import ANYWHERE, Constraints, Operator, Requirement, Unmet
from numalign.shapes.unknown_node import UnknownNode
from scorer.places import Away, Places
from tests.notation import table
from tests.scorer.conftest import EMPTY

GOLD = Constraints((Requirement("tier", Operator.IN, frozenset({"gold"})),))

NODES = {
    "gold": Attributes(Labels({"tier": "gold"})),
    "silver": Attributes(Labels({"tier": "silver"})),
    "tainted": Attributes(Labels({"tier": "gold"}), (Taint("dedicated"),)),
    "cordoned": Attributes(Labels({"tier": "gold"}), cordoned=True),
    "not ready": Attributes(Labels({"tier": "gold"}), ready=False),
}
BARE = {"bare": Attributes(Labels({"tier": "silver"})), "bare gold": Attributes(Labels({"tier": "gold"}))}


def snapshot(nodes: Mapping[str, Attributes] = NODES, bare: Mapping[str, Attributes] = BARE) -> Snapshot:
    return Snapshot(
        nodes=tuple(replace(EMPTY, name=name, attributes=told) for name, told in nodes.items()),
        unknown=tuple(bare),
        bare={name: UnknownNode(name, attributes=told) for name, told in bare.items()},
    )


NAMES = [*NODES, *BARE]


def test_a_pod_is_kept_away_for_good_or_for_now() -> None:
    assert Places().away(NAMES, GOLD, snapshot()) == {
        "silver": Away(Unmet.AFFINITY, lasting=True),
        "tainted": Away(Unmet.TAINT, lasting=True),
        "cordoned": Away(Unmet.CORDONED, lasting=False),
        "not ready": Away(Unmet.NOT_READY, lasting=False),
        "bare": Away(Unmet.AFFINITY, lasting=True),
    }


def test_it_is_told_of_nodes_that_are_asked_about_alone() -> None:
    assert Places().away(["gold", "silver"], GOLD, snapshot()).keys() == {"silver"}
    assert Places().away([], GOLD, snapshot()) == {}


def test_a_node_that_nobody_tells_of_keeps_nobody_away() -> None:
    assert Places().away(["nobody"], GOLD, snapshot()) == {}
    assert Places().away(["gold"], GOLD, None) == {}


def test_a_pod_waits_for_a_node_that_is_not_ready_unless_it_tolerates_all() -> None:
    assert Places().away(["not ready"], Constraints(), snapshot()).keys() == {"not ready"}
    assert Places().away(NAMES, ANYWHERE, snapshot()) == {}


CHANGES = [
    # what happens                  the nodes then                                     from which it is kept
    ("nothing",                     snapshot({"a": NODES["gold"]}, {}),                []),
    ("a node is relabelled",        snapshot({"a": NODES["silver"]}, {}),              ["a"]),
    ("it loses its topology",       snapshot({}, {"a": NODES["silver"]}),              ["a"]),
    ("it is gone",                  snapshot({"b": NODES["silver"]}, {}),              []),
]  # fmt: skip


@pytest.mark.parametrize(("then", "kept"), table(CHANGES))
def test_places_follow_the_cluster(then: Snapshot, kept: list[str]) -> None:
    places = Places()
    assert places.away(["a"], GOLD, snapshot({"a": NODES["gold"]}, {})) == {}

    assert [*places.away(["a"], GOLD, then)] == kept


def test_what_is_remembered_is_told() -> None:
    places = Places()
    places.away(NAMES, GOLD, snapshot())

    assert {name: len(cache) for name, cache in places.caches().items()} == {"eligible": 1, "labels": 1}
