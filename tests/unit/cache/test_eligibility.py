"""Which nodes a pod may go to is known of all of them at once, and costs little whatever the pod says."""

from dataclasses import replace
from time import process_time

import pytest

from numalign.cache.eligibility import MOST_KEYS, REMEMBERED, Eligibility
from numalign.cache.node_table import NodeTable
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.constraints import (
    ANYWHERE,
    NAME_FIELD,
    Constraints,
    Operator,
    Requirement,
    Term,
    Toleration,
)
from numalign.model.node import Node
from tests.worlds.notation import node, table

PLAIN = node("cpu=8 gpu=4", policy="restricted")
GPU_TAINT, PASSING = Taint("nvidia.com/gpu"), Taint("node.kubernetes.io/memory-pressure")

GOLD, SILVER = Labels({"tier": "gold", "pool": "a"}), Labels({"tier": "silver", "pool": "b"})

NODES = {
    "gold": Attributes(GOLD),
    "silver": Attributes(SILVER),
    "tainted": Attributes(GOLD, (GPU_TAINT,)),
    "cordoned": Attributes(SILVER, cordoned=True),
    "not ready": Attributes(GOLD, ready=False),
    "pressed": Attributes(GOLD, (PASSING,)),
}


def node_with(name: str, attributes: Attributes) -> Node:
    return replace(PLAIN, name=name, attributes=attributes)


def tables(nodes: dict[str, Attributes] = NODES) -> NodeTable:
    made = NodeTable()
    for name, attributes in nodes.items():
        made.put(node_with(name, attributes))
    return made


def names_of(nodes: NodeTable, which: list[bool]) -> list[str]:
    return [one.name for one, chosen in zip(nodes, which, strict=True) if chosen]


def tier(*words: str, operator: Operator = Operator.IN) -> Requirement:
    return Requirement("tier", operator, frozenset(words))


def name_is(name: str) -> Term:
    return Term(fields=(Requirement(NAME_FIELD, Operator.IN, frozenset({name})),))


PLACES = [
    # what the pod says            may ever go to                                         and now to
    (Constraints(),                "gold, silver, cordoned, not ready, pressed",          "gold, silver"),
    (ANYWHERE,                     "gold, silver, tainted, cordoned, not ready, pressed",
                                                  "gold, silver, tainted, cordoned, not ready, pressed"),
    (Constraints((tier("gold"),)), "gold, not ready, pressed",                            "gold"),
    (Constraints((tier("gold"), Requirement("pool", Operator.IN, frozenset("b")))),  "",  ""),
    (Constraints(terms=(Term((tier("silver"),)), name_is("gold"))), "gold, silver, cordoned", "gold, silver"),
    (Constraints(terms=(name_is("nobody"),)),                       "",                   ""),
    (Constraints(terms=()),        "",                                                    ""),
    (Constraints(terms=(Term(),)), "",                                                    ""),
    (Constraints((tier("gold"),), tolerations=(Toleration("nvidia.com/gpu"),)),
                                   "gold, tainted, not ready, pressed",                   "gold, tainted"),
    (Constraints((tier("gold"),), tolerations=(Toleration(PASSING.key),)),
                                   "gold, not ready, pressed",                            "gold, pressed"),
]  # fmt: skip


@pytest.mark.parametrize(("constraints", "ever", "now"), PLACES)
def test_a_pod_may_use(constraints: Constraints, ever: str, now: str) -> None:
    nodes = tables()
    eligible = Eligibility(nodes)

    assert ", ".join(names_of(nodes, eligible.ever(constraints).tolist())) == ever
    assert ", ".join(names_of(nodes, eligible.now(constraints).tolist())) == now


# What hostile pods say.


def test_the_latest_constraints_are_cached() -> None:
    eligible = Eligibility(tables())
    for at in range(REMEMBERED + 10):
        assert not eligible.ever(Constraints((tier(f"tier-{at}"),))).any()

    assert {name: len(cache) for name, cache in eligible.caches().items()} == {
        "eligible": REMEMBERED,
        "labels": 1,
    }


def test_columns_of_labels_are_bounded() -> None:
    many = {f"key-{at}": "x" for at in range(MOST_KEYS + 10)}
    eligible = Eligibility(tables({"n": Attributes(Labels(many))}))
    constraints = Constraints(tuple(Requirement(key, Operator.EXISTS) for key in many))

    assert eligible.now(constraints).tolist() == [True]
    assert len(eligible.caches()["labels"]) == MOST_KEYS


def _terms(*requirements: Requirement) -> Constraints:
    return Constraints(terms=tuple(Term((requirement,)) for requirement in requirements))


HOSTILE = [
    ("a thousand keys that no node has",
     _terms(*(Requirement(f"key-{at}", Operator.IN, frozenset({"x"})) for at in range(1024)))),
    ("a thousand names",
     _terms(*(Requirement("host", Operator.IN, frozenset({f"n{at}", "x"})) for at in range(1024)))),
    ("a thousand numbers",
     _terms(*(Requirement("serial", Operator.GT, frozenset({str(10_000 + at)})) for at in range(1024)))),
    ("numbers of what has none",
     _terms(*(Requirement("host", Operator.LT, frozenset({str(at)})) for at in range(1024)))),
]  # fmt: skip


@pytest.fixture(scope="module")
def thousands() -> NodeTable:
    return tables({f"n{at}": Attributes(Labels({"host": f"n{at}", "serial": str(at)})) for at in range(5000)})


@pytest.mark.full
@pytest.mark.parametrize("constraints", table(HOSTILE))
def test_hostile_constraints_take_less_than_a_second(constraints: Constraints, thousands: NodeTable) -> None:
    eligible = Eligibility(thousands)
    eligible.now(ANYWHERE)

    begun = process_time()
    eligible.now(constraints)
    assert process_time() - begun < 1.0
