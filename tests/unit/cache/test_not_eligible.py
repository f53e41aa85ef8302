"""Which nodes a pod may go to is known of nodes with a topology and without, as the last snapshot tells."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from numalign.cache.scheduler_cache import NotEligible, SchedulerCache
from numalign.ledger.reservations import Reservations
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.constraints import ANYWHERE, Constraints, Operator, Requirement, Unmet
from numalign.shapes.unknown_node import UnknownNode
from tests.worlds.notation import table
from tests.worlds.scorer import EMPTY

GOLD = Constraints((Requirement("tier", Operator.IN, frozenset({"gold"})),))

NODES = {
    "gold": Attributes(Labels({"tier": "gold"})),
    "silver": Attributes(Labels({"tier": "silver"})),
    "tainted": Attributes(Labels({"tier": "gold"}), (Taint("dedicated"),)),
    "cordoned": Attributes(Labels({"tier": "gold"}), cordoned=True),
    "not ready": Attributes(Labels({"tier": "gold"}), ready=False),
}
BARE = {"bare": Attributes(Labels({"tier": "silver"})), "bare gold": Attributes(Labels({"tier": "gold"}))}


class Cluster:
    def __init__(self) -> None:
        self.reservations = Reservations()
        self.cache = SchedulerCache(self.reservations)

    def become(self, nodes: Mapping[str, Attributes], unknown: Mapping[str, Attributes]) -> "Cluster":
        self.reservations.remove_nodes({*self.reservations.node_names()} - nodes.keys())
        for name, attributes in nodes.items():
            self.reservations.update_node(replace(EMPTY, name=name, attributes=attributes))
        bare = {name: UnknownNode(name, attributes=attributes) for name, attributes in unknown.items()}
        deque(self.cache.set_unknown(bare), maxlen=0)
        return self

    def not_eligible(self, names: Sequence[str], constraints: Constraints) -> Mapping[str, NotEligible]:
        return self.cache.not_eligible(names, constraints, now=0.0)


CLUSTER = Cluster().become(NODES, BARE)
NAMES = [*NODES, *BARE]


def test_nodes_are_not_eligible_for_good_or_for_now() -> None:
    assert CLUSTER.not_eligible(NAMES, GOLD) == {
        "silver": NotEligible(Unmet.AFFINITY, lasting=True),
        "tainted": NotEligible(Unmet.TAINT, lasting=True),
        "cordoned": NotEligible(Unmet.CORDONED, lasting=False),
        "not ready": NotEligible(Unmet.NOT_READY, lasting=False),
        "bare": NotEligible(Unmet.AFFINITY, lasting=True),
    }


def test_unknown_nodes_are_left_out() -> None:
    assert CLUSTER.not_eligible(["nobody"], GOLD) == {}
    assert Cluster().not_eligible(["gold"], GOLD) == {}


def test_nodes_that_are_not_ready_are_tolerated_or_not() -> None:
    assert CLUSTER.not_eligible(["not ready"], Constraints()).keys() == {"not ready"}
    assert CLUSTER.not_eligible(NAMES, ANYWHERE) == {}


CHANGES = [
    # what happens                  the nodes then                                     from which it is kept
    ("nothing",                     ({"a": NODES["gold"]}, {}),                []),
    ("a node is relabelled",        ({"a": NODES["silver"]}, {}),              ["a"]),
    ("it loses its topology",       ({}, {"a": NODES["silver"]}),              ["a"]),
    ("it is gone",                  ({"b": NODES["silver"]}, {}),              []),
]  # fmt: skip


@pytest.mark.parametrize(("then", "names"), table(CHANGES))
def test_answers_follow_the_cluster(then: tuple[Mapping[str, Attributes], ...], names: list[str]) -> None:
    cluster = Cluster().become({"a": NODES["gold"]}, {})
    assert cluster.not_eligible(["a"], GOLD) == {}

    assert [*cluster.become(*then).not_eligible(["a"], GOLD)] == names
